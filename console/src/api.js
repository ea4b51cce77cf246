/** Requests to the API, with the person's token. */
import { signal } from "./html.js";

const TIMEOUT_MS = 30_000;
const STORED = "hilt.token";
const FOLDER = "hilt.workspace";

/** Whether there is no valid token; then no requests are sent. */
export const isRefused = signal(false);

/** The selected folder, null for the first one; and all served folders. */
export const workspace = signal(sessionStorage.getItem(FOLDER));
export const workspaces = signal([]);

/** An error reported by the server or the network. */
export class ApiError extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `The server responded with status ${status}.`);
    this.status = status;
    this.code = problem.error_code;
    this.suggestion = problem.suggestion;
    this.first = problem.first;
  }
}

/** Move the token from the URL to the storage of this tab, also when a URL with a token is opened later. */
export function takeToken() {
  const newToken = new URLSearchParams(location.hash.slice(1)).get("token");
  if (newToken !== null) {
    sessionStorage.setItem(STORED, newToken);
    history.replaceState(null, "", location.pathname + location.search);
  }
  isRefused.value = !token();
  addEventListener("hashchange", () => location.hash.startsWith("#token=") && location.reload());
}

export function token() {
  return sessionStorage.getItem(STORED);
}

function address(path, query = {}) {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return pairs.length ? `${path}?${new URLSearchParams(pairs)}` : path;
}

async function request(method, path, { query, body, signal, timeout = TIMEOUT_MS } = {}) {
  if (isRefused.value) throw new ApiError(401, { detail: "There is no valid token." });
  const deadline = AbortSignal.timeout(timeout);
  let response;
  try {
    response = await fetch(address(path, query), {
      method,
      headers: { Authorization: `Bearer ${token()}`, ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: signal ? AbortSignal.any([signal, deadline]) : deadline,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    const detail = deadline.aborted
      ? `The server did not respond within ${timeout / 1000} seconds.`
      : "The server cannot be reached.";
    throw new ApiError(0, { detail, suggestion: "Check that hilt serve is running, then try again." });
  }
  if (response.status === 401) isRefused.value = true;
  if (!response.ok) throw new ApiError(response.status, await response.json().catch(() => ({})));
  return response.json(); // fails if the request is aborted in the meantime
}

export const api = {
  get: (path, query, options = {}) => request("GET", path, { query, ...options }),
  post: (path, body = {}, query = undefined, options = {}) => request("POST", path, { body, query, ...options }),
  patch: (path, body, query = undefined) => request("PATCH", path, { body, query }),
  delete: (path, query = undefined) => request("DELETE", path, { query }),
};

/** Return the path of a row; ids may contain any character. */
export function at(...parts) {
  return parts.map((part, index) => (index % 2 ? encodeURIComponent(part) : part)).join("/");
}

/** Load the served folders; the selected one may be gone. */
export async function loadWorkspaces() {
  const { workspaces: folders } = await api.get("/v1/settings");
  workspaces.value = folders;
  if (!folders.includes(workspace.value)) chooseWorkspace(null);
}

export function chooseWorkspace(folder) {
  workspace.value = folder;
  if (folder === null) sessionStorage.removeItem(FOLDER);
  else sessionStorage.setItem(FOLDER, folder);
}

/** Return the query that selects the folder. */
export function here() {
  return workspace.value === null ? {} : { workspace: workspace.value };
}
