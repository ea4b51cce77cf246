import { html, useMemo, useState } from "../html.js";
import { shortLine } from "../text.js";
import { Copy } from "./copy.js";

const LINES_MAX = 500;

/** Plain text of any length: more lines on demand, long lines truncated. The copy is always complete. */
export function Lines({ text, label = "Text", class: name = "" }) {
  const [limit, setLimit] = useState(LINES_MAX);
  const lines = useMemo(() => text.split("\n"), [text]);
  const body = useMemo(() => lines.slice(0, limit).map((line) => shortLine(line)).join("\n"), [lines, limit]);
  return html`
    <div class=${`lines ${name}`}>
      <div class="lines-tools"><${Copy} text=${text} /></div>
      <pre tabindex="0" role="group" aria-label=${label}>${body}</pre>
      ${lines.length > limit &&
      html`<button type="button" onClick=${() => setLimit(limit * 4)}>
        Show more of ${lines.length.toLocaleString()} lines
      </button>`}
    </div>
  `;
}
