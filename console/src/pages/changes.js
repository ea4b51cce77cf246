import { html } from "../html.js";
import { Page } from "../parts/index.js";

export default function Changes() {
  return html`<${Page} title="Changes"><//>`;
}
