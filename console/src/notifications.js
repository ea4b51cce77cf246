/** Notifications of the browser about what waits for the person, if they want them. */
import { approvals, questions } from "./events.js";
import { effect, signal } from "./html.js";
import { navigate } from "./router.js";
import { oneLine } from "./text.js";

const STORED = "hilt.notifications";
const isKnown = "Notification" in window;

/** "on", "off", or "blocked" if the browser does not allow them. */
export const notifications = signal(
  !isKnown || Notification.permission === "denied"
    ? "blocked"
    : localStorage.getItem(STORED) === "on" && Notification.permission === "granted"
      ? "on"
      : "off",
);

/** Turn notifications on, which asks the browser, or off. */
export async function toggleNotifications() {
  if (notifications.value === "on") notifications.value = "off";
  else notifications.value = (await Notification.requestPermission()) === "granted" ? "on" : "blocked";
  localStorage.setItem(STORED, notifications.value);
}

export function startNotifications() {
  let known = null;
  effect(() => {
    if (approvals.value === null || questions.value === null) return;
    const rows = [...approvals.value, ...questions.value];
    const fresh = known === null ? [] : rows.filter(({ id }) => !known.has(id));
    known = new Set(rows.map(({ id }) => id));
    if (document.hidden && notifications.peek() === "on") fresh.forEach(notify);
  });
}

function notify(row) {
  const title = row.tool ? `${oneLine(row.tool, 60)} needs approval` : "An agent has a question";
  const body = oneLine(row.command || row.reason || row.questions?.[0]?.question, 200);
  const shown = new Notification(title, { body, tag: row.id });
  shown.onclick = () => {
    window.focus();
    navigate("/approvals");
    shown.close();
  };
}
