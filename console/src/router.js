/** The address of the page as a signal; links within the console do not reload it. */
import { computed, signal } from "./html.js";

/** The pages: id, name, and the import of the module. */
export const PAGES = [
  ["activity", "Activity", () => import("./pages/activity.js")],
  ["approvals", "Approvals", () => import("./pages/approvals.js")],
  ["jobs", "Jobs", () => import("./pages/jobs.js")],
  ["changes", "Changes", () => import("./pages/changes.js")],
  ["tasks", "Tasks", () => import("./pages/tasks.js")],
  ["agents", "Agents", () => import("./pages/agents.js")],
  ["tools", "Tools", () => import("./pages/tools.js")],
  ["metrics", "Metrics", () => import("./pages/metrics.js")],
  ["audit", "Audit", () => import("./pages/audit.js")],
  ["settings", "Settings", () => import("./pages/settings.js")],
];

const read = () => ({ path: location.pathname, query: new URLSearchParams(location.search) });
const current = signal(read());

/** The id of the current page. */
export const page = computed(() => {
  const id = current.value.path.slice(1);
  return PAGES.some(([name]) => name === id) ? id : "activity";
});

/** The query of the address, as URLSearchParams. */
export const query = computed(() => current.value.query);

/** Go to an address of the console, such as /jobs?id=1. */
export function navigate(address, { replace = false } = {}) {
  if (address === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", address);
  current.value = read();
}

/** Change parts of the query; null removes one. Does not add to the history. */
export function setQuery(parts) {
  const next = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(parts)) {
    if (value === null || value === "") next.delete(name);
    else next.set(name, value);
  }
  const text = next.toString();
  navigate(location.pathname + (text ? `?${text}` : ""), { replace: true });
}

export function startRouter() {
  addEventListener("popstate", () => (current.value = read()));
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a[href^='/']") : null;
    if (!link || link.target || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    if (!PAGES.some(([id]) => link.pathname === `/${id}`)) return;
    event.preventDefault();
    navigate(link.pathname + link.search);
  });
}
