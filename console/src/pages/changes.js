/** Changes: a timeline of changes to files, and how to restore them. */
import { api, at, here } from "../api.js";
import { calls } from "../events.js";
import { html, useEffect, useMemo, useState } from "../html.js";
import { Dialog, Empty, ErrorBox, Loading, Omissions, Page, Review, Time } from "../parts/index.js";
import { useAction, useChosen, useHeld, useList, useLoad, useNewReview } from "../parts/index.js";
import { query } from "../router.js";
import { count, oneLine, visible } from "../text.js";
import { View } from "../views/index.js";
import { Rows } from "../views/lists.js";
import { reversed } from "../views/unified.js";

const SEEN_MS = 300; // before Enter can restore what the preview shows
const ACTIONS = { created: "good", modified: "warn", deleted: "bad" };
const DAY = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long", year: "numeric" });

export default function Changes() {
  const options = { on: ["call"], when: (event) => Boolean(event.change) };
  const { rows: loaded, error, isLoading, hasMore, more, reload } = useList("/v1/changes", "changes", options);
  const { rows, hold } = useHeld(loaded);
  const change = useChosen(rows, query.value.get("id"));
  const days = useMemo(() => byDay(rows), [rows]);
  return html`
    <${Page} title="Changes" fills>
      <${ErrorBox} error=${error} retry=${reload} />
      ${isLoading && html`<${Loading} />`}
      ${!isLoading &&
      !rows.length &&
      !error &&
      html`<${Empty} title="No changes yet">Every change that a tool makes to files is recorded here. You can view it and restore the files.<//>`}
      ${change &&
      html`<div class="beside">
        <div class="rows" ...${hold}>
          ${days.map(
            ([day, changes]) => html`
              <section key=${day} aria-label=${day}>
                <h2 class="day">${day}</h2>
                <ul>
                  ${changes.map(
                    (row) => html`
                      <li key=${row.id}>
                        <a class="row" href=${`/changes?id=${encodeURIComponent(row.id)}`} aria-current=${row.id === change.id ? "true" : undefined}>
                          <span class="row-name">
                            <span class="mono">${oneLine(row.files[0]?.path, 80)}</span>
                            ${row.files.length > 1 && html`<span class="muted"> and ${count(row.files.length - 1, "more", "more")}</span>`}
                          </span>
                          <span class="row-facts">
                            <span>${oneLine(row.operation, 40)}</span>
                            <span class="muted mono">${oneLine(row.session, 40)}</span>
                            <span class="muted"><${Time} at=${row.time} /></span>
                          </span>
                        </a>
                      </li>
                    `,
                  )}
                </ul>
              </section>
            `,
          )}
          ${hasMore && html`<button type="button" onClick=${more}>Show older changes</button>`}
        </div>
        <${Change} key=${change.id} change=${change} onRestored=${reload} />
      </div>`}
    <//>
  `;
}

function byDay(rows) {
  const days = new Map();
  for (const row of rows) {
    const day = DAY.format(new Date(row.time));
    if (!days.has(day)) days.set(day, []);
    days.get(day).push(row);
  }
  return [...days];
}

function Change({ change, onRestored }) {
  const [isOpen, setOpen] = useState(false);
  const [note, setNote] = useState("");
  const call = calls.rows.findLast((row) => row.change === change.id);
  const own = call?.envelope?.visualization;
  const path = own && !isOpen ? null : at("/v1/changes", change.id); // a preview is a call, so it is loaded only when it is shown
  const preview = useLoad(path, { on: ["call"], when: (event) => Boolean(event.change) });
  const since = useMemo(() => reversed(preview.data?.visualization), [preview.data]);
  const finish = (result) => {
    setOpen(false);
    setNote(result.files.length ? `Restored ${result.files.map((path) => oneLine(path, 80)).join(", ")}.` : oneLine(result.result, 200));
    onRestored();
  };
  return html`
    <section class="change" aria-label=${`Change ${oneLine(change.id, 40)}`}>
      <header class="section-head">
        <h2>${oneLine(change.operation, 60)}</h2>
        <span class="muted"><${Time} at=${change.time} /></span>
        ${call && html`<a href=${`/activity?call=${encodeURIComponent(call.key)}`}>View the call</a>`}
        <button type="button" class="main push" onClick=${() => setOpen(true)}>Restore</button>
      </header>
      ${note && html`<p class="good" role="status">${note}</p>`}
      <${Rows} rows=${change.files} draw=${drawFile} name="file-list" noun="file" />
      <${ErrorBox} error=${preview.error} retry=${preview.reload} />
      ${own
        ? html`<${View} view=${own} text=${call.envelope.result ?? ""} />`
        : html`${preview.isLoading && html`<${Loading} />`}
            ${preview.data &&
            html`<p class="muted">The current files, compared with those before this change:</p>
              <${View} view=${since} text=${preview.data.diff} />`}`}
      ${isOpen && html`<${Restore} change=${change} preview=${preview} onClose=${() => setOpen(false)} onDone=${finish} />`}
    </section>
  `;
}

function drawFile({ path, action }) {
  return html`<li key=${path}><span class=${`tag ${ACTIONS[action] ?? ""}`}>${action}</span> <span class="mono">${visible(path)}</span></li>`;
}

/** The preview of a restore, and the button that runs it. */
function Restore({ change, preview, onClose, onDone }) {
  const review = useNewReview();
  const [seen, setSeen] = useState(null);
  useEffect(() => {
    const timer = setTimeout(() => setSeen(preview.data), SEEN_MS);
    return () => clearTimeout(timer);
  }, [preview.data]);
  const isSeen = Boolean(preview.data) && seen === preview.data;
  const restore = useAction(async () => {
    // no event reports what an editor saves
    const now = await api.get(at("/v1/changes", change.id), here());
    if (JSON.stringify(now.visualization) !== JSON.stringify(preview.data.visualization)) {
      preview.reload();
      throw new Error("The files have changed since this was shown. Nothing was restored; this is the new preview.");
    }
    onDone(await api.post(at("/v1/changes", change.id, "restore"), {}, here()));
  });
  const footer = html`
    <button type="button" onClick=${onClose}>Cancel</button>
    <button type="button" class="main" data-first disabled=${restore.isRunning || !isSeen} onClick=${restore.run}>Restore</button>
  `;
  return html`
    <${Dialog} title="Restore the files to before this change" wide onClose=${onClose} footer=${footer}>
      <p class="muted">This is what the restore would change. It is recorded as a change, so you can undo it too.</p>
      <${ErrorBox} error=${restore.error ?? preview.error} retry=${preview.reload} />
      ${preview.isLoading && html`<${Loading} />`}
      ${preview.data &&
      html`<${Review.Provider} value=${review}>
        <${Omissions} review=${review} />
        <${View} view=${preview.data.visualization} text=${preview.data.diff || "Nothing: the files have not changed since."} />
      <//>`}
    <//>
  `;
}
