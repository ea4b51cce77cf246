import{c as q}from"./chunk-IDSXIV7L.js";import{a as _}from"./chunk-ZYFDT3ZF.js";import"./chunk-7MHHIP2K.js";import"./chunk-CGVARZRQ.js";import"./chunk-HOPPGRH4.js";import"./chunk-ATZ5GOGL.js";import{c as j,e as T}from"./chunk-STYMQTOY.js";import{F as k,G as x,L as D,e as A,h as C,k as E,r as v,u as P,v as M,w as O,x as w,y as B}from"./chunk-OTZEVIFT.js";import{d as L,h as N,j as R,k as I,n as t,p as $,r as h,t as J}from"./chunk-N2E7E6HP.js";import"./chunk-OOJM4CTU.js";var F="console",K=24*3600*1e3,Q=new Set(["command","content","description","message","new_text","old_text","patch","prompt","script","text"]);function W(){let{rows:e,answer:n,error:r,isLoading:i,reload:a}=D("/v1/tools","tools",{limit:1e3,every:5e3}),s=j.value.get("search")??"",o=j.value.get("name"),l=N(()=>H(e,s),[e,s]),p=u=>()=>{let g=l.findIndex(c=>c.name===o),m=l[Math.min(l.length-1,Math.max(0,g+u))];m&&T({name:m.name})};q({j:{label:"Next tool",run:p(1)},k:{label:"Previous tool",run:p(-1)}});let d=e.find(u=>u.name===o),b=u=>`/tools?${new URLSearchParams({...s&&{search:s},name:u})}`;return t`
    <${P} title="Tools" actions=${e.length>0&&t`<span class="muted">${J(e.length,"tool")}</span>`}>
      <${w} error=${r} retry=${a} />
      <${Y} errors=${n?.errors??[]} />
      ${i&&t`<${B} />`}
      ${n&&t`<div class="two-panes">
        <div class="panel tool-list">
          <${v} label="Search" value=${s} onInput=${u=>T({search:u})} placeholder="Name, description or source" data-filter="" />
          ${!l.length&&t`<${O} title="No tool matches">Search for other words.<//>`}
          <ul aria-label="Tools">
            ${l.map(u=>t`
                <li key=${u.name}>
                  <a href=${b(u.name)} aria-current=${u.name===o?"true":void 0}>
                    <span class="mono">${$(u.name)}</span>
                    ${u.source!=="built-in"&&t`<span class="tag">${h(X(u.source),30)}</span>`}
                    <span class="muted tool-text">${h(u.description,100)}</span>
                  </a>
                </li>
              `)}
          </ul>
        </div>
        <div class="pane">
          ${d?t`<${Z} key=${d.name} tool=${d} />`:t`<${O} title=${o?`There is no tool ${h(o,80)}`:"Select a tool"}>Its description, its schema and a form to try it appear here.<//>`}
        </div>
      </div>`}
    <//>
  `}function H(e,n){let r=n.toLowerCase().split(/\s+/).filter(Boolean);if(!r.length)return e;let i=e.filter(s=>{let o=`${s.name} ${s.title} ${s.description} ${s.source} ${s.effects.join(" ")}`.toLowerCase();return r.every(l=>o.includes(l))}),a=s=>r.some(o=>s.name.toLowerCase().includes(o));return[...i.filter(a),...i.filter(s=>!a(s))]}function X(e){return e.includes("/")?"custom":e}function Y({errors:e}){return e.length?t`
    <${M} title="Load errors">
      <ul class="load-errors">
        ${e.map(({file:n,line:r,message:i})=>t`
            <li key=${`${n}:${r}`} class="error-box">
              <p class="mono">${$(n)}${r===null?"":`:${r}`}</p>
              <p>${$(i)}</p>
            </li>
          `)}
      </ul>
      <p class="muted">A broken file is reloaded when it changes. Review untrusted files on the Settings page.</p>
    <//>
  `:null}function Z({tool:e}){return t`
    <article class="panel stack" aria-label=${$(e.name)}>
      <header class="pane-head">
        <h2 class="mono">${$(e.name)}</h2>
        <span class="buttons">${e.effects.map(n=>t`<span key=${n} class=${`tag ${n==="read"?"":"warn"}`}>${$(n)}</span>`)}</span>
      </header>
      <p class="muted">Source: <span class="mono">${$(e.source)}</span></p>
      <${_} view=${{type:"markdown",content:e.description}} text=${e.description} />
      <${te} tool=${e} />
      <${x}
        label="Schemas"
        tabs=${[["Arguments",()=>t`<${ee} schema=${e.input_schema} />`],["Input schema",()=>t`<${k} value=${e.input_schema} label="Input schema" />`],...e.output_schema?[["Output schema",()=>t`<${k} value=${e.output_schema} label="Output schema" />`]]:[]]}
      />
    </article>
  `}function ee({schema:e}){let n=new Set(e.required??[]),r=Object.keys(e.properties??{});return r.length?t`
    <dl class="arguments">
      ${r.map(i=>{let a=e.properties[i]??{};return t`
          <div key=${i}>
            <dt><span class="mono">${$(i)}</span> <span class="muted">${$(V(a))}${n.has(i)?", required":""}</span></dt>
            <dd>${$(a.description??"")}</dd>
          </div>
        `})}
    </dl>
  `:t`<p class="muted">The tool takes no arguments.</p>`}function V(e){if(e.enum)return`one of ${e.enum.join(", ")}`;let n=[e.type??[],...(e.anyOf??[]).map(r=>r.type??[])].flat();return[...new Set(n)].filter(r=>r!=="null").join(" or ")||"any"}var S=I({});function y(e,n){S.value={...S.value,[e]:{values:{},...S.value[e],...n}}}async function ne(e,n){let r=new AbortController;y(e.name,{isRunning:!0,envelope:null,error:null,stop:()=>r.abort()});try{let i={signal:r.signal,timeout:K},a=await A.post("/v1/call",{tool:e.name,args:n,session:F,...C()},void 0,i);y(e.name,{isRunning:!1,envelope:a})}catch(i){y(e.name,{isRunning:!1,error:r.signal.aborted?new Error("The call was stopped."):i})}}function te({tool:e}){let n=S.value[e.name];return n?t`<${se} tool=${e} attempt=${n} />`:t`<div class="buttons"><button type="button" class="main" onClick=${()=>y(e.name,{})}>Try it</button></div>`}function se({tool:e,attempt:n}){let[r,i]=L(null),{values:a,isRunning:s,envelope:o,error:l}=n,p=Object.entries(e.input_schema.properties??{}).filter(([c])=>c!=="dry_run"),d=new Set(e.input_schema.required??[]),b=Object.hasOwn(e.input_schema.properties??{},"dry_run"),u=(c,f)=>y(e.name,{values:{...a,[c]:f}}),g=c=>{if(c.preventDefault(),!s)try{let f={...ie(p,d,a),...a.dry_run&&{dry_run:!0}};i(null),ne(e,f)}catch(f){i(f)}},m=s&&(E.value??[]).some(c=>c.session===F&&c.tool===e.name);return t`
    <form class="form try" aria-label="Try it" onSubmit=${g}>
      ${p.map(([c,f])=>t`
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
        ${b&&t`<${z} label="Dry run" value=${a.dry_run??!1} onInput=${c=>u("dry_run",c)} />`}
        ${s&&t`<button type="button" onClick=${n.stop}>Stop the call</button>`}
      </div>
      <p class="muted" role="status">
        ${m?t`The call is waiting for your approval. <a href="/approvals">Answer it</a>; the result will appear here.`:s?"Running\u2026":""}
      </p>
      <${w} error=${r??l} />
      ${o&&t`<${re} envelope=${o} />`}
    </form>
  `}function re({envelope:e}){let n=e.ok?null:{message:`${e.error_code}: ${e.error}`,suggestion:e.suggestion};return t`
    <section class="stack" aria-label="Result">
      <${w} error=${n} />
      <${x}
        label="Result"
        tabs=${[["View",()=>t`<${_} view=${e.visualization} text=${e.result??e.error??""} content=${e.content??[]} />`],["Envelope",()=>t`<${k} value=${e} label="Envelope" />`]]}
      />
    </section>
  `}function U(e){if(e.enum)return"choice";let n=V(e).split(" or ");return n.length>1?n.every(r=>r==="integer"||r==="number")?"number":n.includes("string")?"text":"json":n[0]==="boolean"?"check":n[0]==="integer"||n[0]==="number"?"number":n[0]==="array"?e.items?.type==="string"?"lines":"json":n[0]==="string"?"text":"json"}function ae({name:e,rules:n,isRequired:r,value:i,onInput:a}){let s=U(n),o=$(e),l=[r&&"Required.",n.description,{lines:"One per line.",json:"As JSON."}[s]].filter(Boolean).join(" ");if(s==="check")return t`<${z} label=${o} hint=${$(l)} value=${i??n.default??!1} onInput=${a} />`;let p={label:o,hint:l&&$(l),value:i??"",onInput:a};if(s==="choice"){let g=n.enum.filter(m=>m!==null).map(m=>[String(m),h(m,80)]);return t`<${v} ...${p} options=${[["",n.default===void 0||n.default===null?"\u2013":`default: ${h(n.default,60)}`],...g]} />`}let d=n.default,b=[void 0,null,""].includes(d)?void 0:`default: ${h(JSON.stringify(d),80)}`,u=s==="lines"||s==="json"||Q.has(e);return t`<${v} ...${p} multiline=${u} placeholder=${b} inputmode=${s==="number"?"numeric":void 0} />`}function z({label:e,hint:n,value:r,onInput:i}){let a=R();return t`
    <div>
      <label class="check">
        <input type="checkbox" checked=${r} aria-describedby=${n?a:void 0} onChange=${s=>i(s.currentTarget.checked)} />
        ${e}
      </label>
      ${n&&t`<p class="hint" id=${a}>${n}</p>`}
    </div>
  `}function ie(e,n,r){let i={};for(let[a,s]of e){let o=r[a],l=U(s??{});if(!(o===void 0||o===""&&!(l==="text"&&n.has(a))))if(l==="number"){if(!Number.isFinite(Number(o)))throw Object.assign(new Error(`${a} must be a number.`),{suggestion:"Use digits only."});i[a]=Number(o)}else if(l==="lines")i[a]=o.split(`
`).filter(p=>p!=="");else if(l==="json")try{i[a]=JSON.parse(o)}catch{throw Object.assign(new Error(`${a} is not valid JSON.`),{suggestion:'Write it as JSON, such as {"a": 1} or ["b"].'})}else l==="choice"?i[a]=s.enum.find(p=>String(p)===o):i[a]=o}return i}export{W as default};
