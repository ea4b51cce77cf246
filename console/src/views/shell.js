import { html, useMemo, useState } from "../html.js";
import { Copy } from "../parts/copy.js";
import { shortLine, visible } from "../text.js";
import { AnsiLines, drawParts } from "./ansi.js";

const LINES_MAX = 400;
const COMMAND_MAX = 20_000; // characters

export function ShellOutput({ view }) {
  const { command, stdout = "", stderr = "", exitCode } = view;
  return html`
    <div class="shell-output">
      ${typeof command === "string" && html`<pre class="shell-command" tabindex="0" role="group" aria-label="Command"><span aria-hidden="true">$ </span>${shortLine(command, visible, COMMAND_MAX)}</pre>`}
      <${Output} text=${stdout} label="Output" />
      ${stderr && html`<p class="muted">Standard error</p><${Output} text=${stderr} label="Standard error" />`}
      ${Number.isFinite(exitCode) && html`<p><span class=${`tag ${exitCode === 0 ? "good" : "bad"}`}>exit ${exitCode}</span></p>`}
    </div>
  `;
}

function Output({ text, label }) {
  const [limit, setLimit] = useState(LINES_MAX);
  const lines = useMemo(() => text.replace(/\n$/, "").split("\n"), [text]);
  const drawn = useMemo(() => {
    const ansi = new AnsiLines();
    return lines.slice(0, limit).map((line) => [...drawParts(ansi.read(line)), "\n"]);
  }, [lines, limit]);
  if (!text) return html`<p class="muted">No output.</p>`;
  return html`
    <div class="lines">
      <div class="lines-tools"><${Copy} text=${text} /></div>
      <pre tabindex="0" role="group" aria-label=${label}>${drawn}</pre>
      ${lines.length > limit &&
      html`<button type="button" onClick=${() => setLimit(limit * 4)}>Show more of ${lines.length.toLocaleString()} lines</button>`}
    </div>
  `;
}
