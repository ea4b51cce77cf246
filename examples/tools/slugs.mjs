// A JavaScript tool in nanocoder's format. node or bun runs it and keeps it running.
import { jsonSchema, tool } from "nanocoder/tools";

const slug = (title) =>
  title
    .normalize("NFKD")
    .replace(/\p{M}/gu, "")
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, "-")
    .replace(/^-|-$/g, "");

export default {
  name: "slugs",
  tool: tool({
    description: "Turn titles into slugs for file names and URLs. Duplicates get a number.",
    inputSchema: jsonSchema({
      type: "object",
      properties: { titles: { type: "array", items: { type: "string" }, minItems: 1 } },
      required: ["titles"],
      additionalProperties: false,
    }),
    needsApproval: false,
    execute: async ({ titles }) => {
      const seen = new Map();
      return titles.map((title) => {
        const name = slug(title) || "untitled";
        const times = seen.get(name) ?? 0;
        seen.set(name, times + 1);
        return times ? `${name}-${times + 1}` : name;
      });
    },
  }),
  validator: async ({ titles }) =>
    titles.every((title) => title.length <= 500)
      ? { valid: true }
      : { valid: false, error: "⚒ A title has more than 500 characters" },
  readOnly: true,
};
