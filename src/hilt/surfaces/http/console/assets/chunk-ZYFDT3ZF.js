import{b as F,c as X}from"./chunk-7MHHIP2K.js";import{b as j}from"./chunk-CGVARZRQ.js";import{a as I,b as _}from"./chunk-HOPPGRH4.js";import{a as v,b as R}from"./chunk-ATZ5GOGL.js";import{D as E,E as L,q as y,t as k}from"./chunk-OTZEVIFT.js";import{a as x,d,e as N,f as O,g as D,h as f,n,o as T,p as b,r as m,s as g,t as S}from"./chunk-N2E7E6HP.js";var Q=6e4;function H({view:t}){let{content:e,language:s,path:o,created:r,lineCount:i}=t,$=Number.isInteger(t.firstLine)?t.firstLine:1;return n`
    <div class="code">
      <div class="diff-head">
        <span class="mono">${m(typeof o=="string"?o:"",300)}</span>
        ${r===!0&&n`<span class="tag good">created</span>`}
        ${Number.isInteger(i)&&n`<span class="muted">${S(i,"line")}</span>`}
      </div>
      <${W} text=${e} language=${s} first=${$} marked=${t.highlightLines} />
    </div>
  `}function W({text:t,language:e,first:s=1,marked:o=[],label:r="Code"}){let[i,$]=d(null),u=f(()=>t.replace(/\n$/,"").split(`
`),[t]),{limit:w,width:Y,text:A,showMore:q}=E(u);N(()=>{if($(null),typeof e!="string"||t.length>Q||u.some(p=>p.length>T))return;let h=!0;return import("./highlighting-QIF6XCGF.js").then(({highlighted:p})=>h&&$(p(u.join(`
`),e)),()=>{}),()=>h=!1},[t,e]);let z=new Set(Array.isArray(o)?o:[]);return n`
    <div class="lines source">
      <div class="lines-tools"><${y} text=${t} /></div>
      <pre tabindex="0" role="group" aria-label=${r}>${u.slice(0,w).map((h,p)=>n`
          <span key=${p} class=${`source-line${z.has(s+p)?" marked":""}`}>
            <span class="source-number" data-number=${s+p}></span>
            <span class="source-text">${i?.[p]?.map((J,K)=>Z(J,K,A))??g(h,A,Y)}${`
`}</span>
          </span>
        `)}</pre>
      ${u.length>w&&n`<button type="button" onClick=${q}>Show more of ${S(u.length,"line")}</button>`}
    </div>
  `}function Z({text:t,scope:e},s,o){return e?n`<span key=${s} class=${`syntax-${e}`}>${o(t)}</span>`:o(t)}function P({view:t}){let e=D(null),[s,o]=d(!1);return O(()=>{let r=!0;return import("./rendering-NUXKJ3U5.js").then(({rendered:i})=>{r&&(e.current.replaceChildren(i(t.content)),o(!0))},()=>{}),()=>r=!1},[t.content]),n`
    ${typeof t.sourceUrl=="string"&&n`<p class="muted mono">${m(t.sourceUrl,300)}</p>`}
    <div class="markdown" ref=${e}></div>
    ${!s&&n`<${L} text=${t.content} />`}
  `}var tt=400,et=2e4;function V({view:t}){let{command:e,stdout:s="",stderr:o="",exitCode:r}=t;return n`
    <div class="shell-output">
      ${typeof e=="string"&&n`<pre class="shell-command" tabindex="0" role="group" aria-label="Command"><span aria-hidden="true">$ </span>${g(e,b,et)}</pre>`}
      <${U} text=${s} label="Output" />
      ${o&&n`<p class="muted">Standard error</p><${U} text=${o} label="Standard error" />`}
      ${Number.isFinite(r)&&n`<p><span class=${`tag ${r===0?"good":"bad"}`}>exit ${r}</span></p>`}
    </div>
  `}function U({text:t,label:e}){let[s,o]=d(tt),r=f(()=>t.replace(/\n$/,"").split(`
`),[t]),i=f(()=>{let $=new v;return r.slice(0,s).map(u=>[...R($.read(u)),`
`])},[r,s]);return t?n`
    <div class="lines">
      <div class="lines-tools"><${y} text=${t} /></div>
      <pre tabindex="0" role="group" aria-label=${e}>${i}</pre>
      ${r.length>s&&n`<button type="button" onClick=${()=>o(s*4)}>Show more of ${r.length.toLocaleString()} lines</button>`}
    </div>
  `:n`<p class="muted">No output.</p>`}var l=t=>typeof t=="string",a=t=>typeof t=="object"&&t!==null&&!Array.isArray(t),c=t=>e=>Array.isArray(e)&&e.every(t),G=t=>a(t)&&l(t.path)&&c(e=>a(e)&&c(s=>a(s)&&l(s.content))(e.changes))(t.hunks),B={diff:[G,t=>n`<${_} view=${t} />`],diffs:[t=>c(G)(t.items),t=>n`<${I} view=${t} />`],code:[t=>l(t.content),t=>n`<${H} view=${t} />`],"file-list":[({groups:t,files:e})=>c(s=>a(s)&&l(s.path))(e??[])&&c(s=>a(s)&&c(o=>a(o)&&l(o.path))(s.files))(t??[])&&!!(t??e),t=>n`<${F} view=${t} />`],table:[({columns:t,rows:e})=>c(s=>a(s)&&l(s.key))(t)&&c(a)(e),t=>n`<${ot} view=${t} />`],markdown:[t=>l(t.content),t=>n`<${P} view=${t} />`],"shell-output":[t=>l(t.stdout??"")&&l(t.stderr??""),t=>n`<${V} view=${t} />`],"todo-list":[({items:t})=>c(e=>a(e)&&l(e.content))(t),t=>n`<${X} view=${t} />`],none:[()=>!0,({message:t})=>n`<p class="view-none">${b(l(t)?t:"Nothing to show.")}</p>`]};function Dt({view:t,text:e="",content:s=[]}){let o=a(t)&&Object.hasOwn(B,t.type)?B[t.type]:null,r=o!==null&&nt(o[0],t),i=n`<${L} text=${String(e)} label="Result" />`;return n`
    <div class="view">
      ${r?n`<${M} instead=${i}><${st} view=${t} draw=${o[1]} /><//>`:i}
      <${j} content=${s} />
    </div>
  `}function nt(t,e){try{return t(e)}catch{return!1}}function st({view:t,draw:e}){let s=l(t.title)&&t.title?m(t.title,300):"";return t.collapsed===!0?n`<details class="view-closed"><summary>${s||"Show"}</summary>${e(t)}</details>`:n`${s&&n`<p class="view-title">${s}</p>`}${e(t)}`}var M=class extends x{static getDerivedStateFromError(){return{hasFailed:!0}}render({children:e,instead:s},{hasFailed:o}){return o?s:e}},C=50;function ot({view:t}){let e=t.columns.slice(0,C).map(({key:o,label:r})=>({key:o,label:m(l(r)?r:o,100),isNumber:t.rows.length>0&&t.rows.every(i=>i[o]===void 0||typeof i[o]=="number")})),s=Number.isFinite(t.totalRows)?t.totalRows:t.rows.length;return n`
    <${k} columns=${e} rows=${t.rows} label="Table" />
    ${t.columns.length>C&&n`<p class="muted">The first ${C} of ${t.columns.length.toLocaleString()} columns.</p>`}
    ${s>t.rows.length&&n`<p class="muted">The first ${t.rows.length.toLocaleString()} of ${s.toLocaleString()} rows.</p>`}
  `}export{Dt as a};
