/** Unified diffs as views. */

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/;
const TYPES = { "+": "added", "-": "removed", " ": "context" };

/** Return the view of a unified diff of several files, or null if the text is not one; other lines become notes. */
export function parsedDiff(text) {
  const items = [];
  let notes = [];
  let hunk = null;
  let before = 0; // remaining lines of the hunk in the old and the new file
  let after = 0;
  const begin = (path) => {
    items.push({ type: "diff", path, hunks: [], additions: 0, deletions: 0, notes });
    notes = [];
  };
  const lines = text.split("\n");
  for (let index = 0; index < lines.length; index += 1) {
    const line = lines[index];
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
    } else if (line.startsWith("--- ") && lines[index + 1]?.startsWith("+++ ")) {
      begin(pathOf(lines[index + 1]) ?? pathOf(line) ?? "");
      index += 1;
    } else if (line && !/^(diff --git|index) /.test(line)) notes.push(line);
  }
  if (items.length) items.at(-1).notes.push(...notes);
  return items.some((item) => item.hunks.length) ? { type: "diffs", items } : null;
}

function pathOf(line) {
  const path = line.slice(4).split("\t")[0].replace(/^[ab]\//, "");
  return path === "/dev/null" ? null : path;
}

/** Return a diff view with before and after swapped; null for other views. */
export function reversed(view) {
  const items = view?.type === "diff" ? [view] : view?.type === "diffs" ? view.items : null;
  if (!Array.isArray(items)) return null;
  const opposite = { added: "removed", removed: "added", created: "deleted", deleted: "created" };
  const titled = (title) => title?.replace?.(/(?<= \()(created|deleted)(?=(; [^()]*)?\)$)/, (action) => opposite[action]);
  return {
    type: "diffs",
    items: items.map((item) => ({
      ...item,
      title: titled(item.title),
      additions: item.deletions,
      deletions: item.additions,
      hunks: item.hunks.map(({ changes }) => ({ changes: sorted(changes.map(swap)) })),
    })),
  };

  function swap({ type, oldLineNumber, newLineNumber, content }) {
    return { type: opposite[type] ?? type, content, oldLineNumber: newLineNumber, newLineNumber: oldLineNumber };
  }
}

/** Return the changes with removed lines before added ones in each group. */
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
