import { html, useMemo, useState } from "../html.js";
import { LINE_MAX, shortLine } from "../text.js";
import { Copy } from "./copy.js";
import { useReview } from "./review.js";

const LINES_MAX = 500;
const WHOLE_MAX = 20_000; // lines that a browser can draw at once

/** Return how much of a text's lines to show: {limit, width, text, showMore}; a review may want all of them. */
export function useLimits(lines, start = LINES_MAX) {
  const [more, setMore] = useState(start);
  const isLong = useMemo(() => lines.some((line) => line.length > LINE_MAX), [lines]);
  const isWhole = useReview().isWhole.value;
  const limit = isWhole ? Math.max(more, WHOLE_MAX) : more;
  const { text } = useReview(lines.length > limit || (isLong && !isWhole));
  return { limit, width: isWhole ? Infinity : LINE_MAX, text, showMore: () => setMore(limit * 4) };
}

/** Plain text of any length: more lines on demand, long lines truncated. The copy is always complete. */
export function Lines({ text, label = "Text", class: name = "" }) {
  const lines = useMemo(() => text.split("\n"), [text]);
  const { limit, width, text: show, showMore } = useLimits(lines);
  const body = useMemo(() => lines.slice(0, limit).map((line) => shortLine(line, show, width)).join("\n"), [lines, limit, width, show]);
  return html`
    <div class=${`lines ${name}`}>
      <div class="lines-tools"><${Copy} text=${text} /></div>
      <pre tabindex="0" role="group" aria-label=${label}>${body}</pre>
      ${lines.length > limit &&
      html`<button type="button" onClick=${showMore}>
        Show more of ${lines.length.toLocaleString()} lines
      </button>`}
    </div>
  `;
}
