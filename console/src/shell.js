/** The shell around the pages: navigation, the state of the connection, and the keys that work everywhere. */
import { chooseWorkspace, workspace, workspaces } from "./api.js";
import { approvals, connection, questions, reconnect } from "./events.js";
import { Component, computed, effect, html, signal, useEffect, useRef, useState } from "./html.js";
import { activeKeys, globalKeys, hasSingleKeys } from "./keys.js";
import { Palette } from "./palette.js";
import { Dialog, ErrorBox, Field, Loading } from "./parts/index.js";
import { PAGES, navigate, page } from "./router.js";
import { oneLine } from "./text.js";
import { THEMES, theme } from "./theme.js";

/** The number of pending approvals and questions. */
export const waiting = computed(() => (approvals.value?.length ?? 0) + (questions.value?.length ?? 0));

const loaded = signal({});
const opened = signal(null); // "palette" or "keys"

effect(() => {
  const name = PAGES.find(([id]) => id === page.value)[1];
  document.title = `${waiting.value ? `(${waiting.value}) ` : ""}${name} · hilt`;
});

Object.assign(globalKeys, {
  "Ctrl K": { label: "Find a page, tool or call", run: () => (opened.value = "palette") },
  "?": { label: "Show keyboard shortcuts", run: () => (opened.value = "keys") },
  a: { label: "Go to Approvals", run: () => navigate("/approvals") },
  "/": { label: "Go to the filter", run: () => document.querySelector("[data-filter]")?.focus() },
});
PAGES.forEach(([id, name], index) => {
  globalKeys[String((index + 1) % 10)] = { label: name, run: () => navigate(`/${id}`) };
});

async function load([id, , module]) {
  let component;
  try {
    component = (await module()).default;
  } catch {
    const error = { message: "This page cannot be loaded.", suggestion: "Reload the page." };
    component = () => html`<${ErrorBox} error=${error} retry=${() => location.reload()} />`;
  }
  loaded.value = { ...loaded.value, [id]: component };
}

export function Shell() {
  const id = page.value;
  const main = useRef(null);
  const isFirst = useRef(true);
  useEffect(() => {
    if (!loaded.value[id]) load(PAGES.find(([other]) => other === id));
    if (!isFirst.current) main.current.focus(); // so that the next key and a screen reader start on the new page
    isFirst.current = false;
    main.current.scrollTop = 0;
    document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }); // in a narrow window
  }, [id]);
  useEffect(() => {
    const idle = window.requestIdleCallback ?? ((work) => setTimeout(work, 500));
    idle(() => PAGES.forEach((other) => loaded.value[other[0]] || load(other)));
  }, []);
  const Current = loaded.value[id];
  return html`
    <a class="skip" href="#main" onClick=${(event) => (event.preventDefault(), main.current.focus())}>Skip to content</a>
    <div class="shell">
      <header class="side">
        <p class="brand" aria-hidden="true">hilt</p>
        <nav aria-label="Pages">
          <ul>
            ${PAGES.map(([other, name]) => html`<${PageLink} key=${other} id=${other} name=${name} />`)}
          </ul>
        </nav>
        <${Footer} />
      </header>
      <main id="main" ref=${main} tabindex="-1">
        <${ConnectionLost} />
        ${Current ? html`<${Guarded} key=${`${id} ${workspace.value}`}><${Current} /><//>` : html`<${Loading} />`}
      </main>
    </div>
    ${opened.value === "palette" && html`<${Palette} onClose=${() => (opened.value = null)} />`}
    ${opened.value === "keys" && html`<${Keys} onClose=${() => (opened.value = null)} />`}
  `;
}

/** A page; if it fails, the others still work. */
class Guarded extends Component {
  static getDerivedStateFromError(error) {
    return { error };
  }

  render({ children }, { error }) {
    if (!error) return children;
    const problem = { message: `This page failed: ${error.message}`, suggestion: "Reload it; if it fails again, report the bug." };
    return html`<div class="page"><${ErrorBox} error=${problem} retry=${() => location.reload()} /></div>`;
  }
}

function PageLink({ id, name }) {
  const number = id === "approvals" ? waiting.value : 0;
  return html`
    <li>
      <a href=${`/${id}`} aria-current=${page.value === id ? "page" : undefined}>
        ${name}${number > 0 && html` <span class="badge">${number}</span>`}
      </a>
    </li>
  `;
}

function Footer() {
  const labels = { open: "Live", connecting: "Connecting", lost: "Not connected", refused: "Invalid token" };
  return html`
    <div class="side-foot">
      <p class=${`connection ${connection.value}`} role="status">${labels[connection.value]}</p>
      <${Folder} />
      <${Field}
        label="Theme"
        value=${theme.value}
        onInput=${(value) => (theme.value = value)}
        options=${THEMES.map((name) => [name, name[0].toUpperCase() + name.slice(1)])}
      />
      <div class="side-buttons">
        <button type="button" class="small" onClick=${() => (opened.value = "palette")}>Find <kbd>Ctrl K</kbd></button>
        <button type="button" class="small" onClick=${() => (opened.value = "keys")}>Keys <kbd>?</kbd></button>
      </div>
    </div>
  `;
}

/** Selects the folder that the pages show. */
function Folder() {
  if (workspaces.value.length < 2) return null;
  return html`
    <${Field}
      label="Folder"
      value=${workspace.value ?? workspaces.value[0]}
      onInput=${chooseWorkspace}
      options=${workspaces.value.map((folder) => [folder, oneLine(folder.split("/").filter(Boolean).slice(-2).join("/") || folder, 40)])}
    />
  `;
}

function ConnectionLost() {
  if (connection.value !== "lost") return null;
  return html`
    <div class="lost" role="alert">
      The connection to hilt serve is lost; this page may be out of date. Reconnecting automatically.
      <button type="button" class="small" onClick=${reconnect}>Reconnect now</button>
    </div>
  `;
}

function Keys({ onClose }) {
  const [keys] = useState(activeKeys);
  return html`
    <${Dialog} title="Keyboard shortcuts" onClose=${onClose}>
      <dl class="keys">
        ${keys.map(([key, label]) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${label}</dd></div>`)}
      </dl>
      <label class="check">
        <input
          type="checkbox"
          checked=${hasSingleKeys.value}
          onChange=${(event) => (hasSingleKeys.value = event.currentTarget.checked)}
        />
        Use single-key shortcuts outside text fields
      </label>
    <//>
  `;
}

/** The page without a valid token. */
export function TokenMissing() {
  return html`
    <main class="alone">
      <h1>hilt</h1>
      <p>This page needs a valid token.</p>
      <p>
        Open the URL that <code>hilt serve</code> prints on its first line: it ends with <code>#token=…</code>. If you
        cannot see that output, restart <code>hilt serve</code> in a terminal.
      </p>
    </main>
  `;
}
