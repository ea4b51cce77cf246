/** Views: how results are shown. All text in them is untrusted. */
import { Component, html } from "../html.js";
import { DataTable } from "../parts/data-table.js";
import { Lines } from "../parts/lines.js";
import { oneLine, visible } from "../text.js";
import { Code } from "./code.js";
import { Diff, Diffs } from "./diff.js";
import { FileList, TodoList } from "./lists.js";
import { Images } from "./images.js";
import { Markdown } from "./markdown.js";
import { ShellOutput } from "./shell.js";

const isText = (value) => typeof value === "string";
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const isListOf = (check) => (value) => Array.isArray(value) && value.every(check);
const isDiff = (view) =>
  isObject(view) &&
  isText(view.path) &&
  isListOf((hunk) => isObject(hunk) && isListOf((change) => isObject(change) && isText(change.content))(hunk.changes))(view.hunks);

// type -> [whether a view is valid, how it is drawn]
const TYPES = {
  diff: [isDiff, (view) => html`<${Diff} view=${view} />`],
  diffs: [(view) => isListOf(isDiff)(view.items), (view) => html`<${Diffs} view=${view} />`],
  code: [(view) => isText(view.content), (view) => html`<${Code} view=${view} />`],
  "file-list": [
    ({ groups, files }) =>
      isListOf((file) => isObject(file) && isText(file.path))(files ?? []) &&
      isListOf((group) => isObject(group) && isListOf((file) => isObject(file) && isText(file.path))(group.files))(groups ?? []) &&
      Boolean(groups ?? files),
    (view) => html`<${FileList} view=${view} />`,
  ],
  table: [
    ({ columns, rows }) => isListOf((column) => isObject(column) && isText(column.key))(columns) && isListOf(isObject)(rows),
    (view) => html`<${TableView} view=${view} />`,
  ],
  markdown: [(view) => isText(view.content), (view) => html`<${Markdown} view=${view} />`],
  "shell-output": [
    (view) => isText(view.stdout ?? "") && isText(view.stderr ?? ""),
    (view) => html`<${ShellOutput} view=${view} />`,
  ],
  "todo-list": [
    ({ items }) => isListOf((item) => isObject(item) && isText(item.content))(items),
    (view) => html`<${TodoList} view=${view} />`,
  ],
  none: [() => true, ({ message }) => html`<p class="view-none">${visible(isText(message) ? message : "Nothing to show.")}</p>`],
};

/** Draw a view of any type; draw unknown or invalid views, and results without a view, as text. */
export function View({ view, text = "", content = [] }) {
  const type = isObject(view) && Object.hasOwn(TYPES, view.type) ? TYPES[view.type] : null;
  const isValid = type !== null && passes(type[0], view);
  const plain = html`<${Lines} text=${String(text)} label="Result" />`;
  return html`
    <div class="view">
      ${isValid ? html`<${Fallback} instead=${plain}><${Framed} view=${view} draw=${type[1]} /><//>` : plain}
      <${Images} content=${content} />
    </div>
  `;
}

function passes(check, view) {
  try {
    return check(view);
  } catch {
    return false;
  }
}

/** The parts that every type may have: a title, and whether it is closed at first. */
function Framed({ view, draw }) {
  const title = isText(view.title) && view.title ? oneLine(view.title, 300) : "";
  if (view.collapsed === true) {
    return html`<details class="view-closed"><summary>${title || "Show"}</summary>${draw(view)}</details>`;
  }
  return html`${title && html`<p class="view-title">${title}</p>`}${draw(view)}`;
}

/** Draws `instead` if its children fail to draw. */
class Fallback extends Component {
  static getDerivedStateFromError() {
    return { hasFailed: true };
  }

  render({ children, instead }, { hasFailed }) {
    return hasFailed ? instead : children;
  }
}

const COLUMNS_MAX = 50;

function TableView({ view }) {
  const columns = view.columns.slice(0, COLUMNS_MAX).map(({ key, label }) => ({
    key,
    label: oneLine(isText(label) ? label : key, 100),
    isNumber: view.rows.length > 0 && view.rows.every((row) => row[key] === undefined || typeof row[key] === "number"),
  }));
  const total = Number.isFinite(view.totalRows) ? view.totalRows : view.rows.length;
  return html`
    <${DataTable} columns=${columns} rows=${view.rows} label="Table" />
    ${view.columns.length > COLUMNS_MAX && html`<p class="muted">The first ${COLUMNS_MAX} of ${view.columns.length.toLocaleString()} columns.</p>`}
    ${total > view.rows.length && html`<p class="muted">The first ${view.rows.length.toLocaleString()} of ${total.toLocaleString()} rows.</p>`}
  `;
}
