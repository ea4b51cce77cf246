import { html, useEffect, useId, useRef } from "../html.js";

/**
 * A modal dialog. Escape, the close button and a click beside it call `onClose`.
 *
 * It focuses the element with `data-first`, and restores the focus when it closes.
 */
export function Dialog({ title, onClose, wide, children, footer }) {
  const element = useRef(null);
  const heading = useId();
  useEffect(() => {
    const dialog = element.current;
    const before = document.activeElement;
    if (!dialog.open) dialog.showModal();
    dialog.querySelector("[data-first]")?.focus();
    return () => {
      dialog.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  const cancel = (event) => {
    event.preventDefault();
    onClose();
  };
  return html`
    <dialog
      ref=${element}
      class=${wide ? "wide" : ""}
      aria-labelledby=${heading}
      onCancel=${cancel}
      onClick=${(event) => event.target === element.current && onClose()}
    >
      <div class="dialog-body">
        <header class="dialog-head">
          <h2 id=${heading}>${title}</h2>
          <button type="button" class="quiet" aria-label="Close" onClick=${onClose}>✕</button>
        </header>
        <div class="dialog-content">${children}</div>
        ${footer && html`<footer class="dialog-foot">${footer}</footer>`}
      </div>
    </dialog>
  `;
}
