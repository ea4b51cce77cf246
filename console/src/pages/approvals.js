import { html } from "../html.js";
import { Page } from "../parts/index.js";

export default function Approvals() {
  return html`<${Page} title="Approvals"><//>`;
}
