import { html } from "../html.js";
import { Page } from "../parts/index.js";

export default function Tasks() {
  return html`<${Page} title="Tasks"><//>`;
}
