import { html } from "../html.js";
import { visible } from "../text.js";

/** A page: its heading, its actions, and its content. With `fills`, the content takes the height of the window. */
export function Page({ title, actions, fills, children }) {
  return html`
    <div class=${`page${fills ? " fills" : ""}`}>
      <header class="page-head">
        <h1 tabindex="-1">${title}</h1>
        <div class="page-actions">${actions}</div>
      </header>
      ${children}
    </div>
  `;
}

/** A section of a page, with its own heading. */
export function Section({ title, actions, children }) {
  return html`
    <section class="section" aria-label=${title}>
      <header class="section-head"><h2>${title}</h2>${actions}</header>
      ${children}
    </section>
  `;
}

/** The empty state of a list: the fact, and what to do. */
export function Empty({ title, children }) {
  return html`<div class="empty"><p class="empty-title">${title}</p>${children && html`<p>${children}</p>`}</div>`;
}

/** An error: what happened, what to do, and a button to try again. */
export function ErrorBox({ error, retry }) {
  if (!error) return null;
  return html`
    <div class="error-box" role="alert">
      <p>${visible(error.message)}</p>
      ${error.suggestion && html`<p class="muted">${visible(error.suggestion)}</p>`}
      ${retry && html`<button type="button" onClick=${retry}>Try again</button>`}
    </div>
  `;
}

/** Shown until the first rows arrive; requests time out after 30 seconds. */
export function Loading() {
  return html`<p class="loading" role="status">Loading…</p>`;
}
