import { html } from "../html.js";
import { Page } from "../parts/index.js";

export default function Tools() {
  return html`<${Page} title="Tools"><//>`;
}
