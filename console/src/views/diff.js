import { diffWordsWithSpace } from "diff";
import { html, signal, useMemo, useState } from "../html.js";
import { count, oneLine, shortLine } from "../text.js";

const STORED = "hilt.diff";
const ROWS_MAX = 300;
const WORDS_MAX = 500; // characters of a line in which changed words are marked

/** "unified" or "split", for all diffs. */
const layout = signal(localStorage.getItem(STORED) === "split" ? "split" : "unified");

export function Diffs({ view }) {
  return html`<div class="diffs">${view.items.map((item, index) => html`<${Diff} key=${index} view=${item} hasOthers=${view.items.length > 8} />`)}</div>`;
}

export function Diff({ view, hasOthers = false }) {
  const [isOpen, setOpen] = useState(!hasOthers);
  const [limit, setLimit] = useState(ROWS_MAX);
  const hunks = useMemo(() => view.hunks.map((hunk) => rowsOf(hunk.changes)), [view]);
  const isSplit = layout.value === "split";
  const choose = () => {
    layout.value = isSplit ? "unified" : "split";
    localStorage.setItem(STORED, layout.value);
  };
  let remaining = limit;
  const drawn = [];
  hunks.forEach((rows, index) => {
    if (remaining <= 0) return;
    if (index) drawn.push(html`<tr key=${`gap${index}`} class="gap"><td colspan=${isSplit ? 4 : 3}><span aria-hidden="true">⋯</span></td></tr>`);
    const chosen = rows.slice(0, remaining);
    remaining -= chosen.length;
    drawn.push(...chosen.flatMap((row, at) => (isSplit ? splitRow(row, `${index}.${at}`) : unifiedRows(row, `${index}.${at}`))));
  });
  const total = hunks.reduce((sum, rows) => sum + rows.length, 0);
  return html`
    <div class="diff">
      <div class="diff-head">
        <button type="button" class="quiet diff-name" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>
          <span class="mono">${oneLine(view.path, 300)}</span>
        </button>
        <span class="good">+${view.additions ?? 0}</span> <span class="bad">−${view.deletions ?? 0}</span>
        <button type="button" class="small diff-layout" onClick=${choose}>${isSplit ? "Unified" : "Side by side"}</button>
      </div>
      ${view.notes?.length > 0 && html`<p class="muted mono">${oneLine(view.notes.join(", "), 500)}</p>`}
      ${isOpen &&
      html`<div class="diff-scroll" tabindex="0" role="group" aria-label=${`Changes to ${oneLine(view.path, 300)}`}>
        <table class=${isSplit ? "split" : "unified"}><tbody>${drawn}</tbody></table>
        ${!total && html`<p class="muted">No lines to show.</p>`}
      </div>`}
      ${isOpen && total > limit && html`<button type="button" onClick=${() => setLimit(limit * 4)}>Show more of ${count(total, "line")}</button>`}
    </div>
  `;
}

/** Return the lines of a hunk as rows {old, new}: removed lines next to the added ones that replace them. */
function rowsOf(changes) {
  const rows = [];
  let removed = [];
  let added = [];
  const flush = () => {
    for (let index = 0; index < Math.max(removed.length, added.length); index += 1) {
      rows.push({ old: removed[index] ?? null, new: added[index] ?? null });
    }
    removed = [];
    added = [];
  };
  for (const change of changes) {
    const line = { ...change, content: shortLine(change.content) };
    if (line.type === "removed") {
      if (added.length) flush();
      removed.push(line);
    } else if (line.type === "added") added.push(line);
    else {
      flush();
      rows.push({ old: line, new: line });
    }
  }
  flush();
  return rows;
}

/** Return both sides of a row with their changed words marked. */
function words(row) {
  const before = row.old?.content ?? "";
  const after = row.new?.content ?? "";
  if (!row.old || !row.new || row.old === row.new || before.length > WORDS_MAX || after.length > WORDS_MAX) return [before, after];
  const parts = diffWordsWithSpace(before, after);
  const same = parts.reduce((sum, part) => sum + (part.added || part.removed ? 0 : part.value.trim().length), 0);
  if (!same) return [before, after]; // nothing in common: marks would only be noise
  const side = (name) =>
    parts
      .filter((part) => part[name] || (!part.added && !part.removed))
      .map((part, index) => (part[name] ? html`<mark key=${index}>${part.value}</mark>` : part.value));
  return [side("removed"), side("added")];
}

function cells(line, number, content, mark) {
  const kind = line === null ? "none" : line.type === "removed" || line.type === "added" ? line.type : "";
  return html`
    <td class=${`line-number ${kind}`} data-number=${line?.[number] ?? ""}></td>
    <td class=${`line ${kind}`}><span class="hidden">${mark}</span>${content}</td>
  `;
}

function splitRow(row, key) {
  const [before, after] = words(row);
  const isSame = row.old === row.new;
  return html`
    <tr key=${key}>
      ${cells(row.old, "oldLineNumber", before, isSame || !row.old ? "" : "removed: ")}
      ${cells(row.new, "newLineNumber", after, isSame || !row.new ? "" : "added: ")}
    </tr>
  `;
}

function unifiedRows(row, key) {
  const [before, after] = words(row);
  const draw = (line, content, name, mark) => html`
    <tr key=${`${key}${name}`} class=${name}>
      <td class=${`line-number ${name}`} data-number=${line.oldLineNumber ?? ""}></td>
      <td class=${`line-number ${name}`} data-number=${line.newLineNumber ?? ""}></td>
      <td class=${`line ${name}`}>${mark && html`<span class="hidden">${mark}</span>`}${content}</td>
    </tr>
  `;
  if (row.old === row.new) return [draw(row.old, before, "", "")];
  return [
    row.old && draw(row.old, before, "removed", "removed: "),
    row.new && draw(row.new, after, "added", "added: "),
  ].filter(Boolean);
}
