/** Starts the console: token, theme, keys, events, and the shell around the pages. */
import { isRefused, takeToken } from "./api.js";
import { startEvents } from "./events.js";
import { effect, html, render } from "./html.js";
import { startKeys } from "./keys.js";
import { startNotifications } from "./notifications.js";
import { startRouter } from "./router.js";
import { Shell, TokenMissing } from "./shell.js";
import { startTheme } from "./theme.js";

startTheme();
takeToken();
startRouter();
startKeys();
if (!isRefused.value) {
  startEvents();
  startNotifications();
}
document.body.replaceChildren();
effect(() => render(isRefused.value ? html`<${TokenMissing} />` : html`<${Shell} />`, document.body));
