/** Renders Markdown as nodes: HTML in it stays text, and the output of markdown-it is sanitised by DOMPurify. */
import DOMPurify from "dompurify";
import markdownIt from "markdown-it";
import { oneLine, visible } from "../text.js";
import { highlighted } from "./highlighting.js";
import { pixelBudget } from "./images.js";

const CHARACTERS_MAX = 200_000;
const LINE_MAX = 20_000;
const TAGS = "a blockquote br code del div em hr img li ol p pre s span strong table tbody td th thead tr ul".split(" ");
const ALIGNED = /text-align:(left|right|center)/;

const markdown = markdownIt({ html: false, linkify: false });

markdown.core.ruler.push("console", ({ tokens }) => {
  for (const token of tokens) {
    // the headings of a result are not headings of the page
    if (token.type === "heading_open" || token.type === "heading_close") {
      if (token.nesting > 0) token.attrSet("class", `heading-${token.tag}`);
      token.tag = "div";
    }
    const style = token.attrGet("style");
    if (style !== null) {
      token.attrs = token.attrs.filter(([name]) => name !== "style");
      const match = ALIGNED.exec(style);
      if (match) token.attrJoin("class", `align-${match[1]}`);
    }
  }
});

// an image from another host would send a request to it
markdown.renderer.rules.image = (tokens, index) => {
  const source = tokens[index].attrGet("src") ?? "";
  const alt = markdown.utils.escapeHtml(oneLine(tokens[index].content, 200));
  if (source.startsWith("data:image/")) return `<img src="${markdown.utils.escapeHtml(source)}" alt="${alt || "Image"}">`;
  return `<span class="muted">[image: ${alt || markdown.utils.escapeHtml(oneLine(source, 200))}]</span>`;
};

const purify = DOMPurify();
purify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName !== "A") return;
  if (!/^(https?|mailto):/i.test(node.getAttribute("href") ?? "")) node.removeAttribute("href");
  else {
    node.setAttribute("title", oneLine(node.getAttribute("href"), 300)); // the actual target
    node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer");
  }
});

/** Return Markdown as a document fragment. */
export function rendered(text) {
  const rest = text.length - CHARACTERS_MAX;
  const note = rest > 0 ? `\n\n… ${rest.toLocaleString()} more characters` : "";
  const lines = `${visible(text.slice(0, CHARACTERS_MAX))}${note}`.split("\n");
  const short = lines.map((line) => (line.length > LINE_MAX ? `${line.slice(0, LINE_MAX)}…` : line)).join("\n");
  const fragment = purify.sanitize(markdown.render(short), {
    ALLOWED_TAGS: TAGS,
    ALLOWED_ATTR: ["href", "title", "class", "src", "alt", "start"],
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    RETURN_DOM_FRAGMENT: true,
  });
  const measure = pixelBudget();
  for (const image of fragment.querySelectorAll("img")) {
    const note = document.createElement("span");
    note.className = "muted";
    note.textContent = `[image: ${image.alt}]`;
    image.replaceWith(note);
    const drawn = document.importNode(image); // the fragment's own images are not loaded
    measure(drawn, (fits) => fits && note.replaceWith(drawn));
  }
  for (const code of fragment.querySelectorAll("pre > code[class^='language-']")) highlight(code);
  for (const block of fragment.querySelectorAll("pre")) block.tabIndex = 0;
  return fragment;
}

function highlight(code) {
  const lines = highlighted(code.textContent, code.className.slice("language-".length));
  if (!lines) return;
  code.replaceChildren(
    ...lines.flatMap((line, index) => [
      ...(index ? ["\n"] : []),
      ...line.map(({ text, scope }) => {
        if (!scope) return text;
        const part = document.createElement("span");
        part.className = `syntax-${scope}`;
        part.textContent = text;
        return part;
      }),
    ]),
  );
}
