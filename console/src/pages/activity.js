import { html } from "../html.js";
import { Page } from "../parts/index.js";

export default function Activity() {
  return html`<${Page} title="Activity"><//>`;
}
