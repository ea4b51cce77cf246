import { html, useState } from "../html.js";
import { count, oneLine } from "../text.js";

const ROWS_MAX = 200;
const ACTIONS = { created: "good", modified: "warn", deleted: "bad" };
const STATES = {
  completed: ["✓", "done"],
  in_progress: ["◐", "in progress"],
  pending: ["○", "to do"],
  cancelled: ["✕", "cancelled"],
};

/** A list of any length: more rows on demand. */
export function Rows({ rows, draw, name = "", noun = "row" }) {
  const [limit, setLimit] = useState(ROWS_MAX);
  return html`
    <ul class=${name}>${rows.slice(0, limit).map(draw)}</ul>
    ${rows.length > limit && html`<button type="button" onClick=${() => setLimit(limit * 5)}>Show more of ${count(rows.length, noun)}</button>`}
  `;
}

export function FileList({ view }) {
  const groups = Array.isArray(view.groups) ? view.groups : [{ label: "", files: view.files }];
  // a label is a row too: there may be many groups without files
  const rows = groups.flatMap(({ label, files }) => [...(label ? [{ label }] : []), ...files]);
  const shown = groups.reduce((sum, group) => sum + group.files.length, 0);
  const total = Number.isFinite(view.total) ? view.total : shown;
  return html`
    <div class="file-list">
      <${Rows} rows=${rows} draw=${drawFile} noun="file" />
      <p class="muted">${total > shown ? `The first ${shown.toLocaleString()} of ${count(total, "file")}.` : count(total, "file")}</p>
    </div>
  `;
}

function drawFile({ label, path, line, action, content }, index) {
  if (path === undefined) return html`<li key=${index} class="file-group">${oneLine(label, 100)}</li>`;
  return html`
    <li key=${index}>
      <span class="mono">${oneLine(path, 500)}${Number.isFinite(line) ? `:${line}` : ""}</span>
      ${typeof action === "string" && html` <span class=${`tag ${ACTIONS[action] ?? ""}`}>${oneLine(action, 20)}</span>`}
      ${typeof content === "string" && html` <span class="mono muted">${oneLine(content, 300)}</span>`}
    </li>
  `;
}

export function TodoList({ view }) {
  return html`<${Rows} rows=${view.items} draw=${drawTodo} name="todo-list" noun="item" />`;
}

function drawTodo({ status, content, priority }, index) {
  const [mark, label] = STATES[status] ?? STATES.pending;
  return html`
    <li key=${index} class=${status === "completed" || status === "cancelled" ? "muted" : ""}>
      <span aria-hidden="true">${mark}</span><span class="hidden">${label}:</span> ${oneLine(content, 1000)}
      ${typeof priority === "string" && html` <span class="tag">${oneLine(priority, 20)}</span>`}
    </li>
  `;
}
