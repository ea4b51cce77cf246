/** Text for display: characters that are invisible or reorder text are escaped. */

// bidirectional and other format characters, and control characters except tab and newline
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

/** Return the text with invisible characters escaped, such as \u202e. */
export function visible(text) {
  return String(text ?? "").replace(HIDDEN, (character) => {
    const code = character.codePointAt(0);
    return code > 0xffff ? `\\u{${code.toString(16)}}` : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

/** Return the visible text in one line, truncated to a number of characters. */
export function oneLine(text, limit = 200) {
  const start = String(text ?? "").slice(0, limit + 1);
  const line = visible(start.slice(0, limit).replace(/\s+/g, " ").trim());
  return start.length > limit ? `${line}…` : line;
}

/** Return one line of a long text, visible, and truncated if it is very long. */
export function shortLine(line, limit = 2_000) {
  const rest = line.length - limit;
  return rest > 0 ? `${visible(line.slice(0, limit))}… ${rest.toLocaleString()} more characters` : visible(line);
}

/** Return "1 call", "2 calls". */
export function count(number, noun, plural = `${noun}s`) {
  return `${number.toLocaleString()} ${number === 1 ? noun : plural}`;
}

/** Format a duration in milliseconds: 3 ms, 1.2 s, 4 min. */
export function duration(ms) {
  if (!Number.isFinite(ms)) return "";
  if (ms < 1) return "<1 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
  return `${Math.floor(ms / 3_600_000)} h ${Math.round((ms % 3_600_000) / 60_000)} min`;
}

/** Format a number of bytes: 512 B, 1.4 KB. */
export function bytes(number) {
  if (!Number.isFinite(number)) return "";
  const units = ["B", "KB", "MB", "GB"];
  let unit = 0;
  while (number >= 1000 && unit < units.length - 1) {
    number /= 1000;
    unit += 1;
  }
  return `${unit ? number.toFixed(1) : number} ${units[unit]}`;
}

/** Format a cost in dollars. */
export function money(dollars) {
  return `$${dollars.toFixed(dollars < 1 ? 4 : 2)}`;
}

/** Return a value as indented JSON. */
export function pretty(value) {
  return JSON.stringify(value, null, 2) ?? "";
}
