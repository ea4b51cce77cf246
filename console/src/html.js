/** Preact, its hooks and signals: modules import them from here. */
import { h } from "preact";
import htm from "htm";

export { Component, Fragment, createContext, render } from "preact";
export { useContext, useEffect, useId, useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
export { batch, computed, effect, signal, useComputed, useSignal, useSignalEffect } from "@preact/signals";

export const html = htm.bind(h);
