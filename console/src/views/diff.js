import { diffWordsWithSpace } from "diff";
import { html, signal, useMemo, useState } from "../html.js";
import { useReview } from "../parts/review.js";
import { LINE_MAX, count, oneLine, shortLine } from "../text.js";

const STORED = "hilt.diff";
const ROWS_MAX = 300;
const WHOLE_MAX = 20_000; // rows that a browser can draw at once
const FILES_MAX = 200;
const WORDS_MAX = 500; // characters of a line in which changed words are marked

/** "unified" or "split", for all diffs. */
const layout = signal(localStorage.getItem(STORED) === "split" ? "split" : "unified");

export function Diffs({ view: { items } }) {
  const [more, setMore] = useState(FILES_MAX);
  const limit = useReview().isWhole.value ? items.length : more;
  useReview(items.length > limit);
  return html`
    <div class="diffs">
      ${items.slice(0, limit).map((item, index) => html`<${Diff} key=${index} view=${item} title=${item.title} hasOthers=${items.length > 8} />`)}
      ${items.length > limit && html`<button type="button" onClick=${() => setMore(limit * 4)}>Show more of ${count(items.length, "file")}</button>`}
    </div>
  `;
}

export function Diff({ view, title = "", hasOthers = false }) {
  const [isChosen, setChosen] = useState(!hasOthers);
  const [more, setMore] = useState(ROWS_MAX);
  const isWhole = useReview().isWhole.value;
  const isOpen = isChosen || isWhole;
  const limit = isWhole ? Math.max(more, WHOLE_MAX) : more;
  const size = useMemo(() => view.hunks.reduce((sum, { changes }) => sum + changes.length, 0), [view]);
  const isLong = useMemo(() => view.hunks.some(({ changes }) => changes.some(({ content }) => content.length > LINE_MAX)), [view]);
  const { text: show } = useReview(!isOpen || size > limit || (isLong && !isWhole));
  const hunks = useMemo(
    () => view.hunks.slice(0, limit).map((hunk) => rowsOf(hunk.changes, (line) => shortLine(line, show, isWhole ? Infinity : LINE_MAX))),
    [view, limit, show, isWhole],
  );
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
  const total = hunks.reduce((sum, rows) => sum + rows.length, 0) + Math.max(0, view.hunks.length - hunks.length);
  return html`
    <div class="diff">
      <div class="diff-head">
        <button type="button" class="quiet diff-name" aria-expanded=${isOpen} onClick=${() => setChosen(!isOpen)}>
          <span class="mono">${show(view.path)}</span>
        </button>
        <span class="good">+${view.additions ?? 0}</span> <span class="bad">−${view.deletions ?? 0}</span>
        <button type="button" class="small diff-layout" onClick=${choose}>${isSplit ? "Unified" : "Side by side"}</button>
      </div>
      ${typeof title === "string" && title && html`<p class="warn">${show(title)}</p>`}
      ${view.notes?.length > 0 && html`<p class="muted mono">${show(view.notes.join(", "))}</p>`}
      ${isOpen &&
      html`<div class="diff-scroll" tabindex="0" role="group" aria-label=${`Changes to ${oneLine(view.path, 300)}`}>
        <table class=${isSplit ? "split" : "unified"}><tbody>${drawn}</tbody></table>
        ${!total && html`<p class="muted">No lines to show.</p>`}
      </div>`}
      ${isOpen && total > limit && html`<button type="button" onClick=${() => setMore(limit * 4)}>Show more of ${count(total, "line")}</button>`}
    </div>
  `;
}

/** Return the lines of a hunk as rows {old, new}: removed lines next to the added ones that replace them. */
function rowsOf(changes, draw) {
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
    const line = { ...change, content: draw(change.content) };
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
