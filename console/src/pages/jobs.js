import { html } from "../html.js";
import { Page } from "../parts/index.js";

export default function Jobs() {
  return html`<${Page} title="Jobs"><//>`;
}
