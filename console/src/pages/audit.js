/** Audit: the record of all calls, its verification and its export. */
import { api, here } from "../api.js";
import { coalesced, onEvents } from "../events.js";
import { html, useEffect, useMemo, useRef, useState } from "../html.js";
import { DataTable, Empty, ErrorBox, Field, Loading, Page, Time, useAction, useList } from "../parts/index.js";
import { query, setQuery } from "../router.js";
import { count, duration, oneLine, visible } from "../text.js";
import { Rows } from "../views/lists.js";

const FILTERS = ["text", "tool", "session", "outcome", "since"];
const PAUSE_MS = 200; // between the last keystroke and the search
const EXPORT_MAX = 200_000;
const SINCE = [
  ["", "Any time"],
  ["1h", "Last hour"],
  ["24h", "Last 24 hours"],
  ["7d", "Last 7 days"],
  ["30d", "Last 30 days"],
];

const COLUMNS = [
  { key: "seq", label: "Row", isNumber: true },
  { key: "time", label: "Time", cell: (row) => html`<${Time} at=${row.time} />` },
  { key: "tool", label: "Tool", cell: (row) => html`<span class="mono nowrap">${oneLine(row.tool, 40)}</span>` },
  { key: "decision", label: "Decision", cell: (row) => html`<span class=${`tag ${{ deny: "bad", ask: "warn" }[row.decision] ?? ""}`}>${visible(row.decision)}</span>` },
  { key: "outcome", label: "Outcome", cell: (row) => html`<span class=${`nowrap ${row.outcome === "ok" ? "good" : "bad"}`}>${oneLine(row.outcome, 60)}</span>` },
  { key: "reason", label: "Reason", cell: (row) => html`<span class="roomy">${oneLine(row.reason, 160)}</span>` },
  { key: "session", label: "Session", cell: (row) => html`<span class="mono">${oneLine(row.session, 40)}</span>` },
  { key: "approver", label: "Approver" },
  { key: "micros", label: "Duration", isNumber: true, cell: (row) => duration(row.micros / 1000) },
  { key: "digest", label: "Digest", cell: (row) => html`<span class="mono nowrap" title=${visible(row.digest)}>${visible(row.digest.slice(0, 8))}</span>` },
];

export default function Audit() {
  const entered = useMemo(() => filtersIn(query.value), [query.value]);
  const filters = useDebounced(entered);
  const listed = { ...filters, ...here() };
  const { rows, error, isLoading, hasMore, more, reload } = useList("/v1/audit", "entries", { query: listed, limit: 200 });
  const verify = useAction(() => api.get("/v1/audit/verify"));
  const [verified, setVerified] = useState(null);
  const save = useAction(() => exportRows(listed));
  const isFiltered = Object.keys(filters).length > 0;
  const newest = rows[0]?.seq;
  const check = async () => {
    setVerified(null);
    setVerified((await verify.run()) ?? null);
  };
  const actions = html`
    <button type="button" disabled=${verify.isRunning} onClick=${check}>Verify</button>
    <button type="button" disabled=${save.isRunning} onClick=${() => save.run()}>Export</button>
  `;
  return html`
    <${Page} title="Audit" actions=${actions}>
      <form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
        <${Field} label="Search" value=${entered.text ?? ""} onInput=${(text) => setQuery({ text })} placeholder="Tool, session, reason, approver or outcome" data-filter="" />
        <${Field} label="Tool" value=${entered.tool ?? ""} onInput=${(tool) => setQuery({ tool })} placeholder="Any" />
        <${Field} label="Session" value=${entered.session ?? ""} onInput=${(session) => setQuery({ session })} placeholder="Any" />
        <${Field} label="Outcome" value=${entered.outcome ?? ""} onInput=${(outcome) => setQuery({ outcome })} placeholder="ok, or an error code" />
        <${Field} label="Since" value=${entered.since ?? ""} onInput=${(since) => setQuery({ since })} options=${SINCE} />
      </form>
      <div role="status" class="verified">${verify.isRunning ? "Checking every row…" : verified && html`<${Verified} answer=${verified} />`}</div>
      <${ErrorBox} error=${error ?? verify.error ?? save.error} retry=${reload} />
      ${isLoading && html`<${Loading} />`}
      ${!isLoading &&
      !error &&
      !rows.length &&
      html`<${Empty} title=${isFiltered ? "No call matches" : "No calls yet"}>${isFiltered ? "Change the search or the filters." : "Every call that hilt decides on is recorded here."}<//>`}
      <${NewCalls} key=${`${JSON.stringify(listed)} ${newest}`} newest=${newest} listed=${listed} reload=${reload} />
      ${rows.length > 0 && html`<${DataTable} label="Recorded calls" columns=${COLUMNS} rows=${rows} keyOf=${(row) => row.id} tools=${false} />`}
      ${hasMore && html`<div class="buttons"><button type="button" onClick=${more}>Show older calls</button></div>`}
    <//>
  `;
}

/** A button that loads calls recorded since the list was loaded: rows do not move by themselves. */
function NewCalls({ newest, listed, reload }) {
  const [hasNew, setHasNew] = useState(false);
  useEffect(() => {
    // events are not counted: the stream starts with older calls, which may arrive after the list
    const check = coalesced(async () => {
      const { entries } = await api.get("/v1/audit", { ...listed, limit: 1 });
      setHasNew(entries.length > 0 && entries[0].seq !== newest);
    });
    return onEvents(["call"], check);
  }, []);
  const show = async () => {
    await reload();
    setHasNew(false);
  };
  return hasNew && html`<div class="buttons"><button type="button" onClick=${show}>Load new calls</button></div>`;
}

function filtersIn(parameters) {
  return Object.fromEntries(FILTERS.filter((name) => parameters.get(name)).map((name) => [name, parameters.get(name)]));
}

/** Return a value once it has not changed for PAUSE_MS. */
function useDebounced(value) {
  const [debounced, setDebounced] = useState(value);
  const timer = useRef(null);
  useEffect(() => {
    timer.current = setTimeout(() => setDebounced(value), PAUSE_MS);
    return () => clearTimeout(timer.current);
  }, [value]);
  return debounced;
}

function Verified({ answer }) {
  if (answer.ok) return html`<p class="good">The audit trail is intact: every row matches the one before it.</p>`;
  return html`
    <div class="error-box">
      <p>The audit trail is broken in ${count(answer.breaks.length, "place")}: rows were changed or removed.</p>
      <${Rows} rows=${answer.breaks} draw=${({ row, reason }) => html`<li key=${row}>Row ${row}: ${visible(reason)}</li>`} />
    </div>
  `;
}

/** Save all matching rows as JSON lines, the oldest last. */
async function exportRows(filters) {
  const lines = [];
  let cursor;
  do {
    const answer = await api.get("/v1/audit", { ...filters, limit: 1000, cursor });
    lines.push(...answer.entries.map((entry) => `${JSON.stringify(entry)}\n`));
    cursor = answer.next;
  } while (cursor && lines.length < EXPORT_MAX);
  const address = URL.createObjectURL(new Blob(lines, { type: "application/jsonl" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = `hilt-audit-${new Date().toISOString().slice(0, 10)}.jsonl`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
