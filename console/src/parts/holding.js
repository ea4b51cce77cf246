import { useEffect, useRef, useState } from "../html.js";

const POINTING_MS = 1_500;

/**
 * Keep the rows of a list in place while the pointer moves in it: {rows, hold}.
 *
 * Rows in the list are still updated; rows are added and removed once the pointer rests or leaves. `hold` has the event
 * handlers of the list.
 */
export function useHeld(rows, keyOf = (row) => row.id) {
  const [, redraw] = useState(0);
  const pointedAt = useRef(-Infinity);
  const held = useRef(rows);
  const remainingMs = pointedAt.current + POINTING_MS - performance.now();
  const isHeld = remainingMs > 0 && held.current.length > 0 && rows.length > 0;
  if (isHeld) {
    const fresh = new Map(rows.map((row) => [keyOf(row), row]));
    held.current = held.current.map((row) => fresh.get(keyOf(row)) ?? row);
  } else held.current = rows;
  useEffect(() => {
    if (!isHeld || held.current.length === rows.length) return undefined;
    const timer = setTimeout(() => redraw((number) => number + 1), remainingMs);
    return () => clearTimeout(timer);
  });
  const hold = {
    onPointerMove: () => (pointedAt.current = performance.now()),
    onPointerLeave: () => {
      pointedAt.current = -Infinity;
      redraw((number) => number + 1);
    },
  };
  return { rows: held.current, hold };
}

/** Return the row with this id; by default the row that was first when the page was opened. */
export function useChosen(rows, id) {
  const first = useRef(null);
  first.current ??= rows[0]?.id ?? null;
  return rows.find((row) => row.id === id) ?? rows.find((row) => row.id === first.current) ?? rows[0];
}
