import { html, signal, useEffect, useId, useRef } from "../html.js";

/** How many dialogs cover the page. */
export const openDialogs = signal(0);

/**
 * A modal dialog. Escape, the close button and a click beside it call `onClose`.
 *
 * It focuses the element with `data-first` as soon as that is enabled, and restores the focus when it closes.
 */
export function Dialog({ title, onClose, wide, children, footer }) {
  const element = useRef(null);
  const isPlaced = useRef(false); // the focus
  const heading = useId();
  useEffect(() => {
    const dialog = element.current;
    const before = document.activeElement;
    if (!dialog.open) dialog.showModal();
    openDialogs.value += 1;
    dialog.focus(); // not the close button: Enter does nothing yet
    return () => {
      openDialogs.value -= 1;
      dialog.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  useEffect(() => {
    const first = element.current.querySelector("[data-first]:not(:disabled)");
    if (isPlaced.current || !first) return;
    isPlaced.current = true;
    if (document.activeElement === element.current) first.focus();
  });
  const cancel = (event) => {
    event.preventDefault();
    onClose();
  };
  return html`
    <dialog
      ref=${element}
      class=${wide ? "wide" : ""}
      aria-labelledby=${heading}
      tabindex="-1"
      onCancel=${cancel}
      onKeyDown=${(event) => event.repeat && event.key === "Enter" && event.preventDefault()}
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
