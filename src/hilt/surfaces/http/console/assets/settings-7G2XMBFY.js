import{F as c,G as T,H as A,I as u,K as d,L as f,M as v,P as m,S as w,T as S,U as h,c as R,l as s,q as k,r as C,t as g}from"./chunk-KLSJ4T3K.js";import{a as l,b as p}from"./chunk-3V634C7B.js";import"./chunk-OOJM4CTU.js";var O={running:"good",stopped:"",unknown:"",failed:"bad",disabled:"",untrusted:"warn"},P={allow:"good",ask:"warn",deny:"bad"};function j(){let{data:t,error:o,isLoading:e,reload:a}=w("/v1/settings",{on:["host","server"],every:1e4});return s`
    <${A} title="Settings" actions=${t&&s`<span class="muted mono">${l(t.workspace)}</span>`}>
      <${d} error=${o} retry=${a} />
      ${e&&s`<${f} />`}
      ${t&&s`
        ${t.notes.map(i=>s`<p key=${i} class="warn">${l(i)}</p>`)}
        <${F} changed=${a} />
        <${V} />
        <${D} files=${t.rules} />
        <${E} hosts=${t.hosts??[]} />
        <${G} servers=${t.servers} />
        <${H} settings=${t.settings} />
      `}
    <//>
  `}function F({changed:t}){let{rows:o,error:e,reload:a}=S("/v1/trust","files",{limit:1e3,every:1e4}),[i,n]=R(null),y=async()=>{await a(),t()},$=h(async r=>{await k.delete("/v1/trust",{path:r.path,...g()}),await y()}),b=[...o].sort((r,L)=>+(r.state==="trusted")-+(L.state==="trusted")),N=[{key:"path",label:"File",cell:r=>s`<span class="mono roomy">${l(r.path)}</span>`},{key:"kind",label:"Kind"},{key:"state",label:"State",cell:r=>s`<span class=${`tag ${r.state==="trusted"?"good":"warn"}`}>${l(r.state)}</span>`},{key:"since",label:"Since",cell:r=>s`<${m} at=${r.since} />`},{key:"actions",label:"Actions",value:()=>"",cell:r=>s`
        <span class="buttons">
          <button type="button" class="small" aria-label=${`Review ${l(r.path)}`} onClick=${()=>n(r)}>Review</button>
          ${r.state==="trusted"&&s`<button type="button" class="small danger" aria-label=${`Revoke the trust in ${l(r.path)}`} onClick=${()=>$.run(r)}>Revoke</button>`}
        </span>
      `}];return s`
    <${u} title="Trust">
      <${d} error=${e??$.error} retry=${a} />
      ${b.length?s`<${c} label="Files that need trust" columns=${N} rows=${b} keyOf=${r=>r.path} tools=${!1} />`:s`<p class="muted">This project has no files that need trust. Rules, hooks, tools and servers of a project are used only after you trust their exact content.</p>`}
      ${i&&s`<${M} file=${i} changed=${y} onClose=${()=>n(null)} />`}
    <//>
  `}function M({file:t,changed:o,onClose:e}){let{data:a,error:i,isLoading:n,reload:y}=w("/v1/trust/file",{query:{path:t.path,...g()}}),$=h(async()=>{await k.post("/v1/trust",{path:a.path,sha256:a.sha256},g()),await o(),e()}),b=s`
    <button type="button" onClick=${e}>Close</button>
    <button type="button" class="main" disabled=${!a||$.isRunning||t.state==="trusted"} onClick=${()=>$.run()}>Trust</button>
  `;return s`
    <${T} title=${`Review ${p(t.path,120)}`} wide onClose=${e} footer=${b}>
      <${d} error=${i??$.error} retry=${y} />
      ${n&&s`<${f} />`}
      ${a&&s`
        <p>If you trust this file, its content is used as ${l(a.kind)}. After any change, you must trust it again.</p>
        <${v} text=${a.text} label="Content" />
        ${a.before!==null&&a.before!==a.text&&s`<details><summary>Previously trusted content</summary><${v} text=${a.before} label="Previously trusted content" /></details>`}
        <p class="muted mono">SHA-256 ${l(a.sha256)}</p>
      `}
    <//>
  `}function V(){let{rows:t,error:o,reload:e}=S("/v1/grants","grants",{on:["approval"],limit:1e3,query:{}}),a=h(async n=>{await k.delete(C("/v1/grants",n.id)),await e()}),i=[{key:"rule",label:"Rule",cell:n=>s`<span class="mono roomy">${l(n.rule)}</span>`},{key:"folder",label:"Folder",cell:n=>s`<span class="mono roomy">${l(n.folder??"every folder")}</span>`},{key:"since",label:"Since",cell:n=>s`<${m} at=${n.since} />`},{key:"until",label:"Until",cell:n=>n.until?s`<${m} at=${n.until} />`:"no expiry"},{key:"actions",label:"Actions",value:()=>"",cell:n=>s`<button type="button" class="small danger" aria-label=${`Revoke ${l(n.rule)}`} disabled=${a.isRunning} onClick=${()=>a.run(n)}>Revoke</button>`}];return s`
    <${u} title="Grants">
      <${d} error=${o??a.error} retry=${e} />
      ${t.length?s`<${c} label="Grants" columns=${i} rows=${t} keyOf=${n=>n.id} tools=${!1} />`:s`<p class="muted">No grants. “Always allow” on an approval adds one.</p>`}
    <//>
  `}function D({files:t}){return s`
    <${u} title="Rules">
      ${!t.length&&s`<p class="muted">No rules: the defaults apply. Add rules in permissions.yaml.</p>`}
      ${t.map(o=>s`
          <div key=${o.file} class="panel stack">
            <h3 class="mono">${l(o.file)} ${!o.trusted&&s`<span class="tag warn">not trusted: can only deny and ask</span>`}</h3>
            ${(o.problems??[]).map(({line:e,reason:a})=>s`<p key=${e} class="bad">Line ${e}: ${l(a)}</p>`)}
            <ul class="rules">
              ${(o.rules??[]).map(({verdict:e,rule:a,line:i})=>s`
                  <li key=${`${i}:${e}:${a}`}>
                    <span class=${`tag ${P[e]??""}`}>${l(e)}</span>
                    <span class="mono">${l(a)}</span>
                    <span class="muted">line ${i}</span>
                  </li>
                `)}
            </ul>
          </div>
        `)}
    <//>
  `}function E({hosts:t}){let o=[{key:"name",label:"Host",value:e=>`${e.name} ${e.version}`},{key:"transport",label:"Transport"},{key:"session",label:"Session",cell:e=>s`<span class="mono">${p(e.session,60)}</span>`},{key:"workspace",label:"Folder",cell:e=>s`<span class="mono roomy">${l(e.workspace)}</span>`},{key:"since",label:"Since",cell:e=>s`<${m} at=${e.since} />`}];return s`
    <${u} title="Connected hosts">
      ${t.length?s`<${c} label="Connected hosts" columns=${o} rows=${t} keyOf=${e=>e.id} tools=${!1} />`:s`<p class="muted">No program is connected over MCP. To connect one: <code>hilt mcp install claude</code></p>`}
    <//>
  `}function G({servers:t}){let o=[{key:"id",label:"Server",cell:e=>s`<span class="mono">${l(e.id)}</span>`},{key:"status",label:"State",cell:e=>s`<span class=${`tag ${O[e.status]??""}`}>${l(e.status)}</span>`},{key:"summary",label:"Details",cell:e=>s`<span class="roomy">${p([e.failure||e.summary,...e.notes??[]].filter(Boolean).join(" "),400)}</span>`},{key:"tools",label:"Tools",isNumber:!0,value:e=>(e.tools??[]).length},{key:"transport",label:"Transport"},{key:"origin",label:"Origin",cell:e=>s`<span class="mono roomy">${l(e.origin)}</span>`}];return s`
    <${u} title="MCP servers">
      ${t.length?s`<${c} label="MCP servers" columns=${o} rows=${t} keyOf=${e=>`${e.origin}:${e.id}`} tools=${!1} />`:s`<p class="muted">No MCP servers. Add them to .mcp.json in the project, or to config.toml as [mcp.servers.NAME].</p>`}
    <//>
  `}function H({settings:t}){return s`
    <${u} title="Values">
      <${c} label="Values" columns=${[{key:"id",label:"Setting",cell:e=>s`<span class="mono">${l(e.id)}</span>`},{key:"value",label:"Value",value:e=>x(e.value),cell:e=>s`<span class="mono roomy">${p(x(e.value),400)}</span>`},{key:"source",label:"Source",cell:e=>s`<span class=${e.source==="default"?"muted":"tag"}>${l(e.source)}</span>`}]} rows=${t} keyOf=${e=>e.id} />
    <//>
  `}function x(t){return t===null?"none":typeof t=="string"?t:JSON.stringify(t)}export{j as default};
