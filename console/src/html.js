/** Preact, its hooks and signals under one roof, so that modules import them from one place. */
import { h } from "preact";
import htm from "htm";

export { Component, Fragment, createContext, render } from "preact";
export { useContext, useEffect, useId, useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
export { batch, computed, effect, signal, useComputed, useSignal, useSignalEffect } from "@preact/signals";

export const html = htm.bind(h);
