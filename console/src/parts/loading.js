import { api, here, isRefused } from "../api.js";
import { coalesced, onEvents } from "../events.js";
import { useEffect, useRef, useState } from "../html.js";

const cache = new Map(); // the last responses, shown at once when a page is opened again

/**
 * Load a response of the API, and reload it on events of the given types: {data, error, isLoading, reload}.
 *
 * `when` filters these events. During a reload, the old response stays, so that nothing jumps.
 */
export function useLoad(path, { query = here(), on = [], when = () => true, every = 0 } = {}) {
  const key = path === null ? null : `${path}?${new URLSearchParams(query)}`;
  const [, redraw] = useState(0);
  const state = useRef({});
  if (state.current.key !== key) state.current = { key, data: cache.get(key), error: null };
  useEffect(() => {
    if (key === null) return undefined;
    const own = state.current;
    const ending = new AbortController();
    own.reload = coalesced(async () => {
      try {
        const data = await api.get(path, query, { signal: ending.signal });
        if (ending.signal.aborted) return;
        own.data = data;
        own.error = null;
        cache.set(key, own.data);
      } catch (error) {
        if (ending.signal.aborted || isRefused.value) return;
        own.error = error;
      }
      redraw((number) => number + 1);
    });
    own.reload();
    const end = onEvents([...on, "reset"], (events) => {
      if (events.some((event) => event.type === "reset" || when(event))) own.reload();
    });
    const timer = every ? setInterval(own.reload, every) : null;
    return () => {
      ending.abort();
      end();
      clearInterval(timer);
    };
  }, [key]);
  const { data, error } = state.current;
  return { data, error, isLoading: data === undefined && error === null, reload: () => state.current.reload?.() };
}

/** Load a list; `more` loads one more page: {rows, error, isLoading, hasMore, more, reload}. */
export function useList(path, name, { query = here(), limit = 100, ...options } = {}) {
  const [pages, setPages] = useState(1);
  const rowLimit = Math.min(1000, limit * pages);
  const { data, error, isLoading, reload } = useLoad(path, { query: { ...query, limit: rowLimit }, ...options });
  const last = useRef(null);
  if (data) last.current = data;
  const answer = data ?? last.current;
  return {
    rows: answer?.[name] ?? [],
    answer,
    error,
    isLoading: isLoading && !answer,
    hasMore: Boolean(answer?.next) && rowLimit < 1000,
    more: () => setPages(pages + 1),
    reload,
  };
}

/** Return an action with its state: {run, error, isRunning, clear}. */
export function useAction(work) {
  const [state, setState] = useState({ error: null, isRunning: false });
  const run = async (...args) => {
    setState({ error: null, isRunning: true });
    try {
      const answer = await work(...args);
      setState({ error: null, isRunning: false });
      return answer;
    } catch (error) {
      setState({ error, isRunning: false });
      return undefined;
    }
  };
  return { run, ...state, clear: () => setState({ error: null, isRunning: false }) };
}
