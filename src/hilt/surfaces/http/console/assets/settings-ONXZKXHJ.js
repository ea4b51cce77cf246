import{A as L,B as $,D as d,E as f,F as v,I as m,J as w,K as S,L as g,c as R,k as t,n as k,o as C,p as h,y as u,z as T}from"./chunk-2H5QD3Y5.js";import{a as n,b as p}from"./chunk-PHU6BNSR.js";import"./chunk-OOJM4CTU.js";var O={running:"good",stopped:"",unknown:"",failed:"bad",disabled:"",untrusted:"warn"},j={allow:"good",ask:"warn",deny:"bad"};function F(){let{data:s,error:o,isLoading:e,reload:a}=w("/v1/settings",{on:["host","server"],every:1e4});return t`
    <${L} title="Settings" actions=${s&&t`<span class="muted mono">${n(s.workspace)}</span>`}>
      <${d} error=${o} retry=${a} />
      ${e&&t`<${f} />`}
      ${s&&t`
        ${s.notes.map(i=>t`<p key=${i} class="warn">${n(i)}</p>`)}
        <${M} changed=${a} />
        <${V} />
        <${D} files=${s.rules} />
        <${E} hosts=${s.hosts??[]} />
        <${G} servers=${s.servers} />
        <${H} settings=${s.settings} />
      `}
    <//>
  `}function M({changed:s}){let{rows:o,error:e,reload:a}=S("/v1/trust","files",{limit:1e3,every:1e4}),[i,l]=R(null),y=async()=>{await a(),s()},c=g(async r=>{await k.delete("/v1/trust",{path:r.path,...h()}),await y()}),b=[...o].sort((r,x)=>+(r.state==="trusted")-+(x.state==="trusted")),A=[{key:"path",label:"File",cell:r=>t`<span class="mono">${n(r.path)}</span>`},{key:"kind",label:"Kind"},{key:"state",label:"State",cell:r=>t`<span class=${`tag ${r.state==="trusted"?"good":"warn"}`}>${n(r.state)}</span>`},{key:"since",label:"Since",cell:r=>t`<${m} at=${r.since} />`},{key:"actions",label:"Actions",value:()=>"",cell:r=>t`
        <span class="buttons">
          <button type="button" class="small" aria-label=${`Review ${n(r.path)}`} onClick=${()=>l(r)}>Review</button>
          ${r.state==="trusted"&&t`<button type="button" class="small danger" aria-label=${`Revoke the trust in ${n(r.path)}`} onClick=${()=>c.run(r)}>Revoke</button>`}
        </span>
      `}];return t`
    <${$} title="Trust">
      <${d} error=${e??c.error} retry=${a} />
      ${b.length?t`<${u} label="Files that need trust" columns=${A} rows=${b} keyOf=${r=>r.path} tools=${!1} />`:t`<p class="muted">This project has no files that need trust. Rules, hooks, tools and servers of a project are used only after you trust their exact content.</p>`}
      ${i&&t`<${P} file=${i} changed=${y} onClose=${()=>l(null)} />`}
    <//>
  `}function P({file:s,changed:o,onClose:e}){let{data:a,error:i,isLoading:l,reload:y}=w("/v1/trust/file",{query:{path:s.path,...h()}}),c=g(async()=>{await k.post("/v1/trust",{path:a.path,sha256:a.sha256},h()),await o(),e()}),b=t`
    <button type="button" onClick=${e}>Close</button>
    <button type="button" class="main" disabled=${!a||c.isRunning||s.state==="trusted"} onClick=${()=>c.run()}>Trust</button>
  `;return t`
    <${T} title=${`Review ${p(s.path,120)}`} wide onClose=${e} footer=${b}>
      <${d} error=${i??c.error} retry=${y} />
      ${l&&t`<${f} />`}
      ${a&&t`
        <p>If you trust it, this content is in force as ${n(a.kind)}. Any later change needs trust again.</p>
        <${v} text=${a.text} label="Content" />
        ${a.before!==null&&a.before!==a.text&&t`<details><summary>The content that you trusted before</summary><${v} text=${a.before} label="Content before" /></details>`}
        <p class="muted mono">SHA-256 ${n(a.sha256)}</p>
      `}
    <//>
  `}function V(){let{rows:s,error:o,reload:e}=S("/v1/grants","grants",{on:["approval"],limit:1e3,query:{}}),a=g(async l=>{await k.delete(C("/v1/grants",l.id)),await e()}),i=[{key:"rule",label:"Rule",cell:l=>t`<span class="mono">${n(l.rule)}</span>`},{key:"folder",label:"Folder",cell:l=>t`<span class="mono">${n(l.folder??"every folder")}</span>`},{key:"since",label:"Since",cell:l=>t`<${m} at=${l.since} />`},{key:"until",label:"Until",cell:l=>l.until?t`<${m} at=${l.until} />`:"revoked"},{key:"actions",label:"Actions",value:()=>"",cell:l=>t`<button type="button" class="small danger" aria-label=${`Revoke ${n(l.rule)}`} disabled=${a.isRunning} onClick=${()=>a.run(l)}>Revoke</button>`}];return t`
    <${$} title="Grants">
      <${d} error=${o??a.error} retry=${e} />
      ${s.length?t`<${u} label="Grants" columns=${i} rows=${s} keyOf=${l=>l.id} tools=${!1} />`:t`<p class="muted">Nothing is always allowed. “Always allow” on an approval adds a grant.</p>`}
    <//>
  `}function D({files:s}){return t`
    <${$} title="Rules">
      ${!s.length&&t`<p class="muted">No rules: the defaults decide. Write permissions.yaml to add some.</p>`}
      ${s.map(o=>t`
          <div key=${o.file} class="panel stack">
            <h3 class="mono">${n(o.file)} ${!o.trusted&&t`<span class="tag warn">not trusted: can only deny and ask</span>`}</h3>
            ${(o.problems??[]).map(({line:e,reason:a})=>t`<p key=${e} class="bad">Line ${e}: ${n(a)}</p>`)}
            <ul class="rules">
              ${(o.rules??[]).map(({verdict:e,rule:a,line:i})=>t`
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
  `}function E({hosts:s}){let o=[{key:"name",label:"Host",value:e=>`${e.name} ${e.version}`},{key:"transport",label:"Transport"},{key:"session",label:"Session",cell:e=>t`<span class="mono">${p(e.session,60)}</span>`},{key:"workspace",label:"Folder",cell:e=>t`<span class="mono">${n(e.workspace)}</span>`},{key:"since",label:"Since",cell:e=>t`<${m} at=${e.since} />`}];return t`
    <${$} title="Connected hosts">
      ${s.length?t`<${u} label="Connected hosts" columns=${o} rows=${s} keyOf=${e=>e.id} tools=${!1} />`:t`<p class="muted">No program is connected over MCP. To connect one: <code>hilt mcp install claude</code></p>`}
    <//>
  `}function G({servers:s}){let o=[{key:"id",label:"Server",cell:e=>t`<span class="mono">${n(e.id)}</span>`},{key:"status",label:"State",cell:e=>t`<span class=${`tag ${O[e.status]??""}`}>${n(e.status)}</span>`},{key:"summary",label:"Details",cell:e=>p([e.failure||e.summary,...e.notes??[]].filter(Boolean).join(" "),400)},{key:"tools",label:"Tools",isNumber:!0,value:e=>(e.tools??[]).length},{key:"transport",label:"Transport"},{key:"origin",label:"Origin",cell:e=>t`<span class="mono">${n(e.origin)}</span>`}];return t`
    <${$} title="MCP servers">
      ${s.length?t`<${u} label="MCP servers" columns=${o} rows=${s} keyOf=${e=>`${e.origin}:${e.id}`} tools=${!1} />`:t`<p class="muted">No other MCP servers. List them in .mcp.json of the project, or in config.toml as [mcp.servers.NAME].</p>`}
    <//>
  `}function H({settings:s}){return t`
    <${$} title="Values">
      <${u} label="Values" columns=${[{key:"id",label:"Setting",cell:e=>t`<span class="mono">${n(e.id)}</span>`},{key:"value",label:"Value",value:e=>N(e.value),cell:e=>t`<span class="mono">${p(N(e.value),400)}</span>`},{key:"source",label:"Source",cell:e=>t`<span class=${e.source==="default"?"muted":"tag"}>${n(e.source)}</span>`}]} rows=${s} keyOf=${e=>e.id} />
    <//>
  `}function N(s){return s===null?"none":typeof s=="string"?s:JSON.stringify(s)}export{F as default};
