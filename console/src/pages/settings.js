import { html } from "../html.js";
import { Page } from "../parts/index.js";

export default function Settings() {
  return html`<${Page} title="Settings"><//>`;
}
