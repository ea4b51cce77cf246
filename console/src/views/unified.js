/** Unified diffs as views. */

const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/;
const TYPES = { "+": "added", "-": "removed", " ": "context", "": "context" };

/** Return the view of a unified diff of several files, or null if the text is none; other lines are context of their file. */
export function parsedDiff(text) {
  if (!/^@@ -\d/m.test(text)) return null;
  const items = [];
  let item = null;
  let hunk = null;
  let left = [0, 0]; // lines of the old and of the new file that the hunk still has
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  const begin = (path) => {
    item = { type: "diff", path, hunks: [], additions: 0, deletions: 0 };
    items.push(item);
    hunk = null;
  };
  const start = (oldStart, newStart) => {
    hunk = { oldStart, newStart, old: oldStart, new: newStart, changes: [] };
    item.hunks.push(hunk);
  };
  for (let place = 0; place < lines.length; place += 1) {
    const line = lines[place];
    const match = HUNK.exec(line);
    if (left[0] <= 0 && left[1] <= 0 && line.startsWith("--- ") && lines[place + 1]?.startsWith("+++ ")) {
      begin(pathOf(lines[place + 1].slice(4)) ?? pathOf(line.slice(4)) ?? "");
      place += 1;
    } else if (match && left[0] <= 0 && left[1] <= 0) {
      if (!item) begin("");
      start(Number(match[1]), Number(match[2]));
      left = sizes(line);
    } else {
      if (!item) begin("");
      if (!hunk) start(1, 1);
      add(item, hunk, line, left);
    }
  }
  return { type: "diffs", items };
}

function sizes(line) {
  return ["-", "+"].map((sign) => Number(new RegExp(`\\${sign}\\d+(?:,(\\d+))?`).exec(line)[1] ?? 1));
}

function add(item, hunk, line, left) {
  const sign = line.slice(0, 1);
  const isInside = left[0] > 0 || left[1] > 0;
  const type = isInside ? (TYPES[sign] ?? "context") : "context";
  const change = { type, content: isInside && sign in TYPES ? line.slice(1) : line };
  if (!isInside || !(sign in TYPES)) {
    hunk.changes.push(change);
    return;
  }
  if (type !== "added") {
    change.oldLineNumber = hunk.old++;
    left[0] -= 1;
  }
  if (type !== "removed") {
    change.newLineNumber = hunk.new++;
    left[1] -= 1;
  }
  item.additions += type === "added";
  item.deletions += type === "removed";
  hunk.changes.push(change);
}

function pathOf(text) {
  const path = text.split("\t")[0].replace(/^[ab]\//, "");
  return path === "/dev/null" ? null : path;
}
