/** Browser notifications about new approvals and questions, if the user enables them. */
import { approvals, questions } from "./events.js";
import { effect, signal } from "./html.js";
import { navigate } from "./router.js";
import { oneLine } from "./text.js";

const STORED = "hilt.notifications";
const isSupported = "Notification" in window;

/** "on", "off", or "blocked" by the browser. */
export const notifications = signal(
  !isSupported || Notification.permission === "denied"
    ? "blocked"
    : localStorage.getItem(STORED) === "on" && Notification.permission === "granted"
      ? "on"
      : "off",
);

/** Turn notifications on or off; turning them on asks the browser for permission. */
export async function toggleNotifications() {
  if (notifications.value === "on") notifications.value = "off";
  else notifications.value = (await Notification.requestPermission()) === "granted" ? "on" : "blocked";
  localStorage.setItem(STORED, notifications.value);
}

export function startNotifications() {
  let seen = null;
  effect(() => {
    if (approvals.value === null || questions.value === null) return;
    const rows = [...approvals.value, ...questions.value];
    const fresh = seen === null ? [] : rows.filter(({ id }) => !seen.has(id));
    seen = new Set(rows.map(({ id }) => id));
    if (document.hidden && notifications.peek() === "on") fresh.forEach(notify);
  });
}

function notify(row) {
  const title = row.tool ? `${oneLine(row.tool, 60)} needs approval` : "An agent has a question";
  const body = oneLine(row.command || row.reason || row.questions?.[0]?.question, 200);
  const notification = new Notification(title, { body, tag: row.id });
  notification.onclick = () => {
    window.focus();
    navigate("/approvals");
    notification.close();
  };
}
