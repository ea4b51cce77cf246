/** Settings: every value with its source, and what the user has allowed and trusted. */
import { api, at, here } from "../api.js";
import { html, useState } from "../html.js";
import { DataTable, Dialog, ErrorBox, Loading, Omissions, Page, Review, Section, Time } from "../parts/index.js";
import { useAction, useList, useLoad, useNewReview } from "../parts/index.js";
import { Lines } from "../parts/lines.js";
import { oneLine, visible } from "../text.js";

const STATES = { running: "good", stopped: "", unknown: "", failed: "bad", disabled: "", untrusted: "warn" };
const VERDICTS = { allow: "good", ask: "warn", deny: "bad" };

export default function Settings() {
  const { data, error, isLoading, reload } = useLoad("/v1/settings", { on: ["host", "server"], every: 10_000 });
  return html`
    <${Page} title="Settings" actions=${data && html`<span class="muted mono">${visible(data.workspace)}</span>`}>
      <${ErrorBox} error=${error} retry=${reload} />
      ${isLoading && html`<${Loading} />`}
      ${data &&
      html`
        ${data.notes.map((note) => html`<p key=${note} class="warn">${visible(note)}</p>`)}
        <${TrustFiles} changed=${reload} />
        <${Grants} />
        <${Rules} files=${data.rules} />
        <${Hosts} hosts=${data.hosts ?? []} />
        <${Servers} servers=${data.servers} />
        <${Values} settings=${data.settings} />
      `}
    <//>
  `;
}

// --- trust ----------------------------------------------------------------------------------------------------------

function TrustFiles({ changed }) {
  const { rows, error, reload } = useList("/v1/trust", "files", { limit: 1000, every: 10_000 });
  const [reviewed, setReviewed] = useState(null);
  const reloadAll = async () => {
    await reload();
    changed();
  };
  const revoke = useAction(async (file) => {
    await api.delete("/v1/trust", { path: file.path, ...here() });
    await reloadAll();
  });
  const files = [...rows].sort((one, other) => Number(one.state === "trusted") - Number(other.state === "trusted"));
  const columns = [
    { key: "path", label: "File", cell: (file) => html`<span class="mono roomy">${visible(file.path)}</span>` },
    { key: "kind", label: "Kind" },
    { key: "state", label: "State", cell: (file) => html`<span class=${`tag ${file.state === "trusted" ? "good" : "warn"}`}>${visible(file.state)}</span>` },
    { key: "since", label: "Since", cell: (file) => html`<${Time} at=${file.since} />` },
    {
      key: "actions",
      label: "Actions",
      value: () => "",
      cell: (file) => html`
        <span class="buttons">
          <button type="button" class="small" aria-label=${`Review ${visible(file.path)}`} onClick=${() => setReviewed(file)}>Review</button>
          ${file.state === "trusted" &&
          html`<button type="button" class="small danger" aria-label=${`Revoke the trust in ${visible(file.path)}`} onClick=${() => revoke.run(file)}>Revoke</button>`}
        </span>
      `,
    },
  ];
  return html`
    <${Section} title="Trust">
      <${ErrorBox} error=${error ?? revoke.error} retry=${reload} />
      ${files.length
        ? html`<${DataTable} label="Files that need trust" columns=${columns} rows=${files} keyOf=${(file) => file.path} tools=${false} />`
        : html`<p class="muted">This project has no files that need trust. Rules, hooks, tools and servers of a project are used only after you trust their exact content.</p>`}
      ${reviewed && html`<${FileReview} file=${reviewed} changed=${reloadAll} onClose=${() => setReviewed(null)} />`}
    <//>
  `;
}

function FileReview({ file, changed, onClose }) {
  const review = useNewReview();
  const { data, error, isLoading, reload } = useLoad("/v1/trust/file", { query: { path: file.path, ...here() } });
  const trust = useAction(async () => {
    await api.post("/v1/trust", { path: data.path, sha256: data.sha256 }, here());
    await changed();
    onClose();
  });
  const footer = html`
    <button type="button" onClick=${onClose}>Close</button>
    <button type="button" class="main" disabled=${!data || review.omissions.value > 0 || trust.isRunning || file.state === "trusted"} onClick=${() => trust.run()}>Trust</button>
  `;
  return html`
    <${Dialog} title=${`Review ${oneLine(file.path, 120)}`} wide onClose=${onClose} footer=${footer}>
      <${ErrorBox} error=${error ?? trust.error} retry=${reload} />
      ${isLoading && html`<${Loading} />`}
      ${data &&
      html`
        <p>If you trust this file, its content is used as ${visible(data.kind)}. After any change, you must trust it again.</p>
        <${Review.Provider} value=${review}>
          <${Omissions} review=${review} />
          <${Lines} text=${data.text} label="Content" />
        <//>
        ${data.before !== null &&
        data.before !== data.text &&
        html`<details><summary>Previously trusted content</summary><${Lines} text=${data.before} label="Previously trusted content" /></details>`}
        <p class="muted mono">SHA-256 ${visible(data.sha256)}</p>
      `}
    <//>
  `;
}

// --- grants and rules -----------------------------------------------------------------------------------------------

function Grants() {
  const { rows, error, reload } = useList("/v1/grants", "grants", { on: ["approval"], limit: 1000, query: {} });
  const revoke = useAction(async (grant) => {
    await api.delete(at("/v1/grants", grant.id));
    await reload();
  });
  const columns = [
    { key: "rule", label: "Rule", cell: (grant) => html`<span class="mono roomy">${visible(grant.rule)}</span>` },
    { key: "folder", label: "Folder", cell: (grant) => html`<span class="mono roomy">${visible(grant.folder ?? "every folder")}</span>` },
    { key: "since", label: "Since", cell: (grant) => html`<${Time} at=${grant.since} />` },
    { key: "until", label: "Until", cell: (grant) => (grant.until ? html`<${Time} at=${grant.until} />` : "no expiry") },
    {
      key: "actions",
      label: "Actions",
      value: () => "",
      cell: (grant) => html`<button type="button" class="small danger" aria-label=${`Revoke ${visible(grant.rule)}`} disabled=${revoke.isRunning} onClick=${() => revoke.run(grant)}>Revoke</button>`,
    },
  ];
  return html`
    <${Section} title="Grants">
      <${ErrorBox} error=${error ?? revoke.error} retry=${reload} />
      ${rows.length
        ? html`<${DataTable} label="Grants" columns=${columns} rows=${rows} keyOf=${(grant) => grant.id} tools=${false} />`
        : html`<p class="muted">No grants. “Always allow” on an approval adds one.</p>`}
    <//>
  `;
}

function Rules({ files }) {
  return html`
    <${Section} title="Rules">
      ${!files.length && html`<p class="muted">No rules: the defaults apply. Add rules in permissions.yaml.</p>`}
      ${files.map(
        (file) => html`
          <div key=${file.file} class="panel stack">
            <h3 class="mono">${visible(file.file)} ${!file.trusted && html`<span class="tag warn">not trusted: can only deny and ask</span>`}</h3>
            ${(file.problems ?? []).map(({ line, reason }) => html`<p key=${line} class="bad">Line ${line}: ${visible(reason)}</p>`)}
            <ul class="rules">
              ${(file.rules ?? []).map(
                ({ verdict, rule, line }) => html`
                  <li key=${`${line}:${verdict}:${rule}`}>
                    <span class=${`tag ${VERDICTS[verdict] ?? ""}`}>${visible(verdict)}</span>
                    <span class="mono">${visible(rule)}</span>
                    <span class="muted">line ${line}</span>
                  </li>
                `,
              )}
            </ul>
          </div>
        `,
      )}
    <//>
  `;
}

// --- hosts, servers and values --------------------------------------------------------------------------------------

function Hosts({ hosts }) {
  const columns = [
    { key: "name", label: "Host", value: (host) => `${host.name} ${host.version}` },
    { key: "transport", label: "Transport" },
    { key: "session", label: "Session", cell: (host) => html`<span class="mono">${oneLine(host.session, 60)}</span>` },
    { key: "workspace", label: "Folder", cell: (host) => html`<span class="mono roomy">${visible(host.workspace)}</span>` },
    { key: "since", label: "Since", cell: (host) => html`<${Time} at=${host.since} />` },
  ];
  return html`
    <${Section} title="Connected hosts">
      ${hosts.length
        ? html`<${DataTable} label="Connected hosts" columns=${columns} rows=${hosts} keyOf=${(host) => host.id} tools=${false} />`
        : html`<p class="muted">No program is connected over MCP. To connect one: <code>hilt mcp install claude</code></p>`}
    <//>
  `;
}

function Servers({ servers }) {
  const columns = [
    { key: "id", label: "Server", cell: (server) => html`<span class="mono">${visible(server.id)}</span>` },
    { key: "status", label: "State", cell: (server) => html`<span class=${`tag ${STATES[server.status] ?? ""}`}>${visible(server.status)}</span>` },
    { key: "summary", label: "Details", cell: (server) => html`<span class="roomy">${oneLine([server.failure || server.summary, ...(server.notes ?? [])].filter(Boolean).join(" "), 400)}</span>` },
    { key: "tools", label: "Tools", isNumber: true, value: (server) => (server.tools ?? []).length },
    { key: "transport", label: "Transport" },
    { key: "origin", label: "Origin", cell: (server) => html`<span class="mono roomy">${visible(server.origin)}</span>` },
  ];
  return html`
    <${Section} title="MCP servers">
      ${servers.length
        ? html`<${DataTable} label="MCP servers" columns=${columns} rows=${servers} keyOf=${(server) => `${server.origin}:${server.id}`} tools=${false} />`
        : html`<p class="muted">No MCP servers. Add them to .mcp.json in the project, or to config.toml as [mcp.servers.NAME].</p>`}
    <//>
  `;
}

function Values({ settings }) {
  const columns = [
    { key: "id", label: "Setting", cell: (row) => html`<span class="mono">${visible(row.id)}</span>` },
    { key: "value", label: "Value", value: (row) => valueText(row.value), cell: (row) => html`<span class="mono roomy">${oneLine(valueText(row.value), 400)}</span>` },
    { key: "source", label: "Source", cell: (row) => html`<span class=${row.source === "default" ? "muted" : "tag"}>${visible(row.source)}</span>` },
  ];
  return html`
    <${Section} title="Values">
      <${DataTable} label="Values" columns=${columns} rows=${settings} keyOf=${(row) => row.id} />
    <//>
  `;
}

function valueText(value) {
  return value === null ? "none" : typeof value === "string" ? value : JSON.stringify(value);
}
