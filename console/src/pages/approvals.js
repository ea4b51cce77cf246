/** Approvals: the calls that are waiting for approval, and the questions of agents. */
import { api, at } from "../api.js";
import { approvals, onEvents, questions } from "../events.js";
import { html, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "../html.js";
import { hasSingleKeys, useKeys } from "../keys.js";
import { notifications, toggleNotifications } from "../notifications.js";
import { Empty, ErrorBox, Field, Json, Loading, Page, Time } from "../parts/index.js";
import { oneLine, visible } from "../text.js";
import { Diffs } from "../views/diff.js";
import { parsedDiff } from "../views/unified.js";

const LEAVING_MS = 2_500; // for which an answered card shows its outcome
const PREVIEW_MS = 60_000; // how long to wait for a preview
const TERMS = [["", "until revoked"], ["1h", "for 1 hour"], ["8h", "for 8 hours"], ["7d", "for 7 days"]];
const ANSWERS = { once: "Allowed once", always: "Always allowed", deny: "Denied", preview: "Preview requested" };
const STATUSES = {
  approved: "Allowed",
  used: "Allowed",
  preview: "Preview requested",
  denied: "Denied",
  answered: "Answered",
  expired: "Expired",
  withdrawn: "Withdrawn",
};

/** Whether an approval is for the changes in the preview of another one. */
const isPreviewOf = (row, previewed) =>
  row.id !== previewed.id && row.asked > previewed.asked && row.session === previewed.session && row.command === previewed.command;

export default function Approvals() {
  const { cards, settle } = useCards();
  const waiting = cards.filter(({ end }) => !end);
  const [chosen, setChosen] = useState(null);
  const [previewed, setPreviewed] = useState(null); // an approval whose preview is running: no other card is current
  const preview = previewed && waiting.find(({ row }) => isPreviewOf(row, previewed));
  // the selected card, else the newest approval, else the newest question
  const selected = waiting.find(({ row }) => row.id === chosen) ?? waiting.find(({ row }) => !row.questions) ?? waiting[0];
  const next = previewed ? preview : selected;
  const current = next?.row.id ?? null;
  useLayoutEffect(() => {
    // an approval stays the current one when newer ones arrive
    if (current !== chosen && !next?.row.questions) setChosen(current);
  }, [current]);
  const choose = (id) => {
    setChosen(id);
    setPreviewed(null);
  };
  const wait = (row) => {
    setPreviewed(row);
    setTimeout(() => setPreviewed((now) => (now === row ? null : now)), PREVIEW_MS);
  };
  const list = useRef(null);
  useScrollAnchor(list, current);
  const reveal = (id) => {
    const card = list.current?.querySelector(`[data-card="${CSS.escape(id)}"]`);
    card?.scrollIntoView({ block: "nearest" });
    return card;
  };
  const isAnswered = useRef(false); // by a key: then the next card must be visible for the next key
  useLayoutEffect(() => {
    if (!preview) return;
    isAnswered.current = true;
    choose(preview.row.id);
  }, [preview?.row.id]);
  useEffect(() => {
    if (isAnswered.current && current !== null) reveal(current);
    isAnswered.current = false;
  }, [current]);

  const actions = useRef(new Map()); // the actions of keys, by the id of a card
  const act = (name) => (event) => {
    const own = actions.current.get(current);
    // a key that was pressed before the card appeared is not meant for it
    if (!own || event.timeStamp < own.since) return;
    isAnswered.current = true;
    own[name]?.();
  };
  const move = (step) => {
    const from = waiting.findIndex(({ row }) => row.id === current);
    const id = waiting[Math.max(0, Math.min(waiting.length - 1, from + step))]?.row.id;
    if (id === undefined) return;
    choose(id);
    reveal(id)?.focus({ preventScroll: true });
  };
  useKeys({
    a: { label: "Allow once", run: act("once") },
    A: { label: "Always allow", run: act("always") },
    p: { label: "Preview first, if available", run: act("preview") },
    d: { label: "Deny: type a reason, then Enter", run: act("deny") },
    j: { label: "Next card", run: () => move(1) },
    k: { label: "Previous card", run: () => move(-1) },
  });

  const isLoading = approvals.value === null || questions.value === null;
  const newer = waiting.findIndex(({ row }) => row.id === current);
  return html`
    <${Page} title="Approvals" actions=${html`<${Hints} /><${Notifications} />`}>
      ${newer > 0 && html`<div class="newer-note"><button type="button" class="main" onClick=${() => move(-newer)}>${newer} newer above</button></div>`}
      ${isLoading && html`<${Loading} />`}
      ${!isLoading &&
      !cards.length &&
      html`<${Empty} title="Nothing is waiting for you">
        Calls that need approval and questions from agents appear here while this page is open. Rules decide what needs
        approval: see the Settings page.
      <//>`}
      <div class="cards" ref=${list}>
        ${cards.map(({ row, end }) => {
          const Card = row.questions ? QuestionCard : ApprovalCard;
          const isCurrent = row.id === current;
          return html`<${Card}
            key=${row.id}
            row=${row}
            end=${end}
            isCurrent=${isCurrent}
            onChoose=${() => end || choose(row.id)}
            onEnd=${(outcome) => settle(row.id, outcome)}
            onPreview=${() => wait(row)}
            actions=${actions.current}
          />`;
        })}
      </div>
    <//>
  `;
}

function Hints() {
  if (!hasSingleKeys.value) return null;
  const keys = [["a", "allow once"], ["A", "always"], ["d", "deny"], ["j", "next"], ["k", "previous"]];
  return html`<p class="hints muted">${keys.map(([key, label]) => html`<span key=${key}><kbd>${key}</kbd> ${label}</span>`)}</p>`;
}

function Notifications() {
  const state = notifications.value;
  if (state === "blocked") return html`<span class="muted">The browser blocks notifications.</span>`;
  return html`
    <label class="check">
      <input type="checkbox" checked=${state === "on"} onChange=${toggleNotifications} />Notify me in other tabs
    </label>
  `;
}

/** Return the cards, newest first: what is waiting, and for a moment what was answered. */
function useCards() {
  const [ends, setEnds] = useState({}); // id -> outcome
  const shown = useRef(new Map()); // id -> row
  const settle = (id, outcome) => {
    setEnds((before) => (before[id] ? before : { ...before, [id]: outcome }));
    setTimeout(() => {
      shown.current.delete(id);
      setEnds(({ [id]: _, ...others }) => others);
    }, LEAVING_MS);
  };
  // both at once, so that no card moves when the other list arrives
  const waiting = useMemo(
    () => (approvals.value && questions.value ? [...approvals.value, ...questions.value] : []),
    [approvals.value, questions.value],
  );
  const ids = new Set(waiting.map(({ id }) => id));
  for (const row of waiting) if (!ends[row.id]) shown.current.set(row.id, row);
  const outcomes = useRef({}); // id -> outcome in the last event
  useEffect(
    () =>
      onEvents(["approval", "question"], (events) => {
        for (const { id, status, answered_by: by } of events) {
          if (status !== "pending") outcomes.current[id] = `${STATUSES[status] ?? status}${by ? ` by ${oneLine(by, 60)}` : ""}`;
        }
      }),
    [],
  );
  useEffect(() => {
    for (const id of shown.current.keys()) {
      if (!ids.has(id) && !ends[id]) settle(id, outcomes.current[id] ?? "Answered elsewhere");
    }
  }, [waiting]);
  const cards = [...shown.current.values()]
    .map((row) => ({ row, end: ends[row.id] }))
    .sort((one, other) => (one.row.asked < other.row.asked ? 1 : -1));
  return { cards, settle };
}

/** Keep the card under the pointer, or the current one, in place while others come and go. */
function useScrollAnchor(list, current) {
  const held = useRef(null); // {id, top}
  const pointed = useRef(null);
  const scroller = () => list.current.closest("main");
  const find = (id) => id && list.current.querySelector(`[data-card="${CSS.escape(id)}"]`);
  const remember = () => {
    const card = find(pointed.current) ?? find(current);
    held.current = card ? { id: card.dataset.card, top: card.getBoundingClientRect().top } : null;
  };
  useLayoutEffect(() => {
    const card = find(held.current?.id);
    if (card) scroller().scrollTop += card.getBoundingClientRect().top - held.current.top;
    remember();
  });
  useEffect(() => {
    const main = scroller();
    const follow = (event) => {
      const card = event.target.closest?.("[data-card]");
      pointed.current = card && list.current?.contains(card) ? card.dataset.card : null;
      remember();
    };
    main.addEventListener("scroll", remember, { passive: true });
    main.addEventListener("pointermove", follow, { passive: true });
    return () => {
      main.removeEventListener("scroll", remember);
      main.removeEventListener("pointermove", follow);
    };
  }, [current]);
}

/** The frame of a card; `name` is its accessible name. */
function Card({ row, name, title, end, isCurrent, onChoose, children }) {
  const folder = row.workspace ? row.workspace.split("/").filter(Boolean).at(-1) : "";
  return html`
    <article
      class=${`card${isCurrent ? " current" : ""}${end ? " leaving" : ""}`}
      aria-label=${name}
      aria-current=${isCurrent ? "true" : undefined}
      data-card=${row.id}
      tabindex="-1"
      onFocusIn=${onChoose}
      onPointerDown=${onChoose}
    >
      <header class="card-head">
        <h2>${title}</h2>
        <p class="card-who muted">
          ${row.client && html`${oneLine(row.client, 60)}, `}${row.agent ? "agent" : "session"} <span class="mono">${oneLine(row.session, 60)}</span>
          ${folder && html` in <span class="mono" title=${visible(row.workspace)}>${oneLine(folder, 60)}</span>`}
        </p>
        <span class="card-time muted"><${Time} at=${row.asked} /></span>
      </header>
      ${children}
      ${end && html`<p class="card-end" role="status">${end}</p>`}
    </article>
  `;
}

const RISKS = { dangerous: "bad", caution: "warn", safe: "good" };

function ApprovalCard({ row, end, isCurrent, onChoose, onEnd, onPreview, actions }) {
  const [reason, setReason] = useState("");
  const [term, setTerm] = useState("");
  const [error, setError] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const reasonField = useRef(null);
  const canStore = row.rules.length > 0;
  const answer = async (kind) => {
    if (isBusy || end || (kind === "always" && !canStore)) return;
    setBusy(true);
    setError(null);
    try {
      const lasts = kind === "always" && term ? { for: term } : {};
      await api.post(at("/v1/approvals", row.id), { answer: kind, ...(reason ? { reason } : {}), ...lasts });
      if (kind === "preview") onPreview();
      onEnd(`${ANSWERS[kind]} by you`);
    } catch (problem) {
      if (problem.status === 409) onEnd(problem.first ? `${ANSWERS[problem.first.answer] ?? "Answered"} by ${oneLine(problem.first.by, 60)}` : "Expired");
      else setError(problem);
    }
    setBusy(false);
  };
  const since = useRef(performance.now());
  useEffect(() => {
    actions.set(row.id, {
      since: since.current,
      once: () => answer("once"),
      always: () => answer("always"),
      preview: () => row.preview && answer("preview"),
      deny: () => reasonField.current?.focus(),
    });
    return () => actions.delete(row.id);
  });
  const press = (kind) => (event) => event.detail < 2 && answer(kind); // the second click of a double click may hit another card
  const denyOnEnter = (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    answer("deny");
  };
  return html`
    <${Card} row=${row} name=${oneLine(row.tool, 100)} title=${oneLine(row.tool, 100)} end=${end} isCurrent=${isCurrent} onChoose=${onChoose}>
      <p class="card-reason">
        ${row.risk && html`<span class=${`tag ${RISKS[row.risk] ?? ""}`}>${oneLine(row.risk, 20)}</span> `}${visible(row.reason)}
      </p>
      <${Subject} row=${row} />
      ${canStore &&
      html`<p class="card-rules">
        <span class="muted">“Always allow” stores:</span>${" "}
        ${row.rules.map((rule) => html`<code key=${rule}>${oneLine(rule, 300)}</code> `)}
      </p>`}
      <${ErrorBox} error=${error} />
      <div class="card-answer" inert=${Boolean(end)}>
        <${Field}
          label="Reason"
          placeholder="Optional, for the agent; Enter denies"
          maxlength="2000"
          value=${reason}
          onInput=${setReason}
          inputRef=${reasonField}
          onKeyDown=${denyOnEnter}
        />
        <div class="buttons">
          <button type="button" class="main" disabled=${isBusy} onClick=${press("once")}>Allow once</button>
          <button type="button" disabled=${isBusy || !canStore} title=${canStore ? "" : "Not available for this call"} onClick=${press("always")}>Always allow</button>
          ${canStore && html`<${Field} label="How long to always allow" hidden value=${term} onInput=${setTerm} options=${TERMS} />`}
          ${row.preview && html`<button type="button" disabled=${isBusy} onClick=${press("preview")}>Preview first</button>`}
          <button type="button" class="danger" disabled=${isBusy} onClick=${press("deny")}>Deny</button>
        </div>
      </div>
    <//>
  `;
}

/** The subject of an approval: a command with its risky part, a diff, or the arguments. */
function Subject({ row }) {
  const diff = useMemo(() => parsedDiff(row.diff), [row.diff]);
  const isShown = row.command || diff;
  return html`
    ${row.command && html`<${Command} row=${row} />`}
    ${row.diff && !diff && html`<p class="mono">${oneLine(row.diff, 2000)}</p>`}
    ${diff && html`<${Diffs} view=${diff} />`}
    ${isShown
      ? html`<details><summary>Arguments</summary><${Json} value=${row.arguments} label="Arguments" /></details>`
      : html`<${Json} value=${row.arguments} label="Arguments" />`}
  `;
}

const COMMAND_MAX = 20_000;

function Command({ row: { command, part, risk, risk_reason: reason } }) {
  const shown = command.length > COMMAND_MAX ? `${command.slice(0, COMMAND_MAX)}…` : command;
  const start = part && risk !== "safe" ? shown.indexOf(part) : -1;
  return html`
    <pre class="command" tabindex="0" role="group" aria-label="Command">${start < 0
      ? visible(shown)
      : html`${visible(shown.slice(0, start))}<mark class="risky">${visible(part)}</mark>${visible(shown.slice(start + part.length))}`}</pre>
    ${reason && html`<p class=${RISKS[risk] ?? ""}>${oneLine(reason, 500)}</p>`}
    ${command.length > COMMAND_MAX && html`<p class="warn">The command has ${command.length.toLocaleString()} characters; only its start is shown.</p>`}
  `;
}

const OWN = "\0own"; // the choice "In your own words"

function QuestionCard({ row, end, isCurrent, onChoose, onEnd }) {
  const [answers, setAnswers] = useState({}); // question -> label, or a set of labels
  const [texts, setTexts] = useState({}); // question -> own words
  const [error, setError] = useState(null);
  const valueOf = ({ question, multi_select: isMultiple }) => {
    const chosen = answers[question];
    const own = texts[question]?.trim() ?? "";
    if (!isMultiple) return chosen === OWN ? own : (chosen ?? "");
    return [...(chosen ?? [])].map((label) => (label === OWN ? own : label)).filter(Boolean);
  };
  const missing = row.questions.filter((question) => !valueOf(question).length);
  const send = async (event) => {
    event.preventDefault();
    if (end) return;
    if (missing.length) {
      setError({ message: `Not answered yet: ${oneLine(missing[0].question, 200)}` });
      return;
    }
    setError(null);
    try {
      const body = { answers: Object.fromEntries(row.questions.map((question) => [question.question, valueOf(question)])) };
      await api.post(at("/v1/questions", row.id), body);
      onEnd("Answered by you");
    } catch (problem) {
      if (problem.status === 409) onEnd(problem.first?.by ? `Answered by ${oneLine(problem.first.by, 60)}` : "No longer pending");
      else setError(problem);
    }
  };
  const choose = (question, label, isChecked) => {
    if (!question.multi_select) setAnswers({ ...answers, [question.question]: label });
    else {
      const chosen = new Set(answers[question.question] ?? []);
      if (isChecked) chosen.add(label);
      else chosen.delete(label);
      setAnswers({ ...answers, [question.question]: chosen });
    }
  };
  return html`
    <${Card} row=${row} name="Question" title="Question" end=${end} isCurrent=${isCurrent} onChoose=${onChoose}>
      <form onSubmit=${send} inert=${Boolean(end)}>
        ${row.questions.map(
          (question) => html`
            <${Choices}
              key=${question.question}
              question=${question}
              chosen=${answers[question.question]}
              text=${texts[question.question] ?? ""}
              onChoose=${choose}
              onText=${(text) => {
                setTexts({ ...texts, [question.question]: text });
                choose(question, OWN, true);
              }}
            />
          `,
        )}
        <${ErrorBox} error=${error} />
        <div class="buttons"><button type="submit" class="main">Answer</button></div>
      </form>
    <//>
  `;
}

function Choices({ question, chosen, text, onChoose, onText }) {
  const name = useId();
  const type = question.multi_select ? "checkbox" : "radio";
  const isChosen = (label) => (question.multi_select ? Boolean(chosen?.has(label)) : chosen === label);
  const change = (label) => (event) => onChoose(question, label, event.currentTarget.checked);
  return html`
    <fieldset>
      <legend>${question.header && html`<span class="tag">${oneLine(question.header, 40)}</span> `}${visible(question.question)}</legend>
      ${question.options.map(({ label, description }, index) => {
        const about = description ? `${name}-${index}` : undefined;
        return html`
          <div key=${label} class="choice">
            <label class="check">
              <input type=${type} name=${name} checked=${isChosen(label)} aria-describedby=${about} onChange=${change(label)} />
              ${visible(label)}
            </label>
            ${description && html`<p class="hint" id=${about}>${visible(description)}</p>`}
          </div>
        `;
      })}
      <div class="choice own">
        <label class="check">
          <input type=${type} name=${name} checked=${isChosen(OWN)} onChange=${change(OWN)} />In your own words
        </label>
        <${Field} label="Your own words" hidden value=${text} onInput=${onText} maxlength="2000" />
      </div>
    </fieldset>
  `;
}
