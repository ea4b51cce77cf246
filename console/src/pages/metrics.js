/** Metrics: the number and duration of calls, failures, and the cost of models. */
import uPlot from "uplot";
import { here } from "../api.js";
import { html, useEffect, useLayoutEffect, useRef } from "../html.js";
import { DataTable, Empty, ErrorBox, Loading, Page, Section, useLoad } from "../parts/index.js";
import { query, setQuery } from "../router.js";
import { duration, money, visible } from "../text.js";
import { theme } from "../theme.js";

const RANGES = [
  ["1h", "1 h"],
  ["24h", "24 h"],
  ["7d", "7 d"],
];
const EVERY_MS = 10_000;
const HEIGHT = 200;

export default function Metrics() {
  const range = RANGES.some(([id]) => id === query.value.get("range")) ? query.value.get("range") : "24h";
  const { data, error, isLoading, reload } = useLoad("/v1/stats", { query: { range, ...here() }, every: EVERY_MS, on: ["approval"] });
  const latest = useRef(null);
  if (data) latest.current = data;
  const stats = latest.current;
  const buttons = html`
    <div class="buttons" role="group" aria-label="Range">
      ${RANGES.map(
        ([id, name]) => html`
          <button key=${id} type="button" aria-pressed=${id === range} onClick=${() => setQuery({ range: id === "24h" ? null : id })}>${name}</button>
        `,
      )}
    </div>
  `;
  return html`
    <${Page} title="Metrics" actions=${buttons}>
      <${ErrorBox} error=${error} retry=${reload} />
      ${isLoading && !stats && html`<${Loading} />`}
      ${stats && html`<${Numbers} stats=${stats} />`}
      ${stats && stats.calls === 0 && html`<${Empty} title="No calls in this period">Choose a longer range, or let an agent make a call.<//>`}
      ${stats && stats.calls > 0 && html`<${Chart} stats=${stats} />`}
      ${stats && stats.calls > 0 && html`<${ToolTable} tools=${stats.tools} />`}
      ${stats && Object.keys(stats.errors).length > 0 && html`<${Failures} errors=${stats.errors} />`}
      ${stats && html`<${Models} models=${stats.models} />`}
    <//>
  `;
}

function number(value) {
  return value.toLocaleString();
}

function Numbers({ stats }) {
  const share = stats.calls ? ` (${((100 * stats.failed) / stats.calls).toFixed(1)} %)` : "";
  const tiles = [
    ["Calls", number(stats.calls)],
    ["Failures", `${number(stats.failed)}${share}`, stats.failed > 0 && "bad"],
    ["Approvals waiting", number(stats.approvals_waiting), stats.approvals_waiting > 0 && "warn"],
    ["Input tokens", number(stats.input_tokens)],
    ["Output tokens", number(stats.output_tokens)],
    ["Cost", money(stats.cost)],
  ];
  return html`
    <dl class="tiles">
      ${tiles.map(([name, value, colour]) => html`<div key=${name} class="panel"><dt>${name}</dt><dd class=${colour || ""}>${value}</dd></div>`)}
    </dl>
  `;
}

/** Calls and failures per minute, drawn again when the data, the width or the theme changes. */
function Chart({ stats }) {
  const frame = useRef(null);
  const plot = useRef(null);
  const chosen = theme.value;
  const times = stats.series.map(({ time }) => Date.parse(time) / 1000);
  const minutes = Math.max(1 / 60, (stats.end - stats.start) / 60 / Math.max(1, stats.series.length));
  const above = (value) => value || null; // nothing is drawn for 0
  const data = [times, stats.series.map((part) => above(part.calls_per_minute)), stats.series.map((part) => above(part.failed / minutes))];
  useLayoutEffect(() => {
    const element = frame.current;
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const draw = () => {
      plot.current?.destroy();
      plot.current = new uPlot(options(element), plot.current?.data ?? data, element);
    };
    const fit = new ResizeObserver(() => plot.current.setSize({ width: element.clientWidth, height: HEIGHT }));
    draw();
    fit.observe(element);
    dark.addEventListener("change", draw);
    return () => {
      fit.disconnect();
      dark.removeEventListener("change", draw);
      plot.current.destroy();
      plot.current = null;
    };
  }, [chosen]);
  useEffect(() => plot.current?.setData(data));
  const peak = Math.max(...data[1]);
  const summary = `Calls per minute: at most ${peak.toFixed(1)}, ${number(stats.calls)} calls and ${number(stats.failed)} failures in all.`;
  return html`
    <${Section} title="Calls per minute">
      <div class="panel chart" role="img" aria-label=${summary} ref=${frame}></div>
    <//>
  `;
}

function options(element) {
  const style = getComputedStyle(element);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const axis = { stroke: colour("muted"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 } };
  const bars = uPlot.paths.bars({ size: [0.8, 40] });
  return {
    width: element.clientWidth,
    height: HEIGHT,
    cursor: { y: false, points: { show: false } },
    legend: { live: true },
    scales: { y: { range: (self, low, high) => [0, Math.max(1, high)] } },
    axes: [axis, { ...axis, size: 46 }],
    series: [
      { label: "Time" },
      { label: "Calls", stroke: colour("accent"), fill: colour("accent"), paths: bars, points: { show: false } },
      { label: "Failures", stroke: colour("bad"), fill: colour("bad"), paths: bars, points: { show: false } },
    ],
  };
}

function ToolTable({ tools }) {
  const slowest = Math.max(1, ...tools.map((tool) => tool.p95_ms));
  const columns = [
    { key: "tool", label: "Tool", cell: (tool) => html`<span class="mono">${visible(tool.tool)}</span>` },
    { key: "calls", label: "Calls", isNumber: true },
    { key: "failed", label: "Failures", isNumber: true, cell: (tool) => html`<span class=${tool.failed ? "bad" : ""}>${number(tool.failed)}</span>` },
    { key: "p50_ms", label: "p50", isNumber: true, cell: (tool) => duration(tool.p50_ms) },
    { key: "p95_ms", label: "p95", isNumber: true, cell: (tool) => duration(tool.p95_ms) },
    {
      key: "share",
      label: "p95 compared",
      value: (tool) => tool.p95_ms,
      cell: (tool) => html`<span class="bar" aria-hidden="true"><span style=${{ width: `${Math.max(1, (100 * tool.p95_ms) / slowest)}%` }}></span></span>`,
    },
  ];
  return html`
    <${Section} title="Tools">
      <${DataTable} label="Tools" columns=${columns} rows=${tools} keyOf=${(tool) => tool.tool} sort=${{ key: "calls", isDown: true }} />
    <//>
  `;
}

function Failures({ errors }) {
  const rows = Object.entries(errors).map(([code, count]) => ({ code, count }));
  const columns = [
    {
      key: "code",
      label: "Error",
      cell: ({ code }) => html`<a class="mono" href=${`/audit?outcome=${encodeURIComponent(code)}`}>${visible(code)}</a>`,
    },
    { key: "count", label: "Calls", isNumber: true },
  ];
  return html`
    <${Section} title="Failures">
      <${DataTable} label="Failures" columns=${columns} rows=${rows} keyOf=${(row) => row.code} tools=${false} sort=${{ key: "count", isDown: true }} />
    <//>
  `;
}

function Models({ models }) {
  const columns = [
    { key: "model", label: "Model", cell: (row) => html`<span class="mono">${visible(row.model)}</span>` },
    { key: "requests", label: "Requests", isNumber: true },
    { key: "input_tokens", label: "Input tokens", isNumber: true, cell: (row) => number(row.input_tokens) },
    { key: "output_tokens", label: "Output tokens", isNumber: true, cell: (row) => number(row.output_tokens) },
    { key: "cost", label: "Cost", isNumber: true, cell: (row) => `${money(row.cost)}${row.unpriced ? " and more" : ""}` },
  ];
  return html`
    <${Section} title="Models">
      ${models.length
        ? html`<${DataTable} label="Models" columns=${columns} rows=${models} keyOf=${(row) => row.model} tools=${false} />`
        : html`<p class="muted">No model was used in this period. Tokens and costs of hilt run, hilt chat and agents appear here.</p>`}
    <//>
  `;
}
