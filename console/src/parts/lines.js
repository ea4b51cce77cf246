import { html, useMemo, useState } from "../html.js";
import { shortLine } from "../text.js";
import { Copy } from "./copy.js";

const LINES_MAX = 500;

/** Plain text, however long: more lines on demand, long lines cut. The copy is always complete. */
export function Lines({ text, label = "Text", class: name = "" }) {
  const [most, setMost] = useState(LINES_MAX);
  const lines = useMemo(() => text.split("\n"), [text]);
  const body = useMemo(() => lines.slice(0, most).map((line) => shortLine(line)).join("\n"), [lines, most]);
  return html`
    <div class=${`lines ${name}`}>
      <div class="lines-tools"><${Copy} text=${text} /></div>
      <pre tabindex="0" role="group" aria-label=${label}>${body}</pre>
      ${lines.length > most &&
      html`<button type="button" onClick=${() => setMost(most * 4)}>
        Show more of ${lines.length.toLocaleString()} lines
      </button>`}
    </div>
  `;
}
