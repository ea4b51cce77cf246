/** The event stream: one WebSocket that reconnects, and the state that the console derives from events. */
import { api, isRefused, loadWorkspaces, token } from "./api.js";
import { signal } from "./html.js";

const HISTORY = 2_000; // older events to load at the start
const ROWS_MAX = 10_000;
const NAMES_MAX = 500;
const CHARACTERS_MAX = 64 << 20; // of all rows
const RETRY_MS = [250, 500, 1_000, 2_000, 5_000];
const REFUSED = 4401;

/** "connecting", "open", "lost" or "refused". */
export const connection = signal("connecting");

/** The calls that Activity shows, oldest first, and the names in them; `version` changes with them. */
export const calls = { rows: [], sessions: new Set(), tools: new Set(), version: signal(0), size: 0 };

/** The pending approvals and questions; null until they are loaded. */
export const approvals = signal(null);
export const questions = signal(null);

let socket = null;
let last = null; // the number of the last event
let attempts = 0;
let pending = [];
const running = new Map(); // calls that have not ended, by id
let isScheduled = false;
const listeners = new Set();

/** Call a function with each batch of events of these types; returns a function that stops it. "reset" means: reload. */
export function onEvents(types, callback) {
  const listener = { types: new Set(types), callback };
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function startEvents() {
  for (const [list, path, name] of [
    [approvals, "/v1/approvals", "approval"],
    [questions, "/v1/questions", "question"],
  ]) {
    const load = coalesced(async () => {
      list.value = (await api.get(path, { limit: 1000 }))[`${name}s`];
    });
    onEvents([name, "reset"], load);
    load();
  }
  const load = coalesced(loadWorkspaces);
  onEvents(["server", "reset"], load);
  load();
  addEventListener("online", reconnect);
  document.addEventListener("visibilitychange", () => document.hidden || reconnect());
  connect();
}

/** Reconnect now, if the connection is lost. */
export function reconnect() {
  if (connection.value === "lost") connect();
}

/** Return a function that runs `work`, and once more if it was called while `work` ran. */
export function coalesced(work) {
  let isRunning = false;
  let isCalledAgain = false;
  return async () => {
    if (isRunning) {
      isCalledAgain = true;
      return;
    }
    isRunning = true;
    try {
      do {
        isCalledAgain = false;
        await work().catch(() => {}); // retried at the next event or reconnection
      } while (isCalledAgain);
    } finally {
      isRunning = false;
    }
  };
}

function connect() {
  clearTimeout(connect.timer);
  if (isRefused.value || (socket && socket.readyState < WebSocket.CLOSING)) return;
  const start = last === null ? `recent=${HISTORY}` : `after=${last}`;
  const own = new WebSocket(`${location.origin.replace(/^http/, "ws")}/v1/events?${start}`);
  socket = own;
  own.onopen = () => {
    own.send(JSON.stringify({ token: token(), approver: true }));
    if (connection.value === "lost") notify([{ type: "reset" }]); // reload what could not be loaded in the meantime
    connection.value = "open";
  };
  own.onmessage = ({ data }) => {
    if (socket !== own) return;
    attempts = 0;
    const event = JSON.parse(data);
    last = event.seq;
    event.size = data.length;
    pending.push(event);
    schedule();
  };
  own.onclose = ({ code }) => {
    if (socket !== own) return;
    socket = null;
    if (code === REFUSED) {
      isRefused.value = true;
      connection.value = "refused";
      return;
    }
    connection.value = "lost";
    connect.timer = setTimeout(connect, RETRY_MS[Math.min(attempts, RETRY_MS.length - 1)]);
    attempts += 1;
  };
}

/** Process new events once per frame; a hidden page has no frames. */
function schedule() {
  if (isScheduled) return;
  isScheduled = true;
  if (document.hidden) setTimeout(deliver, 250);
  else requestAnimationFrame(deliver);
}

function deliver() {
  isScheduled = false;
  const events = pending;
  pending = [];
  storeCalls(events.filter((event) => event.type === "call" || event.type === "call_started"));
  notify(events);
}

function notify(events) {
  for (const { types, callback } of listeners) {
    const matches = events.filter((event) => types.has(event.type));
    if (matches.length) callback(matches);
  }
}

/** Add calls; a call that has ended replaces its running row. */
function storeCalls(events) {
  if (!events.length) return;
  for (const event of events) {
    const index = event.type === "call" && running.has(event.id) ? calls.rows.lastIndexOf(running.get(event.id)) : -1;
    if (event.type === "call_started") running.set(event.id, event);
    else running.delete(event.id);
    event.key = event.id ?? event.seq;
    if (calls.sessions.size < NAMES_MAX) calls.sessions.add(event.session);
    if (calls.tools.size < NAMES_MAX) calls.tools.add(event.tool);
    calls.size += event.size;
    if (index < 0) calls.rows.push(event);
    else {
      event.started = calls.rows[index].time;
      calls.size -= calls.rows[index].size;
      calls.rows[index] = event;
    }
  }
  let dropped = 0;
  while (calls.rows.length - dropped > ROWS_MAX || (calls.size > CHARACTERS_MAX && calls.rows.length - dropped > 1)) {
    calls.size -= calls.rows[dropped].size;
    running.delete(calls.rows[dropped].id);
    dropped += 1;
  }
  calls.rows.splice(0, dropped);
  calls.version.value += 1;
}
