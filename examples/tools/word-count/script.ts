interface Input {
  path: string;
  longest: number;
  workspacePath: string;
}

const { path, longest }: Input = await Bun.stdin.json();
const file = Bun.file(path);
if (!(await file.exists())) {
  console.log(JSON.stringify({ error: `${path} does not exist` }));
  process.exit(0);
}
const text = await file.text();
const words = text.split(/\s+/).filter(Boolean);
const distinct = [...new Set(words)].sort((a, b) => b.length - a.length || a.localeCompare(b));
console.log(
  JSON.stringify({
    lines: text.split("\n").length - (text.endsWith("\n") ? 1 : 0),
    words: words.length,
    characters: [...text].length,
    longest: distinct.slice(0, longest),
    _visualization: { type: "markdown", content: `**${words.length}** words in \`${path}\`` },
  }),
);
