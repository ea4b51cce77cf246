import { html } from "../html.js";

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const EXACT = new Intl.DateTimeFormat(undefined, {
  year: "numeric",
  month: "long",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  fractionalSecondDigits: 3,
  hourCycle: "h23",
  timeZoneName: "short",
});

/** A local time, exact on hover. `at` is RFC 3339 or milliseconds. */
export function Time({ at }) {
  const moment = new Date(at);
  if (at === null || at === undefined || Number.isNaN(moment.getTime())) return null;
  const isToday = moment.toDateString() === new Date().toDateString();
  return html`
    <time datetime=${moment.toISOString()} title=${EXACT.format(moment)}>${(isToday ? CLOCK : DAY).format(moment)}</time>
  `;
}
