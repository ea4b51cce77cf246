import { html } from "../html.js";
import { Page } from "../parts/index.js";

export default function Agents() {
  return html`<${Page} title="Agents"><//>`;
}
