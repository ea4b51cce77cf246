/** Tools: the available tools, their sources, and a form to try each. */
import { api, here } from "../api.js";
import { approvals } from "../events.js";
import { html, signal, useId, useMemo, useState } from "../html.js";
import { useKeys } from "../keys.js";
import { Empty, ErrorBox, Field, Json, Loading, Page, Section, Tabs, useList } from "../parts/index.js";
import { query, setQuery } from "../router.js";
import { count, oneLine, visible } from "../text.js";
import { View } from "../views/index.js";

const SESSION = "console";
const CALL_MS = 24 * 3600 * 1000; // a call may wait for an approval
const LONG = new Set(["command", "content", "description", "message", "new_text", "old_text", "patch", "prompt", "script", "text"]);

export default function Tools() {
  const { rows, answer, error, isLoading, reload } = useList("/v1/tools", "tools", { limit: 1000, every: 5_000 });
  const search = query.value.get("search") ?? "";
  const name = query.value.get("name");
  const matches = useMemo(() => matchingTools(rows, search), [rows, search]);
  const step = (by) => () => {
    const index = matches.findIndex((tool) => tool.name === name);
    const next = matches[Math.min(matches.length - 1, Math.max(0, index + by))];
    if (next) setQuery({ name: next.name });
  };
  useKeys({ j: { label: "Next tool", run: step(1) }, k: { label: "Previous tool", run: step(-1) } });
  const tool = rows.find((row) => row.name === name);
  const href = (to) => `/tools?${new URLSearchParams({ ...(search && { search }), name: to })}`;
  return html`
    <${Page} title="Tools" actions=${rows.length > 0 && html`<span class="muted">${count(rows.length, "tool")}</span>`}>
      <${ErrorBox} error=${error} retry=${reload} />
      <${LoadErrors} errors=${answer?.errors ?? []} />
      ${isLoading && html`<${Loading} />`}
      ${answer &&
      html`<div class="two-panes">
        <div class="panel tool-list">
          <${Field} label="Search" value=${search} onInput=${(value) => setQuery({ search: value })} placeholder="Name, description or source" data-filter="" />
          ${!matches.length && html`<${Empty} title="No tool matches">Search for other words.<//>`}
          <ul aria-label="Tools">
            ${matches.map(
              (row) => html`
                <li key=${row.name}>
                  <a href=${href(row.name)} aria-current=${row.name === name ? "true" : undefined}>
                    <span class="mono">${visible(row.name)}</span>
                    ${row.source !== "built-in" && html`<span class="tag">${oneLine(kindOf(row.source), 30)}</span>`}
                    <span class="muted tool-text">${oneLine(row.description, 100)}</span>
                  </a>
                </li>
              `,
            )}
          </ul>
        </div>
        <div class="pane">
          ${tool
            ? html`<${Tool} key=${tool.name} tool=${tool} />`
            : html`<${Empty} title=${name ? `There is no tool ${oneLine(name, 80)}` : "Select a tool"}>Its description, its schema and a form to try it appear here.<//>`}
        </div>
      </div>`}
    <//>
  `;
}

/** Return the tools that match all words, those with a matching name first. */
function matchingTools(tools, search) {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return tools;
  const matches = tools.filter((tool) => {
    const text = `${tool.name} ${tool.title} ${tool.description} ${tool.source} ${tool.effects.join(" ")}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
  const isNamed = (tool) => words.some((word) => tool.name.toLowerCase().includes(word));
  return [...matches.filter(isNamed), ...matches.filter((tool) => !isNamed(tool))];
}

/** Return a short word for a source, which may be a path. */
function kindOf(source) {
  return source.includes("/") ? "custom" : source;
}

function LoadErrors({ errors }) {
  if (!errors.length) return null;
  return html`
    <${Section} title="Load errors">
      <ul class="load-errors">
        ${errors.map(
          ({ file, line, message }) => html`
            <li key=${`${file}:${line}`} class="error-box">
              <p class="mono">${visible(file)}${line === null ? "" : `:${line}`}</p>
              <p>${visible(message)}</p>
            </li>
          `,
        )}
      </ul>
      <p class="muted">A broken file is reloaded when it changes. Review untrusted files on the Settings page.</p>
    <//>
  `;
}

function Tool({ tool }) {
  return html`
    <article class="panel stack" aria-label=${visible(tool.name)}>
      <header class="pane-head">
        <h2 class="mono">${visible(tool.name)}</h2>
        <span class="buttons">${tool.effects.map((effect) => html`<span key=${effect} class=${`tag ${effect === "read" ? "" : "warn"}`}>${visible(effect)}</span>`)}</span>
      </header>
      <p class="muted">Source: <span class="mono">${visible(tool.source)}</span></p>
      <${View} view=${{ type: "markdown", content: tool.description }} text=${tool.description} />
      <${Try} tool=${tool} />
      <${Tabs}
        label="Schemas"
        tabs=${[
          ["Arguments", () => html`<${Arguments} schema=${tool.input_schema} />`],
          ["Input schema", () => html`<${Json} value=${tool.input_schema} label="Input schema" />`],
          ...(tool.output_schema ? [["Output schema", () => html`<${Json} value=${tool.output_schema} label="Output schema" />`]] : []),
        ]}
      />
    </article>
  `;
}

function Arguments({ schema }) {
  const required = new Set(schema.required ?? []);
  const names = Object.keys(schema.properties ?? {});
  if (!names.length) return html`<p class="muted">The tool takes no arguments.</p>`;
  return html`
    <dl class="arguments">
      ${names.map((name) => {
        const rules = schema.properties[name] ?? {};
        return html`
          <div key=${name}>
            <dt><span class="mono">${visible(name)}</span> <span class="muted">${visible(typeText(rules))}${required.has(name) ? ", required" : ""}</span></dt>
            <dd>${visible(rules.description ?? "")}</dd>
          </div>
        `;
      })}
    </dl>
  `;
}

/** Describe the type of a value. */
function typeText(rules) {
  if (rules.enum) return `one of ${rules.enum.join(", ")}`;
  const types = [rules.type ?? [], ...(rules.anyOf ?? []).map((other) => other.type ?? [])].flat();
  return [...new Set(types)].filter((type) => type !== "null").join(" or ") || "any";
}

// --- Try it ---------------------------------------------------------------------------------------------------------

const attempts = signal({}); // by tool name; they outlast a change of page

function updateAttempt(name, parts) {
  attempts.value = { ...attempts.value, [name]: { values: {}, ...attempts.value[name], ...parts } };
}

async function call(tool, args) {
  const ending = new AbortController();
  updateAttempt(tool.name, { isRunning: true, envelope: null, error: null, stop: () => ending.abort() });
  try {
    const options = { signal: ending.signal, timeout: CALL_MS };
    const envelope = await api.post("/v1/call", { tool: tool.name, args, session: SESSION, ...here() }, undefined, options);
    updateAttempt(tool.name, { isRunning: false, envelope });
  } catch (error) {
    updateAttempt(tool.name, { isRunning: false, error: ending.signal.aborted ? new Error("The call was stopped.") : error });
  }
}

function Try({ tool }) {
  const attempt = attempts.value[tool.name];
  if (!attempt) return html`<div class="buttons"><button type="button" class="main" onClick=${() => updateAttempt(tool.name, {})}>Try it</button></div>`;
  return html`<${TryForm} tool=${tool} attempt=${attempt} />`;
}

function TryForm({ tool, attempt }) {
  const [problem, setProblem] = useState(null);
  const { values, isRunning, envelope, error } = attempt;
  const properties = Object.entries(tool.input_schema.properties ?? {}).filter(([name]) => name !== "dry_run");
  const required = new Set(tool.input_schema.required ?? []);
  const hasDryRun = Object.hasOwn(tool.input_schema.properties ?? {}, "dry_run");
  const set = (name, value) => updateAttempt(tool.name, { values: { ...values, [name]: value } });
  const submit = (event) => {
    event.preventDefault();
    if (isRunning) return;
    try {
      const args = { ...argumentsOf(properties, required, values), ...(values.dry_run && { dry_run: true }) };
      setProblem(null);
      call(tool, args);
    } catch (failure) {
      setProblem(failure);
    }
  };
  const isPending = isRunning && (approvals.value ?? []).some((approval) => approval.session === SESSION && approval.tool === tool.name);
  return html`
    <form class="form try" aria-label="Try it" onSubmit=${submit}>
      ${properties.map(
        ([name, rules]) => html`
          <${Argument}
            key=${name}
            name=${name}
            rules=${rules ?? {}}
            isRequired=${required.has(name)}
            value=${values[name]}
            onInput=${(value) => set(name, value)}
          />
        `,
      )}
      <div class="buttons">
        <button type="submit" class="main" disabled=${isRunning}>Run</button>
        ${hasDryRun && html`<${Check} label="Dry run" value=${values.dry_run ?? false} onInput=${(value) => set("dry_run", value)} />`}
        ${isRunning && html`<button type="button" onClick=${attempt.stop}>Stop the call</button>`}
      </div>
      <p class="muted" role="status">
        ${isPending
          ? html`The call is waiting for your approval. <a href="/approvals">Answer it</a>; the result will appear here.`
          : isRunning
            ? "Running…"
            : ""}
      </p>
      <${ErrorBox} error=${problem ?? error} />
      ${envelope && html`<${Outcome} envelope=${envelope} />`}
    </form>
  `;
}

function Outcome({ envelope }) {
  const failure = envelope.ok ? null : { message: `${envelope.error_code}: ${envelope.error}`, suggestion: envelope.suggestion };
  return html`
    <section class="stack" aria-label="Result">
      <${ErrorBox} error=${failure} />
      <${Tabs}
        label="Result"
        tabs=${[
          ["View", () => html`<${View} view=${envelope.visualization} text=${envelope.result ?? envelope.error ?? ""} content=${envelope.content ?? []} />`],
          ["Envelope", () => html`<${Json} value=${envelope} label="Envelope" />`],
        ]}
      />
    </section>
  `;
}

/** Return the input kind of an argument: "check", "choice", "number", "lines" (a list of strings), "json" or "text". */
function kindOfInput(rules) {
  if (rules.enum) return "choice";
  const types = typeText(rules).split(" or ");
  if (types.length > 1) return types.every((type) => type === "integer" || type === "number") ? "number" : types.includes("string") ? "text" : "json";
  if (types[0] === "boolean") return "check";
  if (types[0] === "integer" || types[0] === "number") return "number";
  if (types[0] === "array") return rules.items?.type === "string" ? "lines" : "json";
  return types[0] === "string" ? "text" : "json";
}

function Argument({ name, rules, isRequired, value, onInput }) {
  const kind = kindOfInput(rules);
  const label = visible(name);
  const hint = [isRequired && "Required.", rules.description, { lines: "One per line.", json: "As JSON." }[kind]].filter(Boolean).join(" ");
  if (kind === "check") {
    return html`<${Check} label=${label} hint=${visible(hint)} value=${value ?? rules.default ?? false} onInput=${onInput} />`;
  }
  const shared = { label, hint: hint && visible(hint), value: value ?? "", onInput };
  if (kind === "choice") {
    const choices = rules.enum.filter((choice) => choice !== null).map((choice) => [String(choice), oneLine(choice, 80)]);
    return html`<${Field} ...${shared} options=${[["", rules.default === undefined || rules.default === null ? "–" : `default: ${oneLine(rules.default, 60)}`], ...choices]} />`;
  }
  const defaultValue = rules.default;
  const placeholder = [undefined, null, ""].includes(defaultValue) ? undefined : `default: ${oneLine(JSON.stringify(defaultValue), 80)}`;
  const isLong = kind === "lines" || kind === "json" || LONG.has(name);
  return html`<${Field} ...${shared} multiline=${isLong} placeholder=${placeholder} inputmode=${kind === "number" ? "numeric" : undefined} />`;
}

function Check({ label, hint, value, onInput }) {
  const id = useId();
  return html`
    <div>
      <label class="check">
        <input type="checkbox" checked=${value} aria-describedby=${hint ? id : undefined} onChange=${(event) => onInput(event.currentTarget.checked)} />
        ${label}
      </label>
      ${hint && html`<p class="hint" id=${id}>${hint}</p>`}
    </div>
  `;
}

/** Return the arguments from the form; empty fields are omitted. */
function argumentsOf(properties, required, values) {
  const args = {};
  for (const [name, rules] of properties) {
    const value = values[name];
    const kind = kindOfInput(rules ?? {});
    if (value === undefined || (value === "" && !(kind === "text" && required.has(name)))) continue;
    if (kind === "number") {
      if (!Number.isFinite(Number(value))) throw Object.assign(new Error(`${name} must be a number.`), { suggestion: "Use digits only." });
      args[name] = Number(value);
    } else if (kind === "lines") args[name] = value.split("\n").filter((line) => line !== "");
    else if (kind === "json") {
      try {
        args[name] = JSON.parse(value);
      } catch {
        throw Object.assign(new Error(`${name} is not valid JSON.`), { suggestion: 'Write it as JSON, such as {"a": 1} or ["b"].' });
      }
    } else if (kind === "choice") args[name] = rules.enum.find((choice) => String(choice) === value);
    else args[name] = value;
  }
  return args;
}
