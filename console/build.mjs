// Bundles the console into the Python package: `make assets`.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const target = join(here, "../src/hilt/surfaces/http/console");

/** Return all files below a folder, sorted. */
function filesBelow(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
}

/** Return one digest of all build inputs; tests/surfaces/http/test_static.py computes the same. */
function sourceDigest() {
  const names = ["build.mjs", "package-lock.json", "package.json", ...filesBelow(join(here, "src")).map((path) => relative(here, path))];
  const lines = names.sort().map((name) => {
    const digest = createHash("sha256").update(readFileSync(join(here, name))).digest("hex");
    return `${digest}  ${name.replaceAll("\\", "/")}\n`;
  });
  return createHash("sha256").update(lines.join("")).digest("hex");
}

/** Return the licences of the packages that ended up in the bundle. */
function notices(metafile) {
  const packages = new Set();
  for (const output of Object.values(metafile.outputs)) {
    for (const [input, { bytesInOutput }] of Object.entries(output.inputs)) {
      const match = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
      if (match && bytesInOutput > 0) packages.add(match[1]);
    }
  }
  const parts = [...packages].sort().map((name) => {
    const folder = join(here, "node_modules", name);
    const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const file = readdirSync(folder).find((entry) => /^(licen[cs]e|copying)([.-]|$)/i.test(entry));
    if (!file) throw new Error(`${name} has no licence file`);
    const text = readFileSync(join(folder, file), "utf8").replaceAll("\r\n", "\n").trim();
    return `${name} ${version} (${license})\n\n${text}\n`;
  });
  const rule = `\n${"-".repeat(78)}\n\n`;
  return `The console contains parts of these packages.\n${rule}${parts.join(rule)}`;
}

const { metafile, outputFiles } = await build({
  absWorkingDir: here,
  entryPoints: { console: "src/main.js", style: "src/style.css" },
  outdir: join(target, "assets"),
  entryNames: "[name]-[hash]",
  chunkNames: "[name]-[hash]",
  bundle: true,
  splitting: true,
  minify: true,
  format: "esm",
  target: "es2022",
  legalComments: "none",
  metafile: true,
  write: false,
  logLevel: "warning",
});

const built = (suffix) => outputFiles.map((file) => relative(target, file.path)).find((path) => suffix.test(path));
// the server answers the path of each page with the start page
const pages = Object.values(metafile.outputs).flatMap(({ entryPoint }) => /^src\/pages\/(\w+)\.js$/.exec(entryPoint ?? "")?.[1] ?? []);
const start = readFileSync(join(here, "src/index.html"), "utf8")
  .replace("PAGES", pages.sort().join(" "))
  .replace("STYLE", built(/style-\w+\.css$/))
  .replace("SCRIPT", built(/console-\w+\.js$/));

rmSync(target, { recursive: true, force: true });
mkdirSync(join(target, "assets"), { recursive: true });
for (const file of outputFiles) writeFileSync(file.path, file.contents);
writeFileSync(join(target, "index.html"), start);
writeFileSync(join(target, "notices.txt"), notices(metafile));
writeFileSync(join(target, "source.sha256"), `${sourceDigest()}\n`);
