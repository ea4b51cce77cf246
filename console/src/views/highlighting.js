/** Syntax highlighting: converts the tree of highlight.js to lines of parts; its HTML is not used. */
import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import markdown from "highlight.js/lib/languages/markdown";
import python from "highlight.js/lib/languages/python";
import ruby from "highlight.js/lib/languages/ruby";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";

const LANGUAGES = { bash, c, cpp, css, diff, go, ini, java, javascript, json, markdown, python, ruby, rust, sql, typescript, xml, yaml };
for (const [name, language] of Object.entries(LANGUAGES)) hljs.registerLanguage(name, language);

// the scopes of highlight.js that are coloured
const SCOPES = {
  keyword: "keyword",
  built_in: "title",
  type: "title",
  literal: "number",
  number: "number",
  string: "string",
  regexp: "string",
  comment: "comment",
  doctag: "comment",
  meta: "comment",
  title: "title",
  section: "title",
  name: "keyword",
  tag: "keyword",
  attr: "title",
  attribute: "title",
  symbol: "number",
  variable: "number",
  addition: "string",
  deletion: "keyword",
};

/** Return the lines of a text as [{text, scope}], or null for an unknown language. */
export function highlighted(text, language) {
  if (!hljs.getLanguage(language)) return null;
  const { _emitter } = hljs.highlight(text, { language, ignoreIllegals: true });
  const lines = [[]];
  const walk = (node, scope) => {
    if (typeof node === "string") {
      node.split("\n").forEach((part, index) => {
        if (index) lines.push([]);
        if (part) lines.at(-1).push({ text: part, scope });
      });
      return;
    }
    const own = node.scope ? SCOPES[node.scope.split(".")[0]] : undefined;
    for (const child of node.children) walk(child, own ?? scope);
  };
  walk(_emitter.root, undefined);
  return lines;
}
