import { html, useMemo } from "../html.js";
import { pretty } from "../text.js";
import { Lines } from "./lines.js";

/** A value as JSON. */
export function Json({ value, label = "JSON" }) {
  const text = useMemo(() => pretty(value), [value]);
  return html`<${Lines} text=${text} label=${label} />`;
}
