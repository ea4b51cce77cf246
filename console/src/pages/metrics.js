import { html } from "../html.js";
import { Page } from "../parts/index.js";

export default function Metrics() {
  return html`<${Page} title="Metrics"><//>`;
}
