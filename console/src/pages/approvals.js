/** Approvals: the calls that are waiting for approval, and the questions of agents. */
import { api, at } from "../api.js";
import { approvals, onEvents, questions } from "../events.js";
import { html, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "../html.js";
import { hasSingleKeys, useKeys } from "../keys.js";
import { notifications, toggleNotifications } from "../notifications.js";
import { openDialogs } from "../parts/dialog.js";
import { Empty, ErrorBox, Field, Json, Lines, Loading, Omissions, Page, Review, Time, useNewReview, useReview } from "../parts/index.js";
import { count, exact, oneLine, visible } from "../text.js";
import { Diffs } from "../views/diff.js";
import { parsedDiff } from "../views/unified.js";

const SEEN_MS = 300; // for which a card must have been in view before a key answers it
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
  const hold = useScrollAnchor(list, current);
  const reveal = (id) => {
    const card = list.current?.querySelector(`[data-card="${CSS.escape(id)}"]`);
    card?.scrollIntoView({ block: "nearest" });
    hold(card);
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

  const ids = cards.map(({ row }) => row.id).join();
  useLayoutEffect(() => {
    // a click right now was meant for what was there before
    list.current.classList.add("moved");
    const timer = setTimeout(() => list.current?.classList.remove("moved"), SEEN_MS);
    return () => clearTimeout(timer);
  }, [ids]);

  const actions = useRef(new Map()); // the actions of keys, by the id of a card
  const act = (name) => (event) => {
    const own = actions.current.get(current);
    if (!own) return;
    if (!own.isSeen(event)) {
      flash(reveal(current)); // the key was not meant for what the user had not seen
      return;
    }
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

function flash(card) {
  card?.animate([{ opacity: 0.4 }, { opacity: 1 }], SEEN_MS);
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

/** Keep the card under the pointer, or the current one, in place while others come and go; return a function that keeps another. */
function useScrollAnchor(list, current) {
  const held = useRef(null); // {id, top}
  const pointed = useRef(null);
  const scroller = () => list.current.closest("main");
  const find = (id) => id && list.current.querySelector(`[data-card="${CSS.escape(id)}"]`);
  const hold = (card) => (held.current = card ? { id: card.dataset.card, top: card.getBoundingClientRect().top } : null);
  const remember = () => hold(find(pointed.current) ?? find(current));
  useLayoutEffect(() => {
    const card = find(held.current?.id);
    if (card) scroller().scrollTop += card.getBoundingClientRect().top - held.current.top;
    remember();
  });
  // a layout effect, as everywhere that listens: other effects end only after the next frame, when the cards have gone
  useLayoutEffect(() => {
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
  return (card) => {
    pointed.current = null; // the pointer stays where it is while its card moves away
    hold(card);
  };
}

/** Return when the heading and the buttons of the current card came into view: a function, and whether that is long enough. */
function useSeen(isCurrent) {
  const card = useRef(null);
  const since = useRef(Infinity);
  const [isReady, setReady] = useState(false);
  useLayoutEffect(() => {
    if (!isCurrent) return undefined;
    const parts = [...card.current.querySelectorAll(".card-head, .card-answer")];
    let timer;
    const look = () => {
      const isInView = !document.hidden && parts.every(isWithinView);
      if (!isInView) since.current = Infinity;
      else if (since.current === Infinity) since.current = performance.now();
      clearTimeout(timer);
      timer = isInView ? setTimeout(() => setReady(true), since.current + SEEN_MS - performance.now()) : undefined;
      if (!isInView) setReady(false);
    };
    const observer = new IntersectionObserver(look, { threshold: [0, 0.25, 0.5, 0.75, 1] });
    for (const part of parts) observer.observe(part);
    const main = card.current.closest("main");
    main.addEventListener("scroll", look, { passive: true });
    document.addEventListener("visibilitychange", look);
    for (const name of ["resize", "scroll"]) visualViewport.addEventListener(name, look);
    return () => {
      clearTimeout(timer);
      for (const name of ["resize", "scroll"]) visualViewport.removeEventListener(name, look);
      observer.disconnect();
      main.removeEventListener("scroll", look);
      document.removeEventListener("visibilitychange", look);
      since.current = Infinity;
      setReady(false);
    };
  }, [isCurrent]);
  const isSeen = ({ timeStamp }) =>
    isCurrent && timeStamp - since.current >= SEEN_MS && [...card.current.querySelectorAll(".card-head, .card-answer")].every(isWithinView);
  return { card, isSeen, isReady };
}

/** Whether all of an element is in the part of the page that is visible, also in a zoomed one, and is not covered. */
function isWithinView(element) {
  const { top, bottom, left, right, height } = element.getBoundingClientRect();
  const view = element.closest("main").getBoundingClientRect();
  const { offsetTop, height: zoomed } = visualViewport;
  const isInside = top >= Math.max(view.top, offsetTop) - 1 && bottom <= Math.min(view.bottom, offsetTop + zoomed) + 1;
  if (!height || !isInside || left >= view.right || right <= view.left) return false;
  return element.contains(document.elementFromPoint((left + right) / 2, (top + bottom) / 2));
}

/** The frame of a card; `name` is its accessible name. */
function Card({ row, name, title, end, isCurrent, isReady, cardRef, onChoose, children }) {
  const folder = row.workspace ? row.workspace.split("/").filter(Boolean).at(-1) : "";
  return html`
    <article
      ref=${cardRef}
      class=${`card${isCurrent ? " current" : ""}${isReady ? " ready" : ""}${end ? " leaving" : ""}`}
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
  const review = useNewReview();
  const { card, isSeen, isReady } = useSeen(isCurrent && !end && !openDialogs.value);
  const canStore = row.rules.length > 0 && !review.omissions.value;
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
  useEffect(() => {
    actions.set(row.id, {
      isSeen,
      once: () => answer("once"),
      always: () => answer("always"),
      preview: () => row.preview && answer("preview"),
      deny: () => reasonField.current?.focus(),
    });
    return () => actions.delete(row.id);
  });
  // the second click of a double click may hit another card, and Enter one that is out of view
  const press = (kind) => (event) => {
    if (event.detail > 1) return;
    if (event.detail || !event.isTrusted || isSeen(event)) answer(kind);
    else {
      card.current.scrollIntoView({ block: "nearest" });
      flash(card.current);
    }
  };
  const denyOnEnter = (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    answer("deny");
  };
  return html`
    <${Card}
      row=${row}
      name=${oneLine(row.tool, 100)}
      title=${exact(row.tool)}
      end=${end}
      isCurrent=${isCurrent}
      isReady=${isReady}
      cardRef=${card}
      onChoose=${onChoose}
    >
      <div class="card-body" tabindex="0" role="group" aria-label="The call">
        <p class="card-reason">
          ${row.risk && html`<span class=${`tag ${RISKS[row.risk] ?? ""}`}>${oneLine(row.risk, 20)}</span> `}${exact(row.reason)}
        </p>
        <${Review.Provider} value=${review}><${Subject} row=${row} /><//>
      </div>
      ${row.rules.length > 0 &&
      html`<p class="card-rules" tabindex="0" role="group" aria-label="Rules">
        <span class="muted">“Always allow” stores:</span>${" "}
        ${row.rules.map((rule) => html`<code key=${rule}>${exact(rule)}</code> `)}
      </p>`}
      <${Omissions} review=${review} />
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
          <button type="button" disabled=${isBusy || !canStore} title=${canStore ? "" : row.rules.length ? "Show all of the call first" : "Not available for this call"} onClick=${press("always")}>Always allow</button>
          ${canStore && html`<${Field} label="How long to always allow" hidden value=${term} onInput=${setTerm} options=${TERMS} />`}
          ${row.preview && html`<button type="button" disabled=${isBusy} onClick=${press("preview")}>Preview first</button>`}
          <button type="button" class="danger" disabled=${isBusy} onClick=${press("deny")}>Deny</button>
        </div>
      </div>
    <//>
  `;
}

/** The subject of an approval: a command with its risky part, all files and the diff of a change, and the arguments. */
function Subject({ row }) {
  const diff = useMemo(() => parsedDiff(row.diff), [row.diff]);
  const args = useMemo(() => otherArguments(row), [row]);
  return html`
    ${row.command && html`<${Command} row=${row} />`}
    ${!isPlain(row) && html`<${Files} files=${row.files} />`}
    ${row.diff && !diff && html`<${Lines} text=${row.diff} label="Change" />`}
    ${diff && html`<${Diffs} view=${diff} />`}
    ${Object.keys(args).length > 0 && html`<${Json} value=${args} label="Arguments" />`}
  `;
}

/** Return the arguments that are not shown otherwise: a diff shows what the long ones change. */
function otherArguments({ arguments: args, command, kind, diff, files }) {
  const others = Object.entries(args).filter(([, value]) => value !== command || !command);
  if (kind !== "edit" || !diff || !files.length || files.some(({ missing }) => missing)) return Object.fromEntries(others);
  return Object.fromEntries(
    others.map(([name, value]) => {
      const text = typeof value === "string" ? value : JSON.stringify(value);
      const isLong = text.length > ARGUMENT_IN_DIFF || text.includes("\n");
      return [name, isLong ? `${text.length.toLocaleString()} characters; the diff shows what they change` : value];
    }),
  );
}

const ARGUMENT_IN_DIFF = 200;
const FILES_MAX = 200;
const ACTIONS = { created: "good", modified: "warn", deleted: "bad" };

/** Whether the heading of the diff says all there is to say about the files. */
const isPlain = ({ files, diff }) => !files.length || (files.length === 1 && diff && files[0].action in ACTIONS && !files[0].runs && !files[0].missing);

/** All files of a change, before any diff: those that run later or are not shown come first. */
function Files({ files }) {
  const isWhole = useReview().isWhole.value;
  const shown = isWhole ? files : files.slice(0, FILES_MAX);
  useReview(shown.length < files.length);
  const counts = new Map();
  const add = (what) => counts.set(what, (counts.get(what) ?? 0) + 1);
  for (const { action } of files) add(action.split(" from ")[0]);
  for (const { runs } of files) if (runs) add("run later");
  for (const { missing } of files) if (missing) add("not shown");
  const kinds = [...counts].map(([what, number]) => `${number.toLocaleString()} ${exact(what)}`).join(", ");
  return html`
    <p class="muted">${count(files.length, "file")}${shown.length < files.length ? `, of which ${shown.length} are listed` : ""}: ${kinds}</p>
    <ul class="file-list" aria-label="Files">
      ${shown.map(
        ({ path, action, runs, missing }) => html`
          <li key=${path}>
            <span class=${`tag ${ACTIONS[action] ?? ""}`}>${exact(action)}</span> <span class="mono">${exact(path)}</span>
            ${runs && html` <span class="tag warn">runs later, by ${exact(runs)}</span>`}
            ${missing && html` <span class="tag bad">not shown: ${exact(missing)}</span>`}
          </li>
        `,
      )}
    </ul>
  `;
}

const COMMAND_MAX = 20_000;

function Command({ row: { command, part, risk, risk_reason: reason } }) {
  const isWhole = useReview().isWhole.value;
  const shown = isWhole ? command : command.slice(0, COMMAND_MAX);
  useReview(shown.length < command.length);
  const start = part && risk !== "safe" ? shown.indexOf(part) : -1;
  return html`
    <pre class="command" tabindex="0" role="group" aria-label="Command">${start < 0
      ? exact(shown)
      : html`${exact(shown.slice(0, start))}<mark class="risky">${exact(part)}</mark>${exact(shown.slice(start + part.length))}`}</pre>
    ${reason && html`<p class=${RISKS[risk] ?? ""}>${exact(reason)}</p>`}
    ${shown.length < command.length && html`<p class="warn">The command has ${command.length.toLocaleString()} characters; only its start is shown.</p>`}
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
      <legend>${question.header && html`<span class="tag">${oneLine(question.header, 40)}</span> `}${exact(question.question)}</legend>
      ${question.options.map(({ label, description }, index) => {
        const about = description ? `${name}-${index}` : undefined;
        return html`
          <div key=${label} class="choice">
            <label class="check">
              <input type=${type} name=${name} checked=${isChosen(label)} aria-describedby=${about} onChange=${change(label)} />
              ${exact(label)}
            </label>
            ${description && html`<p class="hint" id=${about}>${exact(description)}</p>`}
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
