import { html, useMemo, useRef, useState } from "../html.js";
import { oneLine, visible } from "../text.js";
import { Copy } from "./copy.js";
import { Field } from "./field.js";
import { useVirtual } from "./virtual-list.js";

const VIRTUAL_ROWS = 200;

/**
 * A table that can be sorted, filtered and copied as CSV.
 *
 * columns: [{key, label, isNumber, value: (row) => …, cell: (row) => …}]; `value` is sorted, filtered and copied, and
 * `cell` is shown. `tools` false hides the filter and the copy button.
 */
export function DataTable({ columns, rows, label, keyOf = (row, index) => index, tools = true, sort: firstSort = null }) {
  const [filter, setFilter] = useState("");
  const [sort, setSort] = useState(firstSort);
  const valueOf = (column, row) => (column.value ? column.value(row) : row[column.key]);
  const shown = useMemo(() => {
    const text = filter.trim().toLowerCase();
    const matches = text
      ? rows.filter((row) => columns.some((column) => plain(valueOf(column, row)).toLowerCase().includes(text)))
      : rows;
    const column = sort && columns.find(({ key }) => key === sort.key);
    if (!column) return matches;
    const sign = sort.isDown ? -1 : 1;
    return [...matches].sort((one, other) => sign * compare(valueOf(column, one), valueOf(column, other)));
  }, [rows, filter, sort, columns]);
  const toggleSort = (key) => setSort(sort?.key !== key ? { key, isDown: false } : sort.isDown ? null : { key, isDown: true });
  const head = html`
    <thead>
      <tr>
        ${columns.map(
          ({ key, label: name, isNumber }) => html`
            <th
              key=${key}
              scope="col"
              class=${isNumber ? "number" : ""}
              aria-sort=${sort?.key === key ? (sort.isDown ? "descending" : "ascending") : "none"}
            >
              <button type="button" class="sort" onClick=${() => toggleSort(key)}>
                ${visible(name)}<span aria-hidden="true">${sort?.key === key ? (sort.isDown ? " ↓" : " ↑") : ""}</span>
              </button>
            </th>
          `,
        )}
      </tr>
    </thead>
  `;
  const draw = (row, index, isCut) => html`
    <tr key=${keyOf(row, index)}>
      ${columns.map(
        (column) => html`
          <td key=${column.key} class=${column.isNumber ? "number" : ""}>
            ${column.cell ? column.cell(row) : isCut ? oneLine(plain(valueOf(column, row))) : oneLine(plain(valueOf(column, row)), 2000)}
          </td>
        `,
      )}
    </tr>
  `;
  const parts = { label, head, rows: shown, draw, keyOf, width: columns.length };
  return html`
    <div class="data-table">
      ${tools &&
      html`<div class="table-tools">
        <${Field} label="Filter rows" hidden placeholder="Filter rows" value=${filter} onInput=${setFilter} />
        <span class="muted" role="status">${shown.length === rows.length ? "" : `${shown.length} of ${rows.length}`}</span>
        <${Copy} label="Copy as CSV" text=${() => csv(columns, shown, valueOf)} />
      </div>`}
      ${shown.length > VIRTUAL_ROWS ? html`<${VirtualTable} ...${parts} />` : html`<${PlainTable} ...${parts} />`}
    </div>
  `;
}

function PlainTable({ label, head, rows, draw }) {
  return html`
    <div class="table-scroll" tabindex="0" role="group" aria-label=${label}>
      <table aria-label=${label}>${head}<tbody>${rows.map((row, index) => draw(row, index, false))}</tbody></table>
    </div>
  `;
}

function VirtualTable({ label, head, rows, draw, keyOf, width }) {
  const scroller = useRef(null);
  const virtual = useVirtual({ scroller, count: rows.length, estimate: 32, keyAt: (index) => keyOf(rows[index], index) });
  const items = virtual.getVirtualItems();
  const above = items.length ? items[0].start : 0;
  const below = items.length ? virtual.getTotalSize() - items.at(-1).end : 0;
  const space = (height) => html`<tr aria-hidden="true" class="space"><td colspan=${width} style=${{ height: `${height}px` }}></td></tr>`;
  return html`
    <div class="table-scroll tall" tabindex="0" role="group" aria-label=${label} ref=${scroller}>
      <table class="fixed" aria-label=${label} aria-rowcount=${rows.length + 1}>
        ${head}
        <tbody>
          ${space(above)} ${items.map((item) => draw(rows[item.index], item.index, true))} ${space(below)}
        </tbody>
      </table>
    </div>
  `;
}

function plain(value) {
  return value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
}

function compare(one, other) {
  if (typeof one === "number" && typeof other === "number") return one - other;
  return plain(one).localeCompare(plain(other), undefined, { numeric: true });
}

function csv(columns, rows, valueOf) {
  // a leading apostrophe keeps a spreadsheet from running a cell as a formula
  const cell = (value) => {
    const text = plain(value);
    return `"${(typeof value !== "number" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
  };
  const lines = [columns.map(({ label }) => cell(label)), ...rows.map((row) => columns.map((column) => cell(valueOf(column, row))))];
  return lines.map((line) => line.join(",")).join("\r\n");
}
