import { html, useId, useRef, useState } from "../html.js";

/** Tabs: `tabs` is [[name, () => content], …]; arrow keys move between them. */
export function Tabs({ tabs, label, first = 0 }) {
  const [current, setCurrent] = useState(first);
  const id = useId();
  const list = useRef(null);
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const next = step ? (current + step + tabs.length) % tabs.length : { Home: 0, End: tabs.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    setCurrent(next);
    list.current.children[next].focus();
  };
  return html`
    <div class="tabs">
      <div role="tablist" aria-label=${label} ref=${list} onKeyDown=${move}>
        ${tabs.map(
          ([name], index) => html`
            <button
              key=${name}
              type="button"
              role="tab"
              id=${`${id}-${index}`}
              aria-selected=${index === current}
              aria-controls=${`${id}-panel`}
              tabindex=${index === current ? 0 : -1}
              onClick=${() => setCurrent(index)}
            >${name}</button>
          `,
        )}
      </div>
      <div role="tabpanel" id=${`${id}-panel`} aria-labelledby=${`${id}-${current}`} tabindex="0" key=${current}>
        ${tabs[current][1]()}
      </div>
    </div>
  `;
}
