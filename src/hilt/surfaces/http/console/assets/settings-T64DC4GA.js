import{A as L,C as O,E as w,H as m,K as S,L as R,M as g,e as k,f as T,h as v,t as c,u as N,v as u,x as d,y as f,z as x}from"./chunk-OTZEVIFT.js";import{d as C,n as s,p as l,r as p,z as A}from"./chunk-N2E7E6HP.js";import"./chunk-OOJM4CTU.js";var j={running:"good",stopped:"",unknown:"",failed:"bad",disabled:"",untrusted:"warn"},M={allow:"good",ask:"warn",deny:"bad"};function V(){let{data:t,error:o,isLoading:e,reload:r}=S("/v1/settings",{on:["host","server"],every:1e4});return s`
    <${N} title="Settings" actions=${t&&s`<span class="muted mono">${l(t.workspace)}</span>`}>
      <${d} error=${o} retry=${r} />
      ${e&&s`<${f} />`}
      ${t&&s`
        ${t.notes.map(a=>s`<p key=${a} class="warn">${l(a)}</p>`)}
        <${D} changed=${r} />
        <${G} />
        <${H} files=${t.rules} />
        <${q} hosts=${t.hosts??[]} />
        <${B} servers=${t.servers} />
        <${I} settings=${t.settings} />
      `}
    <//>
  `}function D({changed:t}){let{rows:o,error:e,reload:r}=R("/v1/trust","files",{limit:1e3,every:1e4}),[a,n]=C(null),y=async()=>{await r(),t()},b=g(async i=>{await k.delete("/v1/trust",{path:i.path,...v()}),await y()}),$=[...o].sort((i,F)=>+(i.state==="trusted")-+(F.state==="trusted")),h=[{key:"path",label:"File",cell:i=>s`<span class="mono roomy">${l(i.path)}</span>`},{key:"kind",label:"Kind"},{key:"state",label:"State",cell:i=>s`<span class=${`tag ${i.state==="trusted"?"good":"warn"}`}>${l(i.state)}</span>`},{key:"since",label:"Since",cell:i=>s`<${m} at=${i.since} />`},{key:"actions",label:"Actions",value:()=>"",cell:i=>s`
        <span class="buttons">
          <button type="button" class="small" aria-label=${`Review ${l(i.path)}`} onClick=${()=>n(i)}>Review</button>
          ${i.state==="trusted"&&s`<button type="button" class="small danger" aria-label=${`Revoke the trust in ${l(i.path)}`} onClick=${()=>b.run(i)}>Revoke</button>`}
        </span>
      `}];return s`
    <${u} title="Trust">
      <${d} error=${e??b.error} retry=${r} />
      ${$.length?s`<${c} label="Files that need trust" columns=${h} rows=${$} keyOf=${i=>i.path} tools=${!1} />`:s`<p class="muted">This project has no files that need trust. Rules, hooks, tools and servers of a project are used only after you trust their exact content.</p>`}
      ${a&&s`<${E} file=${a} changed=${y} onClose=${()=>n(null)} />`}
    <//>
  `}function E({file:t,changed:o,onClose:e}){let r=L(),{data:a,error:n,isLoading:y,reload:b}=S("/v1/trust/file",{query:{path:t.path,...v()}}),$=g(async()=>{await k.post("/v1/trust",{path:a.path,sha256:a.sha256},v()),await o(),e()}),h=s`
    <button type="button" onClick=${e}>Close</button>
    <button type="button" class="main" disabled=${!a||r.omissions.value>0||$.isRunning||t.state==="trusted"} onClick=${()=>$.run()}>Trust</button>
  `;return s`
    <${A} title=${`Review ${p(t.path,120)}`} wide onClose=${e} footer=${h}>
      <${d} error=${n??$.error} retry=${b} />
      ${y&&s`<${f} />`}
      ${a&&s`
        <p>If you trust this file, its content is used as ${l(a.kind)}. After any change, you must trust it again.</p>
        <${x.Provider} value=${r}>
          <${O} review=${r} />
          <${w} text=${a.text} label="Content" />
        <//>
        ${a.before!==null&&a.before!==a.text&&s`<details><summary>Previously trusted content</summary><${w} text=${a.before} label="Previously trusted content" /></details>`}
        <p class="muted mono">SHA-256 ${l(a.sha256)}</p>
      `}
    <//>
  `}function G(){let{rows:t,error:o,reload:e}=R("/v1/grants","grants",{on:["approval"],limit:1e3,query:{}}),r=g(async n=>{await k.delete(T("/v1/grants",n.id)),await e()}),a=[{key:"rule",label:"Rule",cell:n=>s`<span class="mono roomy">${l(n.rule)}</span>`},{key:"folder",label:"Folder",cell:n=>s`<span class="mono roomy">${l(n.folder??"every folder")}</span>`},{key:"since",label:"Since",cell:n=>s`<${m} at=${n.since} />`},{key:"until",label:"Until",cell:n=>n.until?s`<${m} at=${n.until} />`:"no expiry"},{key:"actions",label:"Actions",value:()=>"",cell:n=>s`<button type="button" class="small danger" aria-label=${`Revoke ${l(n.rule)}`} disabled=${r.isRunning} onClick=${()=>r.run(n)}>Revoke</button>`}];return s`
    <${u} title="Grants">
      <${d} error=${o??r.error} retry=${e} />
      ${t.length?s`<${c} label="Grants" columns=${a} rows=${t} keyOf=${n=>n.id} tools=${!1} />`:s`<p class="muted">No grants. “Always allow” on an approval adds one.</p>`}
    <//>
  `}function H({files:t}){return s`
    <${u} title="Rules">
      ${!t.length&&s`<p class="muted">No rules: the defaults apply. Add rules in permissions.yaml.</p>`}
      ${t.map(o=>s`
          <div key=${o.file} class="panel stack">
            <h3 class="mono">${l(o.file)} ${!o.trusted&&s`<span class="tag warn">not trusted: can only deny and ask</span>`}</h3>
            ${(o.problems??[]).map(({line:e,reason:r})=>s`<p key=${e} class="bad">Line ${e}: ${l(r)}</p>`)}
            <ul class="rules">
              ${(o.rules??[]).map(({verdict:e,rule:r,line:a})=>s`
                  <li key=${`${a}:${e}:${r}`}>
                    <span class=${`tag ${M[e]??""}`}>${l(e)}</span>
                    <span class="mono">${l(r)}</span>
                    <span class="muted">line ${a}</span>
                  </li>
                `)}
            </ul>
          </div>
        `)}
    <//>
  `}function q({hosts:t}){let o=[{key:"name",label:"Host",value:e=>`${e.name} ${e.version}`},{key:"transport",label:"Transport"},{key:"session",label:"Session",cell:e=>s`<span class="mono">${p(e.session,60)}</span>`},{key:"workspace",label:"Folder",cell:e=>s`<span class="mono roomy">${l(e.workspace)}</span>`},{key:"since",label:"Since",cell:e=>s`<${m} at=${e.since} />`}];return s`
    <${u} title="Connected hosts">
      ${t.length?s`<${c} label="Connected hosts" columns=${o} rows=${t} keyOf=${e=>e.id} tools=${!1} />`:s`<p class="muted">No program is connected over MCP. To connect one: <code>hilt mcp install claude</code></p>`}
    <//>
  `}function B({servers:t}){let o=[{key:"id",label:"Server",cell:e=>s`<span class="mono">${l(e.id)}</span>`},{key:"status",label:"State",cell:e=>s`<span class=${`tag ${j[e.status]??""}`}>${l(e.status)}</span>`},{key:"summary",label:"Details",cell:e=>s`<span class="roomy">${p([e.failure||e.summary,...e.notes??[]].filter(Boolean).join(" "),400)}</span>`},{key:"tools",label:"Tools",isNumber:!0,value:e=>(e.tools??[]).length},{key:"transport",label:"Transport"},{key:"origin",label:"Origin",cell:e=>s`<span class="mono roomy">${l(e.origin)}</span>`}];return s`
    <${u} title="MCP servers">
      ${t.length?s`<${c} label="MCP servers" columns=${o} rows=${t} keyOf=${e=>`${e.origin}:${e.id}`} tools=${!1} />`:s`<p class="muted">No MCP servers. Add them to .mcp.json in the project, or to config.toml as [mcp.servers.NAME].</p>`}
    <//>
  `}function I({settings:t}){return s`
    <${u} title="Values">
      <${c} label="Values" columns=${[{key:"id",label:"Setting",cell:e=>s`<span class="mono">${l(e.id)}</span>`},{key:"value",label:"Value",value:e=>P(e.value),cell:e=>s`<span class="mono roomy">${p(P(e.value),400)}</span>`},{key:"source",label:"Source",cell:e=>s`<span class=${e.source==="default"?"muted":"tag"}>${l(e.source)}</span>`}]} rows=${t} keyOf=${e=>e.id} />
    <//>
  `}function P(t){return t===null?"none":typeof t=="string"?t:JSON.stringify(t)}export{V as default};
