/** Text for display: characters that are invisible or reorder text are escaped. */
import { HIDDEN } from "./hidden-characters.js";

export const LINE_MAX = 2_000; // characters of a line, unless all of it is wanted

const SHOWN = new RegExp(`[${HIDDEN}\\p{Cs}]`, "gu");
const UNKNOWN = /[\p{Co}\p{Cn}]/gu;
const MARKS = /(?<=\p{M}{4})\p{M}/gu; // more combining marks on a character would cover the lines around it
const TYPOGRAPHIC = "\u00a0\u2009\u202f\u3000"; // spaces in ordinary French, Chinese or Japanese text
const JOINERS = "\u200c\u200d\ufe0e\ufe0f"; // they shape Persian and Indic words, and emoji

/** Return the text with invisible characters escaped, such as \u202e; what ordinary text of any language has stays. */
export function visible(text) {
  return String(text ?? "").replace(MARKS, escaped).replace(SHOWN, ordinary);
}

/** Return the text with all invisible and unknown characters escaped, for what a person decides about. */
export function exact(text) {
  return String(text ?? "").replace(MARKS, escaped).replace(SHOWN, escaped).replace(UNKNOWN, escaped);
}

/** Return a typographic space, or a joiner between characters that it can join, as it is. */
function ordinary(character, offset, whole) {
  if (TYPOGRAPHIC.includes(character)) return character;
  if (JOINERS.includes(character)) {
    const before = /.?$/su.exec(whole.slice(Math.max(0, offset - 2), offset))[0];
    const after = String.fromCodePoint(whole.codePointAt(offset + 1) ?? 0);
    const isSelector = character >= "\ufe00";
    if (isSelector ? isSeen(before) || after === "\u20e3" : (before === "\ufe0f" || isSeen(before)) && isSeen(after)) return character;
  }
  return escaped(character);
}

function isSeen(character) {
  return character > "\x7f" && character.search(SHOWN) < 0;
}

function escaped(character) {
  const code = character.codePointAt(0);
  return code > 0xffff ? `\\u{${code.toString(16)}}` : `\\u${code.toString(16).padStart(4, "0")}`;
}

/** Return the visible text in one line, truncated to a number of characters. */
export function oneLine(text, limit = 200) {
  const start = String(text ?? "").slice(0, limit + 1);
  const line = visible(start.slice(0, limit).replace(/[ \t\r\n\f]+/g, " ").replace(/^ | $/g, ""));
  return start.length > limit ? `${line}…` : line;
}

/** Return one line of a long text, visible, and truncated if it is very long. */
export function shortLine(line, show = visible, limit = LINE_MAX) {
  const rest = line.length - limit;
  return rest > 0 ? `${show(line.slice(0, limit))}… ${rest.toLocaleString()} more characters` : show(line);
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
