import { html } from "../html.js";
import { Page } from "../parts/index.js";

export default function Audit() {
  return html`<${Page} title="Audit"><//>`;
}
