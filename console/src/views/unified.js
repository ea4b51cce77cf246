/** Unified diffs as views. */

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/;
const TYPES = { "+": "added", "-": "removed", " ": "context" };

/** Return the view of a unified diff of several files, or null if the text has none; other lines become notes of a file. */
export function parsedDiff(text) {
  const items = [];
  let notes = [];
  let hunk = null;
  let before = 0; // lines of the old and of the new file that the hunk still has
  let after = 0;
  const begin = (path) => {
    items.push({ type: "diff", path, hunks: [], additions: 0, deletions: 0, notes });
    notes = [];
  };
  const lines = text.split("\n");
  for (let place = 0; place < lines.length; place += 1) {
    const line = lines[place];
    const type = TYPES[line[0]] ?? (line === "" ? "context" : undefined);
    if ((before > 0 || after > 0) && type) {
      const item = items.at(-1);
      const change = { type, content: line.slice(1) };
      if (type !== "added") {
        change.oldLineNumber = hunk.old++;
        before -= 1;
      }
      if (type !== "removed") {
        change.newLineNumber = hunk.new++;
        after -= 1;
      }
      item.additions += type === "added";
      item.deletions += type === "removed";
      hunk.changes.push(change);
      continue;
    }
    const match = HUNK.exec(line);
    if (match) {
      if (!items.length) begin("");
      hunk = { old: Number(match[1]), new: Number(match[3]), changes: [] };
      before = Number(match[2] ?? 1);
      after = Number(match[4] ?? 1);
      items.at(-1).hunks.push(hunk);
    } else if (line.startsWith("--- ") && lines[place + 1]?.startsWith("+++ ")) {
      begin(pathOf(lines[place + 1]) ?? pathOf(line) ?? "");
      place += 1;
    } else if (line && !/^(diff --git|index) /.test(line)) notes.push(line);
  }
  if (items.length) items.at(-1).notes.push(...notes);
  return items.some((item) => item.hunks.length) ? { type: "diffs", items } : null;
}

function pathOf(line) {
  const path = line.slice(4).split("\t")[0].replace(/^[ab]\//, "");
  return path === "/dev/null" ? null : path;
}

/** Return a view of diffs with before and after exchanged, or null if it is not one. */
export function reversed(view) {
  const items = view?.type === "diff" ? [view] : view?.type === "diffs" ? view.items : null;
  if (!Array.isArray(items)) return null;
  const turned = { added: "removed", removed: "added" };
  return {
    type: "diffs",
    items: items.map((item) => ({
      ...item,
      additions: item.deletions,
      deletions: item.additions,
      hunks: item.hunks.map(({ changes }) => ({ changes: sorted(changes.map(turn)) })),
    })),
  };

  function turn({ type, oldLineNumber, newLineNumber, content }) {
    return { type: turned[type] ?? type, content, oldLineNumber: newLineNumber, newLineNumber: oldLineNumber };
  }
}

/** Return the changes with removed lines before the added ones that follow each other. */
function sorted(changes) {
  const lines = [];
  let added = [];
  for (const change of changes) {
    if (change.type === "added") added.push(change);
    else {
      if (change.type !== "removed") lines.push(...added.splice(0));
      lines.push(change);
    }
  }
  return [...lines, ...added];
}
