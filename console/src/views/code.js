import { html, useEffect, useMemo, useState } from "../html.js";
import { Copy } from "../parts/copy.js";
import { useLimits } from "../parts/lines.js";
import { LINE_MAX, count, oneLine, shortLine } from "../text.js";

const HIGHLIGHTED_MAX = 60_000; // characters; the patterns of some languages are slow

/** Source code with line numbers, highlighted once the languages are loaded. */
export function Code({ view }) {
  const { content, language, path, created, lineCount } = view;
  const first = Number.isInteger(view.firstLine) ? view.firstLine : 1;
  return html`
    <div class="code">
      <div class="diff-head">
        <span class="mono">${oneLine(typeof path === "string" ? path : "", 300)}</span>
        ${created === true && html`<span class="tag good">created</span>`}
        ${Number.isInteger(lineCount) && html`<span class="muted">${count(lineCount, "line")}</span>`}
      </div>
      <${Source} text=${content} language=${language} first=${first} marked=${view.highlightLines} />
    </div>
  `;
}

/** Highlighted text with line numbers. */
export function Source({ text, language, first = 1, marked = [], label = "Code" }) {
  const [lines, setLines] = useState(null);
  const plain = useMemo(() => text.replace(/\n$/, "").split("\n"), [text]);
  const { limit, width, text: show, showMore } = useLimits(plain);
  useEffect(() => {
    setLines(null);
    if (typeof language !== "string" || text.length > HIGHLIGHTED_MAX || plain.some((line) => line.length > LINE_MAX)) return undefined;
    let isCurrent = true;
    import("./highlighting.js").then(({ highlighted }) => isCurrent && setLines(highlighted(plain.join("\n"), language)), () => {});
    return () => (isCurrent = false);
  }, [text, language]);
  const isMarked = new Set(Array.isArray(marked) ? marked : []);
  return html`
    <div class="lines source">
      <div class="lines-tools"><${Copy} text=${text} /></div>
      <pre tabindex="0" role="group" aria-label=${label}>${plain.slice(0, limit).map(
        (line, index) => html`
          <span key=${index} class=${`source-line${isMarked.has(first + index) ? " marked" : ""}`}>
            <span class="source-number" data-number=${first + index}></span>
            <span class="source-text">${lines?.[index]?.map((part, at) => drawPart(part, at, show)) ?? shortLine(line, show, width)}${"\n"}</span>
          </span>
        `,
      )}</pre>
      ${plain.length > limit && html`<button type="button" onClick=${showMore}>Show more of ${count(plain.length, "line")}</button>`}
    </div>
  `;
}

function drawPart({ text, scope }, index, show) {
  return scope ? html`<span key=${index} class=${`syntax-${scope}`}>${show(text)}</span>` : show(text);
}
