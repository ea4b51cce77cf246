import { createContext, html, signal, useContext, useLayoutEffect, useMemo } from "../html.js";
import { exact, visible } from "../text.js";

/** Inside it, a person decides about what they see: its text is exact, and parts that are left out are counted. */
export const Review = createContext({ isWhole: { value: false }, text: visible });

/** Return a review, for the provider. */
export function useNewReview() {
  return useMemo(() => {
    const omissions = signal(0);
    const leaveOut = () => {
      omissions.value += 1;
      return () => (omissions.value -= 1);
    };
    return { omissions, isWhole: signal(false), text: exact, leaveOut };
  }, []);
}

/** Return the review around a component; with `isCut`, report that the component leaves something out. */
export function useReview(isCut = false) {
  const review = useContext(Review);
  useLayoutEffect(() => (isCut ? review.leaveOut?.() : undefined), [isCut, review]);
  return review;
}

/** Says that something is left out, with a button that shows it. */
export function Omissions({ review }) {
  if (!review.omissions.value) return null;
  return html`
    <p class="warn">
      Not everything is shown.${" "}
      ${review.isWhole.value || html`<button type="button" class="small" onClick=${() => (review.isWhole.value = true)}>Show all</button>`}
    </p>
  `;
}
