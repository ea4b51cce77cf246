/** Jobs: background processes, with their live output. */
import { api, at, here } from "../api.js";
import { html, useEffect, useMemo, useRef, useState } from "../html.js";
import { Empty, ErrorBox, Field, Loading, Page, Time, VirtualList, useAction, useChosen, useHeld, useList } from "../parts/index.js";
import { query } from "../router.js";
import { bytes, count, duration, oneLine, shortLine, visible } from "../text.js";
import { AnsiLines, drawParts } from "../views/ansi.js";

const POLL_MS = 400;
const LINES_MAX = 20_000;
const PARTIAL_MAX = 1 << 20; // characters of an incomplete line
const TAGS = { running: "", completed: "good", stopped: "warn", failed: "bad", timeout: "bad", limit: "bad" };

export default function Jobs() {
  const { rows: loaded, error, isLoading, hasMore, more, reload } = useList("/v1/jobs", "jobs", { on: ["job"] });
  const { rows, hold } = useHeld(loaded);
  const job = useChosen(rows, query.value.get("id"));
  return html`
    <${Page} title="Jobs" fills>
      <${ErrorBox} error=${error} retry=${reload} />
      ${isLoading && html`<${Loading} />`}
      ${!isLoading &&
      !rows.length &&
      !error &&
      html`<${Empty} title="No jobs">
        A job is a command that runs in the background. Agents start one with <code>run_shell</code> and${" "}
        <code>run_in_background</code>.
      <//>`}
      ${job &&
      html`<div class="beside">
        <ul class="rows" aria-label="Jobs" ...${hold}>
          ${rows.map(
            (row) => html`
              <li key=${row.id}>
                <a class="row" href=${`/jobs?id=${encodeURIComponent(row.id)}`} aria-current=${row.id === job.id ? "true" : undefined}>
                  <span class="row-name mono">${oneLine(row.command, 120)}</span>
                  <span class="row-facts">
                    <span class=${`tag ${TAGS[row.status] ?? ""}`}>${statusOf(row)}</span>
                    <span class="muted mono">${oneLine(row.session, 40)}</span>
                    <span class="muted"><${Time} at=${row.started} /></span>
                  </span>
                </a>
              </li>
            `,
          )}
          ${hasMore && html`<li><button type="button" onClick=${more}>Show older jobs</button></li>`}
        </ul>
        <${Job} key=${job.id} job=${job} onChange=${reload} />
      </div>`}
    <//>
  `;
}

function statusOf({ status, exit_code: code }) {
  return Number.isInteger(code) && status !== "running" ? `${status}, exit ${code}` : status;
}

function Job({ job, onChange }) {
  const [isPaused, setPaused] = useState(false);
  const [isFollowing, setFollowing] = useState(true);
  const [search, setSearch] = useState("");
  const [matchIndex, setMatchIndex] = useState(0);
  const list = useRef(null);
  const { lines, dropped, error, size } = useOutput(job, isPaused);
  const stop = useAction(async () => {
    await api.post(at("/v1/jobs", job.id, "stop"), {}, here());
    onChange();
  });
  const matches = useMemo(() => {
    const text = search.trim().toLowerCase();
    return text ? lines.flatMap((line, index) => (line.text.includes(text) ? [index] : [])) : [];
  }, [lines, lines.length, search]);
  const current = matches.length ? matches[matchIndex % matches.length] : -1;
  const matching = new Set(matches);
  const show = (step) => {
    if (!matches.length) return;
    const next = (matchIndex + step + matches.length) % matches.length;
    setMatchIndex(next);
    setFollowing(false);
    list.current.toRow(matches[next]);
  };
  const isRunning = job.status === "running";
  const facts = [job.reason, count(lines.length + dropped, "line"), bytes(size), job.cwd && `in ${job.cwd}`].filter(Boolean);
  return html`
    <section class="job" aria-label=${`Job ${oneLine(job.id, 40)}`}>
      <pre class="command" tabindex="0" role="group" aria-label="Command">${shortLine(job.command, visible, 20_000)}</pre>
      <div class="job-tools">
        <span class=${`tag ${TAGS[job.status] ?? ""}`}>${statusOf(job)}</span>
        <span class="muted"><${Elapsed} job=${job} /></span>
        <${Field}
          label="Search"
          hidden
          placeholder="Search"
          data-filter
          value=${search}
          onInput=${(text) => (setSearch(text), setMatchIndex(0))}
          onKeyDown=${(event) => event.key === "Enter" && show(event.shiftKey ? -1 : 1)}
        />
        ${search &&
        html`<span class="muted" role="status">${matches.length ? `${(matchIndex % matches.length) + 1} of ${matches.length}` : "no match"}</span>
          <button type="button" class="small" onClick=${() => show(-1)}>Previous</button>
          <button type="button" class="small" onClick=${() => show(1)}>Next</button>`}
        <span class="job-buttons">
          ${!isFollowing && html`<button type="button" onClick=${() => setFollowing(true)}>Follow</button>`}
          <button type="button" onClick=${() => setPaused(!isPaused)}>${isPaused ? "Resume" : "Pause"}</button>
          <button type="button" class="danger" disabled=${!isRunning || stop.isRunning} onClick=${stop.run}>Stop</button>
        </span>
      </div>
      <${ErrorBox} error=${error ?? stop.error} />
      <div class="terminal">
        ${lines.length
          ? html`<${VirtualList}
              rows=${lines}
              keyOf=${(line) => line.number}
              label="Output"
              estimate=${19}
              sticks=${isFollowing}
              handle=${list}
              tabindex="0"
              onScroll=${(element) => setFollowing(element.scrollTop + element.clientHeight >= element.scrollHeight - 6)}
              renderRow=${(line, index) =>
                html`<div class=${`output-line${index === current ? " current" : matching.has(index) ? " match" : ""}`}>${drawParts(line.parts)}</div>`}
            />`
          : html`<p class="muted">${isRunning ? "No output yet." : "No output."}</p>`}
      </div>
      <p class="muted job-facts">${oneLine(facts.join(" · "), 400)}${dropped > 0 && ` · first ${count(dropped, "line")} omitted`}</p>
      ${isRunning && html`<${Input} job=${job} />`}
    </section>
  `;
}

/** How long a job has run, updated every second while it runs. */
function Elapsed({ job }) {
  const [, redraw] = useState(0);
  useEffect(() => {
    if (job.status !== "running") return undefined;
    const timer = setInterval(() => redraw((number) => number + 1), 1000);
    return () => clearInterval(timer);
  }, [job.status]);
  return duration(job.status === "running" ? Date.now() - Date.parse(job.started) : job.seconds * 1000);
}

function Input({ job }) {
  const [line, setLine] = useState("");
  const send = useAction(async () => {
    await api.post(at("/v1/jobs", job.id, "input"), { text: `${line}\n` }, here());
    setLine("");
  });
  if (!job.tty) return html`<p class="muted">This job was started without a terminal, so it accepts no input.</p>`;
  const submit = (event) => {
    event.preventDefault();
    send.run();
  };
  return html`
    <form class="job-input" onSubmit=${submit}>
      <${Field} label="Send a line" hidden placeholder="A line for the job" value=${line} onInput=${setLine} />
      <button type="submit" disabled=${send.isRunning}>Send a line</button>
    </form>
    <${ErrorBox} error=${send.error} />
  `;
}

/** Read the output of a job, and continue while it runs: {lines, dropped, size, error}. */
function useOutput(job, isPaused) {
  const [, redraw] = useState(0);
  const [error, setError] = useState(null);
  const reading = useRef(null);
  reading.current ??= { after: 0, ansi: new AnsiLines(), lines: [], partial: "", number: 0, dropped: 0, hasEnded: false };
  useEffect(() => {
    const own = reading.current;
    if (isPaused || own.hasEnded) return undefined;
    const ending = new AbortController();
    let timer = null;
    const read = async () => {
      let wait = POLL_MS;
      try {
        const answer = await api.get(at("/v1/jobs", job.id, "output"), { after: own.after, ...here() }, { signal: ending.signal });
        const hasNews = answer.next > own.after;
        if (hasNews) append(own, answer.output);
        own.after = answer.next;
        own.hasEnded = !hasNews && answer.status !== "running";
        if (hasNews) wait = 30;
        setError(null);
        if (hasNews || own.hasEnded) redraw((number) => number + 1);
      } catch (problem) {
        if (ending.signal.aborted) return;
        setError(problem);
        wait = 3_000;
        if (problem.status === 404) own.hasEnded = true;
      }
      if (!own.hasEnded && !ending.signal.aborted) timer = setTimeout(read, wait);
    };
    read();
    return () => {
      ending.abort();
      clearTimeout(timer);
    };
  }, [isPaused, job.status]);
  const { lines, dropped, after } = reading.current;
  return { lines, dropped, size: after, error };
}

/** Append output; an incomplete last line is shown, and parsed again when more of it arrives. */
function append(own, text) {
  if (own.hasOpen) own.lines.pop();
  const parts = (own.partial + text).split("\n");
  own.partial = parts.pop().slice(-PARTIAL_MAX);
  const lines = parts.map((part) => lineOf(own, part));
  own.hasOpen = own.partial !== "";
  if (own.hasOpen) {
    const before = { ...own.ansi };
    lines.push(lineOf(own, own.partial));
    Object.assign(own.ansi, before); // the line is parsed again with the next output
    own.number -= 1;
  }
  own.lines = [...own.lines, ...lines];
  const extra = own.lines.length - LINES_MAX;
  if (extra > 0) {
    own.lines = own.lines.slice(extra);
    own.dropped += extra;
  }
}

function lineOf(own, text) {
  own.number += 1;
  const parts = own.ansi.read(text);
  return { number: own.number, parts, text: parts.map((part) => part.text).join("").toLowerCase() };
}
