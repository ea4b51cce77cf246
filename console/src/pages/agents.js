/** Agents: the tree of agents that agents have started, and their transcripts. */
import { api, at, here } from "../api.js";
import { onEvents } from "../events.js";
import { html, useEffect, useMemo, useState } from "../html.js";
import { useKeys } from "../keys.js";
import { Empty, ErrorBox, Field, Loading, Page, Section, Time, useAction, useList, useLoad } from "../parts/index.js";
import { Lines } from "../parts/lines.js";
import { navigate, query } from "../router.js";
import { count, money, oneLine, pretty, visible } from "../text.js";
import { View } from "../views/index.js";

const COLOURS = { queued: "warn", running: "good", completed: "", failed: "bad", cancelled: "bad" };
const MESSAGES = 200; // of a transcript, shown at first

export default function Agents() {
  const { rows, error, isLoading, hasMore, more, reload } = useList("/v1/agents", "agents", { on: ["agent"] });
  const id = query.value.get("id");
  const tree = useMemo(() => inTree(rows), [rows]);
  const step = (by) => () => {
    const index = tree.findIndex(({ agent }) => agent.id === id);
    const next = tree[Math.min(tree.length - 1, Math.max(0, index + by))];
    if (next) navigate(`/agents?id=${encodeURIComponent(next.agent.id)}`, { replace: true });
  };
  useKeys({ j: { label: "Next agent", run: step(1) }, k: { label: "Previous agent", run: step(-1) } });
  const active = rows.filter((agent) => agent.status === "running" || agent.status === "queued").length;
  return html`
    <${Page} title="Agents" actions=${rows.length > 0 && html`<span class="muted">${count(active, "agent")} at work</span>`}>
      <${ErrorBox} error=${error} retry=${reload} />
      ${isLoading && html`<${Loading} />`}
      ${!isLoading &&
      !error &&
      !rows.length &&
      html`<${Empty} title="No agents yet">Agents appear here when a call of agent or agent_spawn starts them.<//>`}
      ${rows.length > 0 &&
      html`<div class="two-panes">
        <nav class="panel tree" aria-label="Agents">
          <ul>
            ${tree.map(({ agent, depth }) => html`<${Row} key=${agent.id} agent=${agent} depth=${depth} isOpen=${agent.id === id} />`)}
          </ul>
          ${hasMore && html`<button type="button" onClick=${more}>Show older agents</button>`}
        </nav>
        <div class="pane">
          ${id
            ? html`<${Agent} key=${id} id=${id} reload=${reload} />`
            : html`<${Empty} title="Select an agent">Its transcript appears here. Press j and k to move through the list.<//>`}
        </div>
      </div>`}
    <//>
  `;
}

/** Return the agents in tree order: [{agent, depth}], the newest first at each level. */
function inTree(agents) {
  const ids = new Set(agents.map((agent) => agent.id));
  const children = new Map();
  for (const agent of agents) {
    const parent = ids.has(agent.parent) ? agent.parent : null;
    children.set(parent, [...(children.get(parent) ?? []), agent]);
  }
  const rows = [];
  const add = (parent, depth) => {
    for (const agent of children.get(parent) ?? []) {
      rows.push({ agent, depth });
      add(agent.id, depth + 1);
    }
  };
  add(null, 0);
  return rows;
}

function stateOf(agent) {
  return agent.idle ? "idle" : agent.status;
}

function Row({ agent, depth, isOpen }) {
  return html`
    <li style=${{ paddingLeft: `${Math.min(depth, 8) * 14}px` }}>
      <a href=${`/agents?id=${encodeURIComponent(agent.id)}`} aria-current=${isOpen ? "true" : undefined}>
        <span class="tree-title">${oneLine(agent.title, 120) || visible(agent.id)}</span>
        <span class="tree-facts">
          <span class=${`tag ${COLOURS[agent.status] ?? ""}`}>${stateOf(agent)}</span>
          <span>${oneLine(agent.agent, 40)}</span>
          <span>depth ${agent.depth}</span>
          <span>${tokens(agent)}</span>
          ${agent.cost !== null && agent.cost !== undefined && html`<span>${money(agent.cost)}</span>`}
        </span>
      </a>
    </li>
  `;
}

function tokens({ input_tokens: input, output_tokens: output }) {
  return `${short(input)} in, ${short(output)} out`;
}

function short(number) {
  return new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 }).format(number);
}

function Agent({ id, reload }) {
  const { data: agent, error, isLoading, reload: again } = useLoad(at("/v1/agents", id), { on: ["agent"] });
  useEffect(() => onEvents(["call"], (calls) => calls.some((call) => call.session === id) && again()), [id]);
  const [text, setText] = useState("");
  const send = useAction(async () => {
    await api.post(at("/v1/agents", id, "messages"), { text }, here());
    setText("");
    await again();
    reload();
  });
  const cancel = useAction(async () => {
    await api.post(at("/v1/agents", id, "cancel"), {}, here());
    await again();
    reload();
  });
  const hasEnded = agent && !agent.idle && !["queued", "running"].includes(agent.status);
  const submit = (event) => {
    event.preventDefault();
    if (text.trim()) send.run();
  };
  return html`
    <${ErrorBox} error=${error} retry=${again} />
    ${isLoading && html`<${Loading} />`}
    ${agent &&
    html`
      <section class="panel stack" aria-label="Agent">
        <header class="pane-head">
          <h2>${oneLine(agent.title, 200) || visible(agent.id)}</h2>
          <button type="button" class="danger" disabled=${hasEnded || cancel.isRunning} onClick=${() => cancel.run()}>Cancel</button>
        </header>
        <dl class="agent-facts">
          <div><dt>State</dt><dd><span class=${`tag ${COLOURS[agent.status] ?? ""}`}>${stateOf(agent)}</span>${agent.error_code && html` <span class="bad">${visible(agent.error_code)}</span>`}</dd></div>
          <div><dt>Kind</dt><dd>${oneLine(agent.agent, 60)}</dd></div>
          <div><dt>Depth</dt><dd>${agent.depth}</dd></div>
          <div><dt>Tokens</dt><dd>${tokens(agent)}</dd></div>
          <div><dt>Cost</dt><dd>${agent.cost === null || agent.cost === undefined ? "unknown" : money(agent.cost)}</dd></div>
          <div><dt>Started</dt><dd><${Time} at=${agent.created} /></dd></div>
          <div><dt>Changed</dt><dd><${Time} at=${agent.changed} /></dd></div>
          <div><dt>Id</dt><dd class="mono">${visible(agent.id)}</dd></div>
          <div><dt>Parent</dt><dd class="mono">${visible(agent.parent)}</dd></div>
        </dl>
        <form class="row-form" onSubmit=${submit}>
          <${Field}
            label="Message"
            value=${text}
            onInput=${setText}
            disabled=${hasEnded}
            placeholder=${hasEnded ? "The agent has ended" : "What the agent should know or do"}
          />
          <button type="submit" class="main" disabled=${hasEnded || send.isRunning}>Send</button>
        </form>
        <${ErrorBox} error=${send.error ?? cancel.error} />
      </section>
      <${Transcript} messages=${agent.messages ?? []} agent=${agent} />
    `}
  `;
}

function Transcript({ messages, agent }) {
  const [limit, setLimit] = useState(MESSAGES);
  const shown = messages.slice(-limit);
  const hidden = messages.length - shown.length;
  return html`
    <${Section} title="Transcript">
      ${hidden > 0 && html`<button type="button" onClick=${() => setLimit(limit * 4)}>Show ${count(hidden, "earlier message")}</button>`}
      ${!messages.length && html`<${Message} who="Task" text=${agent.prompt ?? ""} />`}
      ${shown.map((record, index) => html`<${Recorded} key=${hidden + index} record=${record} />`)}
      ${!messages.length && agent.answer && html`<${Message} who="Answer" text=${agent.answer} />`}
    <//>
  `;
}

/** One record of a transcript. */
function Recorded({ record }) {
  const at = record.time ? record.time * 1000 : null;
  if (record.type === "user") return html`<${Message} who="Task" at=${at} text=${textOf(record.content)} />`;
  if (record.type === "answer") {
    return (record.parts ?? []).map((part, index) =>
      part.call
        ? html`<${Folded} key=${index} at=${at} summary=${`Call ${oneLine(part.call, 80)}`} text=${typeof part.args === "string" ? part.args : pretty(part.args)} />`
        : part.text && html`<${Message} key=${index} who="Agent" at=${at} text=${part.text} />`,
    );
  }
  if (record.type === "result") {
    const isGood = record.outcome === "ok";
    return html`<${Folded} at=${at} isBad=${!isGood} summary=${`Result of ${oneLine(record.tool, 80)}${isGood ? "" : `: ${oneLine(record.outcome, 60)}`}`} text=${textOf(record.content)} />`;
  }
  if (record.type === "ended") {
    return html`<p class="muted">Ended with status ${visible(record.status)} ${record.error_code && visible(record.error_code)} <${Time} at=${at} /></p>`;
  }
  return html`<p class="muted">From here on, the model sees a compacted form of the messages above. <${Time} at=${at} /></p>`;
}

function textOf(content) {
  if (typeof content === "string") return content;
  return (content ?? []).map((item) => (typeof item === "string" ? item : `[${item?.image ?? "image"}]`)).join("\n");
}

function Message({ who, at, text }) {
  return html`
    <article class="panel message">
      <p class="message-head"><strong>${who}</strong> <span class="muted"><${Time} at=${at} /></span></p>
      <${View} view=${{ type: "markdown", content: text }} text=${text} />
    </article>
  `;
}

function Folded({ summary, text, at, isBad }) {
  const [isOpen, setIsOpen] = useState(false);
  return html`
    <details class="panel message" onToggle=${(event) => setIsOpen(event.currentTarget.open)}>
      <summary class=${isBad ? "bad" : ""}>${summary} <span class="muted"><${Time} at=${at} /></span></summary>
      ${isOpen && html`<${Lines} text=${text} />`}
    </details>
  `;
}
