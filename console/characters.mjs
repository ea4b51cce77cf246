// Lists the characters that nobody sees, or that change the order of others, for Python and the console: `make assets`.
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const SPACES = /[\p{Zs}--[ ]]/v;
// also: the blank Braille pattern, replacements of other objects, and fillers and blank signs that Unicode does not list
const HIDDEN =
  /[[\p{Default_Ignorable_Code_Point}\p{Bidi_Control}\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u2800\ufffc\ufffe\uffff\u{13441}\u{13442}\u{16fe4}\u{1d159}]--[\t\n]]/v;
// format characters with a shape of their own, which is around or above the digits that follow
const SHAPED = /[\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u{110bd}\u{110cd}]/u;

/** Return the code points of a class as ranges [first, last]. */
function rangesOf(isIn) {
  const ranges = [];
  for (let code = 0; code <= 0x10ffff; code += 1) {
    if (!isIn(String.fromCodePoint(code), code)) continue;
    if (ranges.at(-1)?.[1] === code - 1) ranges.at(-1)[1] = code;
    else ranges.push([code, code]);
  }
  return ranges;
}

const isHidden = (text, code) => HIDDEN.test(text) && !SHAPED.test(text) && !(code >= 0xd800 && code < 0xe000);
const classes = {
  SPACES: rangesOf((text) => SPACES.test(text)),
  HIDDEN: rangesOf((text, code) => code < 0x10000 && isHidden(text, code)),
  HIGH: rangesOf((text, code) => code >= 0x10000 && isHidden(text, code)),
};

/** Return ranges as the inside of a character class. */
function inside(ranges, escape) {
  return ranges.map(([first, last]) => (first === last ? [first] : [first, last]).map(escape).join("-"));
}

/** Join pieces into lines of at most 110 characters. */
function lines(pieces) {
  const rows = [""];
  for (const piece of pieces) {
    if (rows.at(-1).length + piece.length > 110) rows.push("");
    rows[rows.length - 1] += piece;
  }
  return rows;
}

const hex = (code, digits) => code.toString(16).padStart(digits, "0");
const python = (code) => (code > 0xffff ? `\\U${hex(code, 8)}` : code > 0xff ? `\\u${hex(code, 4)}` : `\\x${hex(code, 2)}`);
const script = (code) => (code > 0xffff ? `\\u{${hex(code, 1)}}` : `\\u${hex(code, 4)}`);
const quoted = Object.entries(classes).map(([name, ranges]) => {
  const rows = lines(inside(ranges, python)).map((row) => `r"${row}"`);
  return rows.length > 1 ? `${name} = (\n    ${rows.join("\n    ")}\n)\n` : `${name} = ${rows[0]}\n`;
});
const all = inside(Object.values(classes).flat(), script).join("");

const files = {
  "../src/hilt/formats/hidden_characters.py": `"""Characters that nobody sees, or that change the order of others: \`make assets\` writes this file.

Each constant is the inside of a character class, from Unicode ${process.versions.unicode}: spaces other than the ordinary one, and the
others, up to and above U+FFFF.
"""

${quoted.join("")}`,
  "src/hidden-characters.js": `/** Characters that nobody sees, or that change the order of others; \`make assets\` writes this file. */
// Unicode ${process.versions.unicode}
export const HIDDEN = "${all.replaceAll("\\", "\\\\")}";
`,
};
for (const [name, text] of Object.entries(files)) {
  const path = join(here, name);
  if (!process.argv.includes("--check")) writeFileSync(path, text);
  else if (readFileSync(path, "utf8") !== text) {
    console.error(`${name} is not current: make assets writes it.`);
    process.exitCode = 1;
  }
}
