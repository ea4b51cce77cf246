import{c as A}from"./chunk-2HEYMLI7.js";import{a as T}from"./chunk-FMLBX3LJ.js";import"./chunk-EMKNZY2K.js";import"./chunk-VYSUAU4J.js";import{c as O,e as x}from"./chunk-KWNQ5HX6.js";import{C as v,G as F,H as M,I as _,J as w,K as P,M as k,N as j,S as B,c as L,g as N,h as R,i as C,l as n,q as I,t as E,w as q}from"./chunk-Y7Q4PVQ2.js";import{a as $,b as h,d as J}from"./chunk-LAGCCF5Y.js";import"./chunk-OOJM4CTU.js";var D="console",K=24*3600*1e3,Q=new Set(["command","content","description","message","new_text","old_text","patch","prompt","script","text"]);function W(){let{rows:e,answer:t,error:r,isLoading:o,reload:a}=B("/v1/tools","tools",{limit:1e3,every:5e3}),s=O.value.get("search")??"",i=O.value.get("name"),l=N(()=>H(e,s),[e,s]),p=u=>()=>{let g=l.findIndex(c=>c.name===i),m=l[Math.min(l.length-1,Math.max(0,g+u))];m&&x({name:m.name})};A({j:{label:"Next tool",run:p(1)},k:{label:"Previous tool",run:p(-1)}});let d=e.find(u=>u.name===i),b=u=>`/tools?${new URLSearchParams({...s&&{search:s},name:u})}`;return n`
    <${F} title="Tools" actions=${e.length>0&&n`<span class="muted">${J(e.length,"tool")}</span>`}>
      <${w} error=${r} retry=${a} />
      <${Y} errors=${t?.errors??[]} />
      ${o&&n`<${P} />`}
      ${t&&n`<div class="two-panes">
        <div class="panel tool-list">
          <${v} label="Search" value=${s} onInput=${u=>x({search:u})} placeholder="Name, words or source" data-filter="" />
          ${!l.length&&n`<${_} title="No tool matches">Search for other words.<//>`}
          <ul aria-label="Tools">
            ${l.map(u=>n`
                <li key=${u.name}>
                  <a href=${b(u.name)} aria-current=${u.name===i?"true":void 0}>
                    <span class="mono">${$(u.name)}</span>
                    ${u.source!=="built-in"&&n`<span class="tag">${h(X(u.source),30)}</span>`}
                    <span class="muted tool-text">${h(u.description,100)}</span>
                  </a>
                </li>
              `)}
          </ul>
        </div>
        <div class="pane">
          ${d?n`<${Z} key=${d.name} tool=${d} />`:n`<${_} title=${i?`There is no tool ${h(i,80)}`:"Choose a tool"}>Its description, its schema and a form to try it appear here.<//>`}
        </div>
      </div>`}
    <//>
  `}function H(e,t){let r=t.toLowerCase().split(/\s+/).filter(Boolean);if(!r.length)return e;let o=e.filter(s=>{let i=`${s.name} ${s.title} ${s.description} ${s.source} ${s.effects.join(" ")}`.toLowerCase();return r.every(l=>i.includes(l))}),a=s=>r.some(i=>s.name.toLowerCase().includes(i));return[...o.filter(a),...o.filter(s=>!a(s))]}function X(e){return e.includes("/")?"custom":e}function Y({errors:e}){return e.length?n`
    <${M} title="Load errors">
      <ul class="load-errors">
        ${e.map(({file:t,line:r,message:o})=>n`
            <li key=${`${t}:${r}`} class="error-box">
              <p class="mono">${$(t)}${r===null?"":`:${r}`}</p>
              <p>${$(o)}</p>
            </li>
          `)}
      </ul>
      <p class="muted">A broken file is loaded again when it changes. Files that are not trusted wait on the page Settings.</p>
    <//>
  `:null}function Z({tool:e}){return n`
    <article class="panel stack" aria-label=${$(e.name)}>
      <header class="pane-head">
        <h2 class="mono">${$(e.name)}</h2>
        <span class="buttons">${e.effects.map(t=>n`<span key=${t} class=${`tag ${t==="read"?"":"warn"}`}>${$(t)}</span>`)}</span>
      </header>
      <p class="muted">Source: <span class="mono">${$(e.source)}</span></p>
      <${T} view=${{type:"markdown",content:e.description}} text=${e.description} />
      <${ne} tool=${e} />
      <${j}
        label="Schemas"
        tabs=${[["Arguments",()=>n`<${ee} schema=${e.input_schema} />`],["Input schema",()=>n`<${k} value=${e.input_schema} label="Input schema" />`],...e.output_schema?[["Output schema",()=>n`<${k} value=${e.output_schema} label="Output schema" />`]]:[]]}
      />
    </article>
  `}function ee({schema:e}){let t=new Set(e.required??[]),r=Object.keys(e.properties??{});return r.length?n`
    <dl class="arguments">
      ${r.map(o=>{let a=e.properties[o]??{};return n`
          <div key=${o}>
            <dt><span class="mono">${$(o)}</span> <span class="muted">${$(U(a))}${t.has(o)?", required":""}</span></dt>
            <dd>${$(a.description??"")}</dd>
          </div>
        `})}
    </dl>
  `:n`<p class="muted">The tool takes no arguments.</p>`}function U(e){if(e.enum)return`one of ${e.enum.join(", ")}`;let t=[e.type??[],...(e.anyOf??[]).map(r=>r.type??[])].flat();return[...new Set(t)].filter(r=>r!=="null").join(" or ")||"any"}var S=C({});function y(e,t){S.value={...S.value,[e]:{values:{},...S.value[e],...t}}}async function te(e,t){let r=new AbortController;y(e.name,{isRunning:!0,envelope:null,error:null,stop:()=>r.abort()});try{let o={signal:r.signal,timeout:K},a=await I.post("/v1/call",{tool:e.name,args:t,session:D,...E()},void 0,o);y(e.name,{isRunning:!1,envelope:a})}catch(o){y(e.name,{isRunning:!1,error:r.signal.aborted?new Error("The call was stopped."):o})}}function ne({tool:e}){let t=S.value[e.name];return t?n`<${se} tool=${e} attempt=${t} />`:n`<div class="buttons"><button type="button" class="main" onClick=${()=>y(e.name,{})}>Try it</button></div>`}function se({tool:e,attempt:t}){let[r,o]=L(null),{values:a,isRunning:s,envelope:i,error:l}=t,p=Object.entries(e.input_schema.properties??{}).filter(([c])=>c!=="dry_run"),d=new Set(e.input_schema.required??[]),b=Object.hasOwn(e.input_schema.properties??{},"dry_run"),u=(c,f)=>y(e.name,{values:{...a,[c]:f}}),g=c=>{if(c.preventDefault(),!s)try{let f={...oe(p,d,a),...a.dry_run&&{dry_run:!0}};o(null),te(e,f)}catch(f){o(f)}},m=s&&(q.value??[]).some(c=>c.session===D&&c.tool===e.name);return n`
    <form class="form try" aria-label="Try it" onSubmit=${g}>
      ${p.map(([c,f])=>n`
          <${ae}
            key=${c}
            name=${c}
            rules=${f??{}}
            isRequired=${d.has(c)}
            value=${a[c]}
            onInput=${G=>u(c,G)}
          />
        `)}
      <div class="buttons">
        <button type="submit" class="main" disabled=${s}>Run</button>
        ${b&&n`<${z} label="Dry run" value=${a.dry_run??!1} onInput=${c=>u("dry_run",c)} />`}
        ${s&&n`<button type="button" onClick=${t.stop}>Stop the call</button>`}
      </div>
      <p class="muted" role="status">
        ${m?n`The call waits for your approval. <a href="/approvals">Answer it</a>; the result will be here.`:s?"Running\u2026":""}
      </p>
      <${w} error=${r??l} />
      ${i&&n`<${re} envelope=${i} />`}
    </form>
  `}function re({envelope:e}){let t=e.ok?null:{message:`${e.error_code}: ${e.error}`,suggestion:e.suggestion};return n`
    <section class="stack" aria-label="Result">
      <${w} error=${t} />
      <${j}
        label="Result"
        tabs=${[["View",()=>n`<${T} view=${e.visualization} text=${e.result??e.error??""} content=${e.content??[]} />`],["Envelope",()=>n`<${k} value=${e} label="Envelope" />`]]}
      />
    </section>
  `}function V(e){if(e.enum)return"choice";let t=U(e).split(" or ");return t.length>1?t.every(r=>r==="integer"||r==="number")?"number":t.includes("string")?"text":"json":t[0]==="boolean"?"check":t[0]==="integer"||t[0]==="number"?"number":t[0]==="array"?e.items?.type==="string"?"lines":"json":t[0]==="string"?"text":"json"}function ae({name:e,rules:t,isRequired:r,value:o,onInput:a}){let s=V(t),i=$(e),l=[r&&"Required.",t.description,{lines:"One per line.",json:"As JSON."}[s]].filter(Boolean).join(" ");if(s==="check")return n`<${z} label=${i} hint=${$(l)} value=${o??t.default??!1} onInput=${a} />`;let p={label:i,hint:l&&$(l),value:o??"",onInput:a};if(s==="choice"){let g=t.enum.filter(m=>m!==null).map(m=>[String(m),h(m,80)]);return n`<${v} ...${p} options=${[["",t.default===void 0||t.default===null?"\u2013":`default: ${h(t.default,60)}`],...g]} />`}let d=t.default,b=d==null||d===""?void 0:`default: ${h(JSON.stringify(d),80)}`,u=s==="lines"||s==="json"||Q.has(e);return n`<${v} ...${p} multiline=${u} placeholder=${b} inputmode=${s==="number"?"numeric":void 0} />`}function z({label:e,hint:t,value:r,onInput:o}){let a=R();return n`
    <div>
      <label class="check">
        <input type="checkbox" checked=${r} aria-describedby=${t?a:void 0} onChange=${s=>o(s.currentTarget.checked)} />
        ${e}
      </label>
      ${t&&n`<p class="hint" id=${a}>${t}</p>`}
    </div>
  `}function oe(e,t,r){let o={};for(let[a,s]of e){let i=r[a],l=V(s??{});if(!(i===void 0||i===""&&!(l==="text"&&t.has(a))))if(l==="number"){if(!Number.isFinite(Number(i)))throw Object.assign(new Error(`${a} must be a number.`),{suggestion:"Use digits only."});o[a]=Number(i)}else if(l==="lines")o[a]=i.split(`
`).filter(p=>p!=="");else if(l==="json")try{o[a]=JSON.parse(i)}catch{throw Object.assign(new Error(`${a} is not valid JSON.`),{suggestion:'Write it as JSON, such as {"a": 1} or ["b"].'})}else l==="choice"?o[a]=s.enum.find(p=>String(p)===i):o[a]=i}return o}export{W as default};
