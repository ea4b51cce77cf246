import { html, useState } from "../html.js";
import { count, oneLine } from "../text.js";

const FILES_MAX = 200;
const ACTIONS = { created: "good", modified: "warn", deleted: "bad" };
const STATES = {
  completed: ["✓", "done"],
  in_progress: ["◐", "in progress"],
  pending: ["○", "to do"],
  cancelled: ["✕", "cancelled"],
};

export function FileList({ view }) {
  const groups = Array.isArray(view.groups) ? view.groups : [{ label: "", files: view.files }];
  const shown = groups.reduce((sum, group) => sum + group.files.length, 0);
  const total = Number.isFinite(view.total) ? view.total : shown;
  return html`
    <div class="file-list">
      ${groups.map((group, index) => html`<${FileGroup} key=${index} group=${group} />`)}
      <p class="muted">${total > shown ? `The first ${shown.toLocaleString()} of ${count(total, "file")}.` : count(total, "file")}</p>
    </div>
  `;
}

function FileGroup({ group }) {
  const [limit, setLimit] = useState(FILES_MAX);
  return html`
    ${group.label && html`<p class="file-group">${oneLine(group.label, 100)}</p>`}
    <ul>
      ${group.files.slice(0, limit).map(
        (file, index) => html`
          <li key=${index}>
            <span class="mono">${oneLine(file.path, 500)}${Number.isFinite(file.line) ? `:${file.line}` : ""}</span>
            ${typeof file.action === "string" && html` <span class=${`tag ${ACTIONS[file.action] ?? ""}`}>${oneLine(file.action, 20)}</span>`}
            ${typeof file.content === "string" && html` <span class="mono muted">${oneLine(file.content, 300)}</span>`}
          </li>
        `,
      )}
    </ul>
    ${group.files.length > limit && html`<button type="button" onClick=${() => setLimit(limit * 5)}>Show more files</button>`}
  `;
}

export function TodoList({ view }) {
  return html`
    <ul class="todo-list">
      ${view.items.slice(0, 500).map((item, index) => {
        const [mark, label] = STATES[item.status] ?? STATES.pending;
        return html`
          <li key=${index} class=${item.status === "completed" || item.status === "cancelled" ? "muted" : ""}>
            <span aria-hidden="true">${mark}</span><span class="hidden">${label}:</span> ${oneLine(item.content, 1000)}
            ${typeof item.priority === "string" && html` <span class="tag">${oneLine(item.priority, 20)}</span>`}
          </li>
        `;
      })}
    </ul>
  `;
}
