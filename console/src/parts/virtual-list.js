import { Virtualizer, elementScroll, measureElement, observeElementOffset, observeElementRect } from "@tanstack/virtual-core";
import { html, useLayoutEffect, useRef, useState } from "../html.js";

/** Return the virtualizer of a scrolling element, which draws only the visible rows. */
export function useVirtual({ scroller, count, estimate, keyAt, overscan = 10 }) {
  const [, redraw] = useState(0);
  const virtual = useRef(null);
  const options = {
    count,
    overscan,
    estimateSize: () => estimate,
    getItemKey: keyAt,
    getScrollElement: () => scroller.current,
    scrollToFn: elementScroll,
    observeElementRect,
    observeElementOffset,
    measureElement,
    onChange: () => redraw((number) => number + 1),
  };
  if (virtual.current) virtual.current.setOptions(options);
  else virtual.current = new Virtualizer(options);
  useLayoutEffect(() => virtual.current._didMount(), []); // not an effect, which would still observe the removed list
  useLayoutEffect(() => virtual.current._willUpdate());
  return virtual.current;
}

/**
 * A list of any length. Rows are measured, so they may open and close.
 *
 * Visible rows stay in place when rows are added above. Scrolled to the top, the list follows the newest rows, unless
 * `isHeld()`. With `sticks`, it follows the bottom instead. `handle` receives {toTop, toRow}.
 */
export function VirtualList({ rows, keyOf, renderRow, label, estimate = 36, isHeld, sticks, handle, onScroll, ...rest }) {
  const scroller = useRef(null);
  const anchor = useRef(null);
  const keyAt = (index) => keyOf(rows[index], index);
  const virtual = useVirtual({ scroller, count: rows.length, estimate, keyAt });

  // keep the first visible row in place
  const element = scroller.current;
  let target = null;
  if (element && anchor.current && !sticks && (element.scrollTop > 0 || isHeld?.())) {
    const { key, index, offset } = anchor.current;
    if (rows[index] === undefined || keyAt(index) !== key) {
      const newIndex = rows.findIndex((row, at) => keyOf(row, at) === key);
      virtual.getTotalSize(); // updates the measurements
      if (newIndex >= 0) {
        target = virtual.measurementsCache[newIndex].start + offset;
        virtual.scrollOffset = target;
      }
    }
  }
  const items = virtual.getVirtualItems();

  useLayoutEffect(() => {
    if (target !== null) scroller.current.scrollTop = target;
    if (sticks) scroller.current.scrollTop = scroller.current.scrollHeight;
    remember();
  });

  const remember = () => {
    const top = scroller.current.scrollTop;
    const first = virtual.getVirtualItemForOffset(top);
    anchor.current = first && rows[first.index] !== undefined ? { key: first.key, index: first.index, offset: top - first.start } : null;
  };
  const scrolled = () => {
    if (!scroller.current) return; // an event that arrives after the list has gone
    remember();
    onScroll?.(scroller.current);
  };
  if (handle) {
    handle.current = {
      toTop: () => virtual.scrollToOffset(0),
      toRow: (index) => virtual.scrollToIndex(index, { align: "auto" }),
    };
  }
  return html`
    <div class="virtual" ref=${scroller} onScroll=${scrolled} ...${rest}>
      <div class="virtual-rows" role="list" aria-label=${label} style=${{ height: `${virtual.getTotalSize()}px` }}>
        ${items.map(
          (item) => html`
            <div
              key=${item.key}
              role="listitem"
              class="virtual-row"
              data-index=${item.index}
              aria-setsize=${rows.length}
              aria-posinset=${item.index + 1}
              ref=${(row) => row && virtual.measureElement(row)}
              style=${{ transform: `translateY(${item.start}px)` }}
            >${renderRow(rows[item.index], item.index)}</div>
          `,
        )}
      </div>
    </div>
  `;
}
