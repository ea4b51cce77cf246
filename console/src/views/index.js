/** Views: how a result is shown to people. */
import { html } from "../html.js";
import { Lines } from "../parts/lines.js";

/** Draw a view of any type; unknown or broken ones, and results without a view, as text. */
export function View({ view, text = "" }) {
  return html`<${Lines} text=${text} />`;
}
