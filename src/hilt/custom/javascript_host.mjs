// The worker side of a JavaScript or TypeScript tool: loads one module, describes its tool, and answers calls, one line
// of JSON each. Runs under node and bun. The runtime ignores lines on standard output that are not replies, so a module
// may print; a reply always starts on a new line.
import { spawnSync } from "node:child_process";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const write = process.stdout.write.bind(process.stdout);
process.stdout.write = process.stderr.write.bind(process.stderr);
for (const name of ["log", "info", "debug"]) {
  console[name] = console.error.bind(console); // bun's console bypasses process.stdout
}

let loaded;

function summary(error) {
  if (error instanceof AggregateError && error.errors.length) {
    return summary(error.errors[0]); // bun reports all errors of a module at once
  }
  if (error instanceof Error) {
    return error.message ? `${error.name}: ${error.message}` : error.name;
  }
  return typeof error?.message === "string" ? error.message : String(error);
}

function lineAfter(text, path) {
  const at = text.indexOf(path);
  const match = at < 0 ? null : /^:(\d+)/.exec(text.slice(at + path.length));
  return match ? Number(match[1]) : null;
}

function lineOf(error, path) {
  const first = error instanceof AggregateError ? error.errors[0] : error;
  if (typeof first?.position?.line === "number") {
    return first.position.line;
  }
  const line = lineAfter(typeof first?.stack === "string" ? first.stack : "", path);
  if (line !== null || !(first instanceof SyntaxError)) {
    return line;
  }
  // node reports the line of a syntax error only with --check
  const checked = spawnSync(process.execPath, [...process.execArgv, "--check", path], { encoding: "utf8" });
  return lineAfter(checked.stderr ?? "", path);
}

function schemaOf(inputSchema) {
  if (inputSchema === undefined || inputSchema === null) {
    return { type: "object", properties: {} };
  }
  const schema = inputSchema.jsonSchema ?? inputSchema;
  if (typeof schema !== "object" || Array.isArray(schema) || "_def" in schema || "~standard" in schema) {
    throw new Error("the tool.inputSchema must be a JSON Schema, plain or wrapped in jsonSchema()");
  }
  return schema;
}

async function load({ module, root }) {
  let exported;
  try {
    exported = (await import(pathToFileURL(module).href)).default;
  } catch (error) {
    return { problem: { message: summary(error), line: lineOf(error, module) } };
  }
  process.chdir(root);
  try {
    const inner = exported?.tool;
    const isTool = typeof exported === "object" && typeof exported?.name === "string";
    if (!isTool || typeof inner !== "object" || inner === null) {
      throw new Error("the default export must be an object with name and tool");
    }
    if (typeof inner.description !== "string" || !inner.description.trim()) {
      throw new Error("the tool.description must be a non-empty string");
    }
    if (typeof inner.execute !== "function") {
      throw new Error("the tool.execute must be a function");
    }
    if (exported.validator !== undefined && typeof exported.validator !== "function") {
      throw new Error("the validator must be a function");
    }
    const notes = ["formatter", "streamingFormatter"]
      .filter((name) => exported[name] !== undefined)
      .map((name) => `${name} is ignored: results are shown by their view`);
    const described = {
      name: exported.name,
      description: inner.description,
      schema: JSON.parse(JSON.stringify(schemaOf(inner.inputSchema))),
      // a function decides per call and is not evaluated, so every call prompts
      asks: inner.needsApproval !== false,
      readOnly: exported.readOnly === true,
      notes,
    };
    loaded = exported;
    return { tools: [described] };
  } catch (error) {
    return { problem: { message: error.message, line: null } };
  }
}

async function outcome(args, id) {
  if (loaded.validator) {
    const verdict = await loaded.validator(args);
    if (verdict?.valid !== true) {
      const message = typeof verdict?.error === "string" ? verdict.error : "The tool rejected these arguments.";
      return { error: { code: "invalid_args", message } };
    }
  }
  const options = { toolCallId: String(id), messages: [], abortSignal: new AbortController().signal };
  let value = await loaded.tool.execute(args, options);
  if (value !== null && typeof value === "object" && typeof value[Symbol.asyncIterator] === "function") {
    let last;
    for await (const part of value) {
      last = part; // each part is the result so far
    }
    value = last;
  }
  if (typeof value === "string") {
    return { output: { text: value } };
  }
  return { output: { data: value === undefined ? null : value } };
}

async function call({ args, root, id }) {
  try {
    process.chdir(root); // the last call may have changed the working folder
    return await outcome(args, id);
  } catch (error) {
    return { error: { code: "tool_failed", message: `${loaded.name} failed: ${summary(error)}` } };
  }
}

function reply(id, body) {
  let text;
  try {
    text = JSON.stringify({ id, ...body });
  } catch (error) {
    const message = `The tool returned a value that JSON does not support: ${summary(error)}.`;
    text = JSON.stringify({ id, error: { code: "tool_failed", message } });
  }
  write(`\n${text}\n`);
}

// report unhandled rejections of the module, but do not let them end the process in the middle of a reply
process.on("unhandledRejection", (error) => console.error(`unhandled rejection: ${summary(error)}`));

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const request = JSON.parse(line);
  reply(request.id, request.op === "load" ? await load(request) : await call(request));
}
process.exit(0);
