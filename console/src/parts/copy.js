import { html, useState } from "../html.js";

/** A button that copies text; `text` may be a function. */
export function Copy({ text, label = "Copy" }) {
  const [state, setState] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(typeof text === "function" ? text() : text);
      setState("Copied");
    } catch {
      setState("Not allowed by the browser");
    }
    setTimeout(() => setState(""), 1500);
  };
  return html`<button type="button" class="small" onClick=${copy}>${state || label}</button>`;
}
