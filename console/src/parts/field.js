import { html, useId } from "../html.js";

/** A labelled text field, or with `options` a list to choose from; `onInput` receives the value. `hidden` hides the label. */
export function Field({ label, value, onInput, options, multiline, hidden, hint, inputRef, ...rest }) {
  const id = useId();
  const attributes = { id, value, onInput: (event) => onInput?.(event.currentTarget.value), ref: inputRef, ...rest };
  if (hint) attributes["aria-describedby"] = `${id}-hint`;
  const control = options
    ? html`<select ...${attributes}>
        ${options.map((option) => {
          const [key, text] = Array.isArray(option) ? option : [option, option];
          return html`<option key=${key} value=${key} selected=${key === value}>${text}</option>`;
        })}
      </select>`
    : multiline
      ? html`<textarea rows="3" spellcheck="false" ...${attributes}></textarea>`
      : html`<input type="text" spellcheck="false" autocomplete="off" ...${attributes} />`;
  return html`
    <div class="field">
      <label for=${id} class=${hidden ? "hidden" : ""}>${label}</label>
      ${control}
      ${hint && html`<p class="hint" id=${`${id}-hint`}>${hint}</p>`}
    </div>
  `;
}
