// A tool in JavaScript, in the form that nanocoder has: node or bun hosts it and keeps it warm.
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
    description: "Turn titles into names for files and addresses. Two that would be the same get a number.",
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
