/** Terminal output as lines of coloured parts. Colours become one of eight classes, which both themes define. */
import { AnsiUp } from "ansi_up";
import { html } from "../html.js";
import { visible } from "../text.js";

const LINE_MAX = 2_000;
const NAMES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
const PALETTE = [[0, 0, 0], [187, 0, 0], [0, 187, 0], [187, 187, 0], [0, 0, 187], [187, 0, 187], [0, 187, 187], [255, 255, 255]];

/** Parses terminal output line by line; colours carry over to the next line. */
export class AnsiLines extends AnsiUp {
  #parts = [];

  /** Return a line as [{text, name}]; long lines are truncated. */
  read(line) {
    const end = line.length > LINE_MAX ? ` … ${(line.length - LINE_MAX).toLocaleString()} more characters` : "";
    // a carriage return overwrites the line
    const written = line.replace(/\r+$/, "");
    this.#parts = [];
    this.ansi_to_html(written.slice(written.lastIndexOf("\r") + 1, LINE_MAX + written.lastIndexOf("\r") + 1));
    if (end) this.#parts.push({ text: end, name: "muted" });
    return this.#parts;
  }

  // the two methods of the library that would produce HTML
  transform_to_html({ text, fg, bg, bold, faint, italic, underline }) {
    if (!text) return "";
    const names = [bold && "bold", faint && "faint", italic && "italic", underline && "underline"];
    names.push(bg ? "ground" : fg && `ansi-${nearest(fg.rgb)}`);
    this.#parts.push({ text: visible(text), name: names.filter(Boolean).join(" ") });
    return "";
  }

  process_hyperlink({ text }) {
    this.#parts.push({ text: visible(text), name: "underline" });
    return "";
  }
}

function nearest(rgb) {
  const distances = PALETTE.map((color) => color.reduce((sum, part, index) => sum + (part - rgb[index]) ** 2, 0));
  return NAMES[distances.indexOf(Math.min(...distances))];
}

/** Draw the parts of a line. */
export function drawParts(parts) {
  return parts.map(({ text, name }, index) => (name ? html`<span key=${index} class=${name}>${text}</span>` : text));
}
