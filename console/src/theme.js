/** The theme: dark, light, or that of the system. */
import { effect, signal } from "./html.js";

const STORED = "hilt.theme";

export const THEMES = ["system", "light", "dark"];
export const theme = signal(THEMES.includes(localStorage.getItem(STORED)) ? localStorage.getItem(STORED) : "system");

export function startTheme() {
  effect(() => {
    if (theme.value === "system") {
      localStorage.removeItem(STORED);
      delete document.documentElement.dataset.theme;
    } else {
      localStorage.setItem(STORED, theme.value);
      document.documentElement.dataset.theme = theme.value;
    }
  });
}
