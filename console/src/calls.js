/** The summary of a call. */
import { pretty } from "./text.js";

// the most telling arguments, in this order
const MAIN_ARGUMENTS = ["command", "pattern", "query", "url", "prompt", "path", "paths", "file", "files", "title", "name", "action", "id", "patch"];
const SEARCHED_MAX = 4_000;

/** Return the most telling argument as text. */
export function mainArgument({ args }) {
  if (!args || typeof args !== "object") return "";
  const hasText = (name) => args[name] !== undefined && args[name] !== null && args[name] !== "";
  const key = MAIN_ARGUMENTS.find(hasText) ?? Object.keys(args)[0];
  if (key === undefined) return "";
  return typeof args[key] === "string" ? args[key] : pretty(args[key]);
}

// the outcomes of calls that were not allowed
const DENIED = new Set([
  "denied",
  "approval_required",
  "approval_timeout",
  "USER_REJECTION",
  "no_one_to_ask",
  "hook_blocked",
  "command_blocked",
  "untrusted",
  "sensitive_path",
  "protected_path",
  "path_outside_workspace",
  "ssrf_blocked",
]);

/** Return the state of a call: "running", "ok", "denied" or "failed". */
export function stateOf({ type, outcome }) {
  if (type === "call_started") return "running";
  if (outcome === "ok") return "ok";
  return DENIED.has(outcome) ? "denied" : "failed";
}

/** Return the text that the filter searches, in lower case. */
export function searchText(call) {
  call.searched ??= `${call.tool} ${call.session} ${call.outcome} ${call.reason} ${JSON.stringify(call.args ?? "").slice(0, SEARCHED_MAX)}`.toLowerCase();
  return call.searched;
}
