import { html, useLayoutEffect, useRef, useState } from "../html.js";
import { Lines } from "../parts/lines.js";
import { oneLine } from "../text.js";

/** Sanitised Markdown; the plain text until it is drawn, or if that fails. */
export function Markdown({ view }) {
  const element = useRef(null);
  const [isDrawn, setDrawn] = useState(false);
  // a layout effect: other effects end only after the next frame, when the element has gone
  useLayoutEffect(() => {
    let isCurrent = true;
    import("./rendering.js").then(
      ({ rendered }) => {
        if (!isCurrent) return;
        element.current.replaceChildren(rendered(view.content));
        setDrawn(true);
      },
      () => {},
    );
    return () => (isCurrent = false);
  }, [view.content]);
  return html`
    ${typeof view.sourceUrl === "string" && html`<p class="muted mono">${oneLine(view.sourceUrl, 300)}</p>`}
    <div class="markdown" ref=${element}></div>
    ${!isDrawn && html`<${Lines} text=${view.content} />`}
  `;
}
