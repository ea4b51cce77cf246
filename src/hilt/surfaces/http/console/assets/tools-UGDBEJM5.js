import{c as A}from"./chunk-PV6NBNVN.js";import{a as _}from"./chunk-GKZ6IBPQ.js";import"./chunk-DHZKAQT2.js";import"./chunk-FEXX5RWO.js";import{c as O,e as x}from"./chunk-RUSI4KQK.js";import{D as J,E as M,F as j,G as w,H as P,J as k,K as T,P as B,c as L,g as N,i as R,l as n,o as C,q as E,t as q,z as v}from"./chunk-BEXJLESD.js";import{a as p,b as h,c as I}from"./chunk-6DFJ27FF.js";import"./chunk-OOJM4CTU.js";var D="console",z=24*3600*1e3,G=new Set(["command","content","description","message","new_text","old_text","patch","prompt","script","text"]);function K(){let{rows:e,answer:t,error:r,isLoading:a,reload:o}=B("/v1/tools","tools",{limit:1e3,every:5e3}),s=O.value.get("search")??"",i=O.value.get("name"),l=N(()=>Q(e,s),[e,s]),m=u=>()=>{let f=l.findIndex(c=>c.name===i),d=l[Math.min(l.length-1,Math.max(0,f+u))];d&&x({name:d.name})};A({j:{label:"Next tool",run:m(1)},k:{label:"Previous tool",run:m(-1)}});let $=e.find(u=>u.name===i),b=u=>`/tools?${new URLSearchParams({...s&&{search:s},name:u})}`;return n`
    <${J} title="Tools" actions=${e.length>0&&n`<span class="muted">${I(e.length,"tool")}</span>`}>
      <${w} error=${r} retry=${o} />
      <${H} errors=${t?.errors??[]} />
      ${a&&n`<${P} />`}
      ${t&&n`<div class="two-panes">
        <div class="panel tool-list">
          <${v} label="Search" value=${s} onInput=${u=>x({search:u})} placeholder="Name, words or source" data-filter="" />
          ${!l.length&&n`<${j} title="No tool matches">Search for other words.<//>`}
          <ul aria-label="Tools">
            ${l.map(u=>n`
                <li key=${u.name}>
                  <a href=${b(u.name)} aria-current=${u.name===i?"true":void 0}>
                    <span class="mono">${p(u.name)}</span>
                    ${u.source!=="built-in"&&n`<span class="tag">${h(W(u.source),30)}</span>`}
                    <span class="muted tool-text">${h(u.description,100)}</span>
                  </a>
                </li>
              `)}
          </ul>
        </div>
        <div class="pane">
          ${$?n`<${X} key=${$.name} tool=${$} />`:n`<${j} title=${i?`There is no tool ${h(i,80)}`:"Choose a tool"}>Its description, its schema and a form to try it appear here.<//>`}
        </div>
      </div>`}
    <//>
  `}function Q(e,t){let r=t.toLowerCase().split(/\s+/).filter(Boolean);if(!r.length)return e;let a=e.filter(s=>{let i=`${s.name} ${s.title} ${s.description} ${s.source} ${s.effects.join(" ")}`.toLowerCase();return r.every(l=>i.includes(l))}),o=s=>r.some(i=>s.name.toLowerCase().includes(i));return[...a.filter(o),...a.filter(s=>!o(s))]}function W(e){return e.includes("/")?"custom":e}function H({errors:e}){return e.length?n`
    <${M} title="Load errors">
      <ul class="load-errors">
        ${e.map(({file:t,line:r,message:a})=>n`
            <li key=${`${t}:${r}`} class="error-box">
              <p class="mono">${p(t)}${r===null?"":`:${r}`}</p>
              <p>${p(a)}</p>
            </li>
          `)}
      </ul>
    <//>
  `:null}function X({tool:e}){return n`
    <article class="panel stack" aria-label=${p(e.name)}>
      <header class="pane-head">
        <h2 class="mono">${p(e.name)}</h2>
        <span class="buttons">${e.effects.map(t=>n`<span key=${t} class=${`tag ${t==="read"?"":"warn"}`}>${p(t)}</span>`)}</span>
      </header>
      <p class="muted">Source: <span class="mono">${p(e.source)}</span></p>
      <${_} view=${{type:"markdown",content:e.description}} text=${e.description} />
      <${ee} tool=${e} />
      <${T}
        label="Schemas"
        tabs=${[["Arguments",()=>n`<${Y} schema=${e.input_schema} />`],["Input schema",()=>n`<${k} value=${e.input_schema} label="Input schema" />`],...e.output_schema?[["Output schema",()=>n`<${k} value=${e.output_schema} label="Output schema" />`]]:[]]}
      />
    </article>
  `}function Y({schema:e}){let t=new Set(e.required??[]),r=Object.keys(e.properties??{});return r.length?n`
    <dl class="arguments">
      ${r.map(a=>{let o=e.properties[a]??{};return n`
          <div key=${a}>
            <dt><span class="mono">${p(a)}</span> <span class="muted">${p(F(o))}${t.has(a)?", required":""}</span></dt>
            <dd>${p(o.description??"")}</dd>
          </div>
        `})}
    </dl>
  `:n`<p class="muted">The tool takes no arguments.</p>`}function F(e){if(e.enum)return`one of ${e.enum.join(", ")}`;let t=[e.type??[],...(e.anyOf??[]).map(r=>r.type??[])].flat();return[...new Set(t)].filter(r=>r!=="null").join(" or ")||"any"}var S=R({});function y(e,t){S.value={...S.value,[e]:{values:{},...S.value[e],...t}}}async function Z(e,t){let r=new AbortController;y(e.name,{isRunning:!0,envelope:null,error:null,stop:()=>r.abort()});try{let a={signal:r.signal,timeout:z},o=await C.post("/v1/call",{tool:e.name,args:t,session:D,...E()},void 0,a);y(e.name,{isRunning:!1,envelope:o})}catch(a){y(e.name,{isRunning:!1,error:r.signal.aborted?new Error("The call was stopped."):a})}}function ee({tool:e}){let t=S.value[e.name];return t?n`<${te} tool=${e} attempt=${t} />`:n`<div class="buttons"><button type="button" class="main" onClick=${()=>y(e.name,{})}>Try it</button></div>`}function te({tool:e,attempt:t}){let[r,a]=L(null),{values:o,isRunning:s,envelope:i,error:l}=t,m=Object.entries(e.input_schema.properties??{}).filter(([c])=>c!=="dry_run"),$=new Set(e.input_schema.required??[]),b=Object.hasOwn(e.input_schema.properties??{},"dry_run"),u=c=>{try{let g={...re(m,$,o),...c};a(null),Z(e,g)}catch(g){a(g)}},f=c=>{c.preventDefault(),s||u({})},d=s&&(q.value??[]).some(c=>c.session===D&&c.tool===e.name);return n`
    <form class="form try" aria-label="Try it" onSubmit=${f}>
      ${m.map(([c,g])=>n`
          <${se}
            key=${c}
            name=${c}
            rules=${g??{}}
            isRequired=${$.has(c)}
            value=${o[c]}
            onInput=${V=>y(e.name,{values:{...o,[c]:V}})}
          />
        `)}
      <div class="buttons">
        <button type="submit" class="main" disabled=${s}>Run</button>
        ${b&&n`<button type="button" disabled=${s} onClick=${()=>u({dry_run:!0})}>Dry run</button>`}
        ${s&&n`<button type="button" onClick=${t.stop}>Stop the call</button>`}
      </div>
      <p class="muted" role="status">
        ${d?n`The call waits for your approval. <a href="/approvals">Answer it</a>; the result will be here.`:s?"Running\u2026":""}
      </p>
      <${w} error=${r??l} />
      ${i&&n`<${ne} envelope=${i} />`}
    </form>
  `}function ne({envelope:e}){let t=e.ok?null:{message:`${e.error_code}: ${e.error}`,suggestion:e.suggestion};return n`
    <section class="stack" aria-label="Result">
      <${w} error=${t} />
      <${T}
        label="Result"
        tabs=${[["View",()=>n`<${_} view=${e.visualization} text=${e.result??e.error??""} content=${e.content??[]} />`],["Envelope",()=>n`<${k} value=${e} label="Envelope" />`]]}
      />
    </section>
  `}function U(e){if(e.enum)return"choice";let t=F(e).split(" or ");return t.length>1?t.every(r=>r==="integer"||r==="number")?"number":t.includes("string")?"text":"json":t[0]==="boolean"?"check":t[0]==="integer"||t[0]==="number"?"number":t[0]==="array"?e.items?.type==="string"?"lines":"json":t[0]==="string"?"text":"json"}function se({name:e,rules:t,isRequired:r,value:a,onInput:o}){let s=U(t),i=p(e),l=[r&&"Required.",t.description,{lines:"One per line.",json:"As JSON."}[s]].filter(Boolean).join(" ");if(s==="check")return n`
      <label class="check">
        <input type="checkbox" checked=${a??t.default??!1} onChange=${f=>o(f.currentTarget.checked)} />
        <span>${i} <span class="hint">${p(l)}</span></span>
      </label>
    `;let m={label:i,hint:l&&p(l),value:a??"",onInput:o};if(s==="choice"){let f=t.enum.filter(d=>d!==null).map(d=>[String(d),h(d,80)]);return n`<${v} ...${m} options=${[["",t.default===void 0||t.default===null?"\u2013":`default: ${h(t.default,60)}`],...f]} />`}let $=t.default,b=$==null||$===""?void 0:`default: ${h(JSON.stringify($),80)}`,u=s==="lines"||s==="json"||G.has(e);return n`<${v} ...${m} multiline=${u} placeholder=${b} inputmode=${s==="number"?"numeric":void 0} />`}function re(e,t,r){let a={};for(let[o,s]of e){let i=r[o],l=U(s??{});if(!(i===void 0||i===""&&!(l==="text"&&t.has(o))))if(l==="number"){if(!Number.isFinite(Number(i)))throw Object.assign(new Error(`${o} must be a number.`),{suggestion:"Use digits only."});a[o]=Number(i)}else if(l==="lines")a[o]=i.split(`
`).filter(m=>m!=="");else if(l==="json")try{a[o]=JSON.parse(i)}catch{throw Object.assign(new Error(`${o} is not valid JSON.`),{suggestion:'Write it as JSON, such as {"a": 1} or ["b"].'})}else l==="choice"?a[o]=s.enum.find(m=>String(m)===i):a[o]=i}return a}export{K as default};
