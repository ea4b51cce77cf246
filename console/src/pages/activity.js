/** Activity: every call of every process, as it happens. */
import { mainArgument, searchText, stateOf } from "../calls.js";
import { calls, connection } from "../events.js";
import { html, useEffect, useMemo, useRef, useState } from "../html.js";
import { useKeys } from "../keys.js";
import { Empty, Field, Json, Loading, Page, Tabs, Time, VirtualList } from "../parts/index.js";
import { query, setQuery } from "../router.js";
import { count, duration, oneLine, shortLine, visible } from "../text.js";
import { View } from "../views/index.js";

const ROW_PIXELS = 34;
const POINTING_MS = 1_500; // for which the list does not scroll after the pointer has moved in it
const STATES = [["", "Any outcome"], ["ok", "Succeeded"], ["failed", "Failed"], ["denied", "Denied"], ["running", "Running"]];

export default function Activity() {
  const version = calls.version.value;
  const [filter, setFilter] = useState("");
  const [session, setSession] = useState("");
  const [tool, setTool] = useState("");
  const [state, setState] = useState("");
  const [paused, setPaused] = useState(null); // the rows when it was paused, or null
  const [opened, setOpened] = useState(new Set());
  const list = useRef(null);
  const pointedAt = useRef(0);
  const [isAway, setAway] = useState(false); // from the top, where new rows appear
  const seen = useRef(0); // the number of the newest row while the list was at the top

  const all = paused ?? calls.rows;
  const rows = useMemo(() => {
    const text = filter.trim().toLowerCase();
    const matches = all.filter(
      (call) =>
        (!session || call.session === session) &&
        (!tool || call.tool === tool) &&
        (!state || stateOf(call) === state) &&
        (!text || searchText(call).includes(text)),
    );
    return matches.reverse();
  }, [all, paused ? 0 : version, filter, session, tool, state]);
  const sessions = useMemo(() => [...calls.sessions].sort(), [calls.sessions.size]);
  const tools = useMemo(() => [...calls.tools].sort(), [calls.tools.size]);

  const isPointing = () => Date.now() - pointedAt.current < POINTING_MS || Boolean(document.activeElement?.closest?.(".call-head"));
  const isHeld = () => opened.size > 0 || isPointing();
  if (rows.length && (seen.current === 0 || (!isAway && !isHeld()))) seen.current = rows[0].seq;
  const unseen = isAway ? rows.findIndex((call) => call.seq <= seen.current) : 0;
  const hidden = paused ? calls.rows.length - paused.length : unseen < 0 ? rows.length : unseen;

  const toggle = (key) => {
    const next = new Set(opened);
    if (!next.delete(key)) next.add(key);
    setOpened(next);
    setQuery({ call: next.has(key) ? String(key) : null });
  };
  const linked = query.value.get("call");
  useEffect(() => {
    const index = linked === null ? -1 : rows.findIndex((call) => String(call.key) === linked);
    if (index < 0 || opened.has(rows[index].key)) return;
    setOpened(new Set([...opened, rows[index].key]));
    list.current.toRow(index);
  }, [linked, rows.length > 0]);

  const move = (step) => {
    const focused = document.activeElement?.closest?.("[data-index]");
    const from = focused ? Number(focused.dataset.index) : -1;
    const next = Math.max(0, Math.min(rows.length - 1, from + step));
    list.current?.toRow(next);
    requestAnimationFrame(() => document.querySelector(`[data-index="${next}"] .call-head`)?.focus());
  };
  const pause = () => setPaused(paused ? null : [...calls.rows]);
  useKeys({
    j: { label: "Next call", run: () => move(1) },
    k: { label: "Previous call", run: () => move(-1) },
    p: { label: "Pause or resume", run: pause },
  });

  const toNewest = () => {
    list.current.toTop();
    setAway(false);
  };
  const isFiltered = filter || session || tool || state;
  return html`
    <${Page}
      title="Activity"
      fills
      actions=${html`
        <${Field} label="Filter" hidden placeholder="Filter" data-filter value=${filter} onInput=${setFilter} />
        <${Field} label="Session" hidden value=${session} onInput=${setSession} options=${choices("Any session", sessions)} />
        <${Field} label="Tool" hidden value=${tool} onInput=${setTool} options=${choices("Any tool", tools)} />
        <${Field} label="Outcome" hidden value=${state} onInput=${setState} options=${STATES} />
        <button type="button" onClick=${pause}>${paused ? "Resume" : "Pause"}</button>
      `}
    >
      <div class="feed" onPointerMove=${() => (pointedAt.current = Date.now())}>
        <div class="feed-head" aria-hidden="true">
          <span>Time</span><span>Session</span><span>Tool</span><span>Argument</span><span>Outcome</span><span class="number">Duration</span>
        </div>
        ${rows.length
          ? html`<${VirtualList}
              rows=${rows}
              keyOf=${(call) => call.key}
              label="Calls"
              estimate=${ROW_PIXELS}
              isHeld=${isHeld}
              handle=${list}
              onScroll=${(element) => setAway(element.scrollTop > 4)}
              renderRow=${(call) => html`<${Row} call=${call} isOpen=${opened.has(call.key)} onToggle=${toggle} />`}
            />`
          : html`<${Nothing} isFiltered=${isFiltered} hasCalls=${all.length > 0} />`}
        ${hidden > 0 &&
        html`<button type="button" class="newer main" onClick=${paused ? pause : toNewest}>${count(hidden, "new call")}</button>`}
      </div>
      <p class="status-line" role="status">
        ${isFiltered ? `${rows.length.toLocaleString()} of ${count(all.length, "call")}` : count(all.length, "call")}${paused ? " · paused" : ""}
      </p>
    <//>
  `;
}

function choices(any, names) {
  return [["", any], ...names.map((name) => [name, oneLine(name, 60)])];
}

function Nothing({ isFiltered, hasCalls }) {
  if (isFiltered && hasCalls) return html`<${Empty} title="No call matches">Change the filter, the session, the tool or the outcome.<//>`;
  if (connection.value === "connecting") return html`<${Loading} />`;
  return html`
    <${Empty} title="No calls yet">
      Calls of all your agents appear here while <code>hilt serve</code> is running. Connect an agent with${" "}
      <code>hilt mcp install</code>, or try a tool on the Tools page.
    <//>
  `;
}

const TAGS = { running: "", ok: "good", denied: "warn", failed: "bad" };

function Row({ call, isOpen, onToggle }) {
  const state = stateOf(call);
  const exit = call.envelope?.meta?.exit_code;
  const hasFailed = state === "ok" && Number.isInteger(exit) && exit !== 0; // the program, not the call
  const outcome = hasFailed ? `exit ${exit}` : state === "failed" || state === "denied" ? oneLine(call.outcome, 40).toLowerCase().replaceAll("_", " ") : state;
  return html`
    <div class=${`call ${state}${isOpen ? " open" : ""}`}>
      <button type="button" class="call-head" aria-expanded=${isOpen} onClick=${() => onToggle(call.key)}>
        <${Time} at=${call.started ?? call.time} />
        <span class="call-session mono">${oneLine(call.session, 60)}</span>
        <span class="call-tool">${oneLine(call.tool, 60)}</span>
        <span class="call-argument mono">${oneLine(mainArgument(call), 300)}</span>
        <span class="call-outcome"><span class=${`tag ${hasFailed ? "warn" : TAGS[state]}`}>${outcome}</span></span>
        <span class="call-duration number">${duration(call.ms)}</span>
      </button>
      ${isOpen && html`<${Details} call=${call} />`}
    </div>
  `;
}

function Details({ call }) {
  const { envelope } = call;
  const isStored = call.args !== undefined;
  const missing = html`<p class="muted">${isStored ? "The call is still running." : call.cut ? "Too large to be stored." : "Not stored: the setting events.keep is false."}</p>`;
  const tabs = [
    [
      "View",
      () =>
        envelope
          ? html`
              ${envelope.ok === false && html`<${Failure} envelope=${envelope} />`}
              ${(envelope.ok !== false || envelope.visualization) &&
              html`<${View} view=${envelope.visualization} text=${envelope.result ?? ""} content=${envelope.content} />`}
            `
          : missing,
    ],
    ["Arguments", () => (isStored ? html`<${Json} value=${call.args} label="Arguments" />` : missing)],
    ["Envelope", () => (envelope ? html`<${Json} value=${envelope} label="Envelope" />` : missing)],
    ["Why", () => html`<${Why} call=${call} />`],
  ];
  return html`
    <div class="call-details">
      <${Tabs} label=${`Details of ${oneLine(call.tool, 60)}`} tabs=${tabs} />
      ${call.change && html`<p><a href=${`/changes?id=${encodeURIComponent(call.change)}`}>View and restore this change</a></p>`}
    </div>
  `;
}

function Failure({ envelope }) {
  return html`
    <div class="failure">
      <p>${shortLine(String(envelope.error ?? "The call failed."), visible, 10_000)}</p>
      ${envelope.suggestion && html`<p class="muted">${shortLine(String(envelope.suggestion))}</p>`}
    </div>
  `;
}

const VERDICTS = { allow: "good", ask: "warn", deny: "bad" };

/** The votes and the decision. */
function Why({ call }) {
  if (call.type === "call_started") return html`<p class="muted">The call is still running.</p>`;
  const votes = Array.isArray(call.votes) ? call.votes : [];
  return html`
    <dl class="facts">
      <div><dt>Decision</dt><dd><span class=${`tag ${VERDICTS[call.verdict] ?? ""}`}>${oneLine(call.verdict, 20)}</span> ${visible(call.reason)}</dd></div>
      ${call.workspace && html`<div><dt>Folder</dt><dd class="mono">${oneLine(call.workspace, 300)}</dd></div>`}
      ${call.approver && html`<div><dt>Approved by</dt><dd>${oneLine(call.approver, 100)}</dd></div>`}
    </dl>
    ${votes.length > 0 &&
    html`<table class="votes" aria-label="Votes">
      <thead><tr><th scope="col">Vote</th><th scope="col">Voter</th><th scope="col">Reason</th></tr></thead>
      <tbody>
        ${votes.map(
          (vote, index) => html`
            <tr key=${index}>
              <td><span class=${`tag ${VERDICTS[vote.verdict] ?? ""}`}>${oneLine(vote.verdict, 20)}</span></td>
              <td>${oneLine(vote.voter, 100)}</td>
              <td>${oneLine(vote.reason, 1000)}</td>
            </tr>
          `,
        )}
      </tbody>
    </table>`}
    ${!votes.length && html`<p class="muted">There were no votes: nothing objected to the call.</p>`}
  `;
}
