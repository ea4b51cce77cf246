/** Ctrl K: find a page, a tool or a call. */
import { api, here } from "./api.js";
import { calls } from "./events.js";
import { html, useEffect, useId, useMemo, useRef, useState } from "./html.js";
import { Dialog } from "./parts/index.js";
import { PAGES, navigate } from "./router.js";
import { oneLine } from "./text.js";
import { mainArgument } from "./calls.js";

const RESULTS_MAX = 30;

export function Palette({ onClose }) {
  const [text, setText] = useState("");
  const [index, setIndex] = useState(0);
  const [tools, setTools] = useState(null); // null until they are loaded
  const [isEntered, setEntered] = useState(false);
  const list = useRef(null);
  const id = useId();
  useEffect(() => {
    api.get("/v1/tools", here()).then((answer) => setTools(answer.tools), () => setTools([]));
  }, []);
  const results = useMemo(() => find(text, tools), [text, tools]);
  const chosen = Math.min(index, results.length - 1);
  useEffect(() => list.current?.children[chosen]?.scrollIntoView({ block: "nearest" }), [chosen]);
  const open = (result) => {
    onClose();
    navigate(result.href);
  };
  // Enter waits for the tools: users may type a name before they are loaded
  useEffect(() => {
    if (!isEntered || !tools) return;
    setEntered(false);
    if (results[chosen]) open(results[chosen]);
  }, [isEntered, tools]);
  const press = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) setIndex((chosen + step + results.length) % results.length || 0);
    else if (event.key === "Enter" && results[chosen]) open(results[chosen]);
    else if (event.key === "Enter" && !tools) setEntered(true);
    else return;
    event.preventDefault();
  };
  return html`
    <${Dialog} title="Find a page, tool or call" onClose=${onClose}>
      <input
        type="text"
        class="palette-input"
        role="combobox"
        aria-label="Find"
        aria-expanded="true"
        aria-controls=${id}
        aria-activedescendant=${results.length ? `${id}-${chosen}` : undefined}
        autocomplete="off"
        spellcheck="false"
        data-first
        value=${text}
        onInput=${(event) => (setText(event.currentTarget.value), setIndex(0), setEntered(false))}
        onKeyDown=${press}
      />
      <ul class="palette" role="listbox" id=${id} aria-label="Results" ref=${list}>
        ${results.map(
          (result, at) => html`
            <li
              key=${result.href}
              id=${`${id}-${at}`}
              role="option"
              aria-selected=${at === chosen}
              onClick=${() => open(result)}
              onMouseMove=${() => setIndex(at)}
            >
              <span class="palette-kind">${result.kind}</span>
              <span class="palette-name">${result.name}</span>
              <span class="palette-detail">${result.detail}</span>
            </li>
          `,
        )}
      </ul>
      ${!results.length && html`<p class="muted">${tools ? "No matches." : "Loading the tools…"}</p>`}
    <//>
  `;
}

/** Return the matches: pages, then tools, then calls. Until the tools are loaded, only pages, so that no result moves. */
function find(text, tools) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = (name) => words.every((word) => name.toLowerCase().includes(word));
  const results = PAGES.filter(([, name]) => matches(name)).map(([id, name]) => ({ kind: "Page", name, detail: "", href: `/${id}` }));
  if (!tools) return results;
  for (const tool of tools) {
    if (words.length && matches(tool.name)) {
      const detail = oneLine(tool.description, 80);
      results.push({ kind: "Tool", name: oneLine(tool.name, 60), detail, href: `/tools?name=${encodeURIComponent(tool.name)}` });
    }
  }
  for (let at = calls.rows.length - 1; at >= 0 && results.length < RESULTS_MAX && words.length; at -= 1) {
    const call = calls.rows[at];
    const detail = oneLine(mainArgument(call), 80);
    if (matches(`${call.tool} ${detail} ${call.session}`)) {
      results.push({ kind: "Call", name: oneLine(call.tool, 60), detail, href: `/activity?call=${encodeURIComponent(call.key)}` });
    }
  }
  return results.slice(0, RESULTS_MAX);
}
