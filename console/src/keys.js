/** Keyboard shortcuts: global ones, and those of the current page. */
import { effect, signal, useLayoutEffect, useRef } from "./html.js";

const STORED = "hilt.keys";

/** Whether single-key shortcuts work; users who dictate or press keys by accident can turn them off. */
export const hasSingleKeys = signal(localStorage.getItem(STORED) !== "off");

/** The keys that work on every page, {key: {label, run}}; those of a page take precedence. */
export const globalKeys = {};

const layers = new Set();

/** Register keys while a component is shown: {"a": {label: "Allow once", run: () => …}}. */
export function useKeys(keys) {
  const layer = useRef({ keys });
  layer.current.keys = keys;
  // before the next frame: a key that is pressed as soon as the page appears must work
  useLayoutEffect(() => {
    const own = layer.current;
    layers.add(own);
    return () => layers.delete(own);
  }, []);
}

/** Return the keys that currently work, with their labels. */
export function activeKeys() {
  const keys = Object.assign({}, globalKeys, ...[...layers].map((layer) => layer.keys));
  return Object.entries(keys).map(([key, { label }]) => [key, label]);
}

/** Whether an element accepts typed text. */
export function isTyping(element) {
  if (!(element instanceof HTMLElement)) return false;
  if (element.isContentEditable || element.matches("textarea, select")) return true;
  return element.matches("input") && !element.matches("[type=checkbox], [type=radio], [type=button], [type=submit]");
}

export function startKeys() {
  effect(() => {
    if (hasSingleKeys.value) localStorage.removeItem(STORED);
    else localStorage.setItem(STORED, "off");
  });
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || event.repeat) return;
    const name = event.ctrlKey || event.metaKey ? `Ctrl ${event.key.toUpperCase()}` : event.key;
    const isPlain = !event.ctrlKey && !event.metaKey;
    const isBlocked = isPlain && name !== "Escape" && (!hasSingleKeys.value || isTyping(event.target));
    if (event.altKey || isBlocked) return;
    if (document.querySelector("dialog[open]")) return; // a dialog has its own keys
    if (name === "Escape") document.activeElement?.blur(); // leaves a text field, so that single keys work again
    const layer = [...layers].reverse().find(({ keys }) => Object.hasOwn(keys, name));
    const binding = layer ? layer.keys[name] : Object.hasOwn(globalKeys, name) && globalKeys[name];
    if (binding) {
      event.preventDefault();
      binding.run(event);
    }
  });
}
