/** What is known of a call without opening it. */
import { pretty } from "./text.js";

// the arguments that say most about a call, the first of them that it has
const TELLING = ["command", "path", "paths", "file", "pattern", "query", "url", "prompt", "question", "title", "name", "id", "patch"];

/** Return the one argument that matters, as text. */
export function mainArgument({ args }) {
  if (!args || typeof args !== "object") return "";
  const key = TELLING.find((name) => args[name] !== undefined && args[name] !== null && args[name] !== "") ?? Object.keys(args)[0];
  if (key === undefined) return "";
  const value = args[key];
  return typeof value === "string" ? value : pretty(value);
}

/** Return how a call went: "running", "ok", "denied", "failed". */
export function stateOf({ type, outcome, verdict }) {
  if (type === "call_started") return "running";
  if (outcome === "ok") return "ok";
  return verdict === "deny" || outcome === "denied" || outcome === "approval_required" ? "denied" : "failed";
}
