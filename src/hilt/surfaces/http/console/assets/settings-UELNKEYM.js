import{E as u,F as T,G as L,H as $,J as d,K as f,L as v,O as m,R as w,S,T as g,c as R,l as s,q as k,r as C,t as h}from"./chunk-Y7Q4PVQ2.js";import{a as n,b as p}from"./chunk-LAGCCF5Y.js";import"./chunk-OOJM4CTU.js";var O={running:"good",stopped:"",unknown:"",failed:"bad",disabled:"",untrusted:"warn"},j={allow:"good",ask:"warn",deny:"bad"};function F(){let{data:t,error:l,isLoading:e,reload:a}=w("/v1/settings",{on:["host","server"],every:1e4});return s`
    <${L} title="Settings" actions=${t&&s`<span class="muted mono">${n(t.workspace)}</span>`}>
      <${d} error=${l} retry=${a} />
      ${e&&s`<${f} />`}
      ${t&&s`
        ${t.notes.map(i=>s`<p key=${i} class="warn">${n(i)}</p>`)}
        <${M} changed=${a} />
        <${V} />
        <${D} files=${t.rules} />
        <${E} hosts=${t.hosts??[]} />
        <${G} servers=${t.servers} />
        <${H} settings=${t.settings} />
      `}
    <//>
  `}function M({changed:t}){let{rows:l,error:e,reload:a}=S("/v1/trust","files",{limit:1e3,every:1e4}),[i,o]=R(null),y=async()=>{await a(),t()},c=g(async r=>{await k.delete("/v1/trust",{path:r.path,...h()}),await y()}),b=[...l].sort((r,x)=>+(r.state==="trusted")-+(x.state==="trusted")),A=[{key:"path",label:"File",cell:r=>s`<span class="mono roomy">${n(r.path)}</span>`},{key:"kind",label:"Kind"},{key:"state",label:"State",cell:r=>s`<span class=${`tag ${r.state==="trusted"?"good":"warn"}`}>${n(r.state)}</span>`},{key:"since",label:"Since",cell:r=>s`<${m} at=${r.since} />`},{key:"actions",label:"Actions",value:()=>"",cell:r=>s`
        <span class="buttons">
          <button type="button" class="small" aria-label=${`Review ${n(r.path)}`} onClick=${()=>o(r)}>Review</button>
          ${r.state==="trusted"&&s`<button type="button" class="small danger" aria-label=${`Revoke the trust in ${n(r.path)}`} onClick=${()=>c.run(r)}>Revoke</button>`}
        </span>
      `}];return s`
    <${$} title="Trust">
      <${d} error=${e??c.error} retry=${a} />
      ${b.length?s`<${u} label="Files that need trust" columns=${A} rows=${b} keyOf=${r=>r.path} tools=${!1} />`:s`<p class="muted">This project has no files that need trust. Rules, hooks, tools and servers of a project are used only after you trust their exact content.</p>`}
      ${i&&s`<${P} file=${i} changed=${y} onClose=${()=>o(null)} />`}
    <//>
  `}function P({file:t,changed:l,onClose:e}){let{data:a,error:i,isLoading:o,reload:y}=w("/v1/trust/file",{query:{path:t.path,...h()}}),c=g(async()=>{await k.post("/v1/trust",{path:a.path,sha256:a.sha256},h()),await l(),e()}),b=s`
    <button type="button" onClick=${e}>Close</button>
    <button type="button" class="main" disabled=${!a||c.isRunning||t.state==="trusted"} onClick=${()=>c.run()}>Trust</button>
  `;return s`
    <${T} title=${`Review ${p(t.path,120)}`} wide onClose=${e} footer=${b}>
      <${d} error=${i??c.error} retry=${y} />
      ${o&&s`<${f} />`}
      ${a&&s`
        <p>If you trust it, this content is in force as ${n(a.kind)}. Any later change needs trust again.</p>
        <${v} text=${a.text} label="Content" />
        ${a.before!==null&&a.before!==a.text&&s`<details><summary>The content that you trusted before</summary><${v} text=${a.before} label="Content before" /></details>`}
        <p class="muted mono">SHA-256 ${n(a.sha256)}</p>
      `}
    <//>
  `}function V(){let{rows:t,error:l,reload:e}=S("/v1/grants","grants",{on:["approval"],limit:1e3,query:{}}),a=g(async o=>{await k.delete(C("/v1/grants",o.id)),await e()}),i=[{key:"rule",label:"Rule",cell:o=>s`<span class="mono roomy">${n(o.rule)}</span>`},{key:"folder",label:"Folder",cell:o=>s`<span class="mono roomy">${n(o.folder??"every folder")}</span>`},{key:"since",label:"Since",cell:o=>s`<${m} at=${o.since} />`},{key:"until",label:"Until",cell:o=>o.until?s`<${m} at=${o.until} />`:"no end"},{key:"actions",label:"Actions",value:()=>"",cell:o=>s`<button type="button" class="small danger" aria-label=${`Revoke ${n(o.rule)}`} disabled=${a.isRunning} onClick=${()=>a.run(o)}>Revoke</button>`}];return s`
    <${$} title="Grants">
      <${d} error=${l??a.error} retry=${e} />
      ${t.length?s`<${u} label="Grants" columns=${i} rows=${t} keyOf=${o=>o.id} tools=${!1} />`:s`<p class="muted">Nothing is always allowed. “Always allow” on an approval adds a grant.</p>`}
    <//>
  `}function D({files:t}){return s`
    <${$} title="Rules">
      ${!t.length&&s`<p class="muted">No rules: the defaults decide. Write permissions.yaml to add some.</p>`}
      ${t.map(l=>s`
          <div key=${l.file} class="panel stack">
            <h3 class="mono">${n(l.file)} ${!l.trusted&&s`<span class="tag warn">not trusted: can only deny and ask</span>`}</h3>
            ${(l.problems??[]).map(({line:e,reason:a})=>s`<p key=${e} class="bad">Line ${e}: ${n(a)}</p>`)}
            <ul class="rules">
              ${(l.rules??[]).map(({verdict:e,rule:a,line:i})=>s`
                  <li key=${`${i}:${e}:${a}`}>
                    <span class=${`tag ${j[e]??""}`}>${n(e)}</span>
                    <span class="mono">${n(a)}</span>
                    <span class="muted">line ${i}</span>
                  </li>
                `)}
            </ul>
          </div>
        `)}
    <//>
  `}function E({hosts:t}){let l=[{key:"name",label:"Host",value:e=>`${e.name} ${e.version}`},{key:"transport",label:"Transport"},{key:"session",label:"Session",cell:e=>s`<span class="mono">${p(e.session,60)}</span>`},{key:"workspace",label:"Folder",cell:e=>s`<span class="mono roomy">${n(e.workspace)}</span>`},{key:"since",label:"Since",cell:e=>s`<${m} at=${e.since} />`}];return s`
    <${$} title="Connected hosts">
      ${t.length?s`<${u} label="Connected hosts" columns=${l} rows=${t} keyOf=${e=>e.id} tools=${!1} />`:s`<p class="muted">No program is connected over MCP. To connect one: <code>hilt mcp install claude</code></p>`}
    <//>
  `}function G({servers:t}){let l=[{key:"id",label:"Server",cell:e=>s`<span class="mono">${n(e.id)}</span>`},{key:"status",label:"State",cell:e=>s`<span class=${`tag ${O[e.status]??""}`}>${n(e.status)}</span>`},{key:"summary",label:"Details",cell:e=>s`<span class="roomy">${p([e.failure||e.summary,...e.notes??[]].filter(Boolean).join(" "),400)}</span>`},{key:"tools",label:"Tools",isNumber:!0,value:e=>(e.tools??[]).length},{key:"transport",label:"Transport"},{key:"origin",label:"Origin",cell:e=>s`<span class="mono roomy">${n(e.origin)}</span>`}];return s`
    <${$} title="MCP servers">
      ${t.length?s`<${u} label="MCP servers" columns=${l} rows=${t} keyOf=${e=>`${e.origin}:${e.id}`} tools=${!1} />`:s`<p class="muted">No other MCP servers. List them in .mcp.json of the project, or in config.toml as [mcp.servers.NAME].</p>`}
    <//>
  `}function H({settings:t}){return s`
    <${$} title="Values">
      <${u} label="Values" columns=${[{key:"id",label:"Setting",cell:e=>s`<span class="mono">${n(e.id)}</span>`},{key:"value",label:"Value",value:e=>N(e.value),cell:e=>s`<span class="mono roomy">${p(N(e.value),400)}</span>`},{key:"source",label:"Source",cell:e=>s`<span class=${e.source==="default"?"muted":"tag"}>${n(e.source)}</span>`}]} rows=${t} keyOf=${e=>e.id} />
    <//>
  `}function N(t){return t===null?"none":typeof t=="string"?t:JSON.stringify(t)}export{F as default};
