import{b as F,c as X}from"./chunk-OXKZLCDD.js";import{a as v,b as j}from"./chunk-OMV6HHQJ.js";import{a as B,b as P}from"./chunk-65IA2AVK.js";import{C as S,F as D,H as E,R as _,S as C,a as O,c as p,d as k,e as x,f as N,g as f,l as s}from"./chunk-DLOVLKBK.js";import{a as T,b as y,d,e as L,f as A}from"./chunk-ADK6XEHG.js";var Q=6e4;function R({view:t}){let{content:e,language:n,path:o,created:r,lineCount:i}=t,m=Number.isInteger(t.firstLine)?t.firstLine:1;return s`
    <div class="code">
      <div class="diff-head">
        <span class="mono">${d(typeof o=="string"?o:"",300)}</span>
        ${r===!0&&s`<span class="tag good">created</span>`}
        ${Number.isInteger(i)&&s`<span class="muted">${A(i,"line")}</span>`}
      </div>
      <${W} text=${e} language=${n} first=${m} marked=${t.highlightLines} />
    </div>
  `}function W({text:t,language:e,first:n=1,marked:o=[],label:r="Code"}){let[i,m]=p(null),l=f(()=>t.replace(/\n$/,"").split(`
`),[t]),{limit:h,width:g,text:I,showMore:Z}=_(l);k(()=>{if(m(null),typeof e!="string"||t.length>Q||l.some($=>$.length>T))return;let b=!0;return import("./highlighting-QIF6XCGF.js").then(({highlighted:$})=>b&&m($(l.join(`
`),e)),()=>{}),()=>b=!1},[t,e]);let q=new Set(Array.isArray(o)?o:[]);return s`
    <div class="lines source">
      <div class="lines-tools"><${S} text=${t} /></div>
      <pre tabindex="0" role="group" aria-label=${r}>${l.slice(0,h).map((b,$)=>s`
          <span key=${$} class=${`source-line${q.has(n+$)?" marked":""}`}>
            <span class="source-number" data-number=${n+$}></span>
            <span class="source-text">${i?.[$]?.map((J,K)=>tt(J,K,I))??L(b,I,g)}${`
`}</span>
          </span>
        `)}</pre>
      ${l.length>h&&s`<button type="button" onClick=${Z}>Show more of ${A(l.length,"line")}</button>`}
    </div>
  `}function tt({text:t,scope:e},n,o){return e?s`<span key=${n} class=${`syntax-${e}`}>${o(t)}</span>`:o(t)}var et=new Set(["image/png","image/jpeg","image/gif","image/webp"]),st=/^[A-Za-z0-9+/]+={0,2}$/;function V({content:t}){return(Array.isArray(t)?t:[]).filter(n=>n?.type==="image").map((n,o)=>s`<${nt} key=${o} image=${n} number=${o+1} />`)}function nt({image:t,number:e}){let[n,o]=p(!1),r=t.mimeType??t.mime_type,i=et.has(r)&&typeof t.data=="string"&&st.test(t.data),[m,l]=p(!i);if(m)return s`<p class="muted">Image ${e} is incomplete, or its type is not supported.</p>`;let h=`data:${r};base64,${t.data}`,g=s`<img src=${h} alt=${`Image ${e} of the result`} onError=${()=>l(!0)} />`;return s`
    <button type="button" class="thumbnail" aria-label=${`Zoom image ${e}`} onClick=${()=>o(!0)}>${g}</button>
    ${n&&s`<${E} title=${`Image ${e}`} wide onClose=${()=>o(!1)}><div class="zoomed">${g}</div><//>`}
  `}function H({view:t}){let e=N(null),[n,o]=p(!1);return x(()=>{let r=!0;return import("./rendering-GVXC4H2V.js").then(({rendered:i})=>{r&&(e.current.replaceChildren(i(t.content)),o(!0))},()=>{}),()=>r=!1},[t.content]),s`
    ${typeof t.sourceUrl=="string"&&s`<p class="muted mono">${d(t.sourceUrl,300)}</p>`}
    <div class="markdown" ref=${e}></div>
    ${!n&&s`<${C} text=${t.content} />`}
  `}var ot=400,rt=2e4;function z({view:t}){let{command:e,stdout:n="",stderr:o="",exitCode:r}=t;return s`
    <div class="shell-output">
      ${typeof e=="string"&&s`<pre class="shell-command" tabindex="0" role="group" aria-label="Command"><span aria-hidden="true">$ </span>${L(e,y,rt)}</pre>`}
      <${U} text=${n} label="Output" />
      ${o&&s`<p class="muted">Standard error</p><${U} text=${o} label="Standard error" />`}
      ${Number.isFinite(r)&&s`<p><span class=${`tag ${r===0?"good":"bad"}`}>exit ${r}</span></p>`}
    </div>
  `}function U({text:t,label:e}){let[n,o]=p(ot),r=f(()=>t.replace(/\n$/,"").split(`
`),[t]),i=f(()=>{let m=new B;return r.slice(0,n).map(l=>[...P(m.read(l)),`
`])},[r,n]);return t?s`
    <div class="lines">
      <div class="lines-tools"><${S} text=${t} /></div>
      <pre tabindex="0" role="group" aria-label=${e}>${i}</pre>
      ${r.length>n&&s`<button type="button" onClick=${()=>o(n*4)}>Show more of ${r.length.toLocaleString()} lines</button>`}
    </div>
  `:s`<p class="muted">No output.</p>`}var a=t=>typeof t=="string",c=t=>typeof t=="object"&&t!==null&&!Array.isArray(t),u=t=>e=>Array.isArray(e)&&e.every(t),G=t=>c(t)&&a(t.path)&&u(e=>c(e)&&u(n=>c(n)&&a(n.content))(e.changes))(t.hunks),Y={diff:[G,t=>s`<${j} view=${t} />`],diffs:[t=>u(G)(t.items),t=>s`<${v} view=${t} />`],code:[t=>a(t.content),t=>s`<${R} view=${t} />`],"file-list":[({groups:t,files:e})=>u(n=>c(n)&&a(n.path))(e??[])&&u(n=>c(n)&&u(o=>c(o)&&a(o.path))(n.files))(t??[])&&!!(t??e),t=>s`<${F} view=${t} />`],table:[({columns:t,rows:e})=>u(n=>c(n)&&a(n.key))(t)&&u(c)(e),t=>s`<${lt} view=${t} />`],markdown:[t=>a(t.content),t=>s`<${H} view=${t} />`],"shell-output":[t=>a(t.stdout??"")&&a(t.stderr??""),t=>s`<${z} view=${t} />`],"todo-list":[({items:t})=>u(e=>c(e)&&a(e.content))(t),t=>s`<${X} view=${t} />`],none:[()=>!0,({message:t})=>s`<p class="view-none">${y(a(t)?t:"Nothing to show.")}</p>`]};function jt({view:t,text:e="",content:n=[]}){let o=c(t)&&Object.hasOwn(Y,t.type)?Y[t.type]:null,r=o!==null&&it(o[0],t),i=s`<${C} text=${String(e)} label="Result" />`;return s`
    <div class="view">
      ${r?s`<${M} instead=${i}><${at} view=${t} draw=${o[1]} /><//>`:i}
      <${V} content=${n} />
    </div>
  `}function it(t,e){try{return t(e)}catch{return!1}}function at({view:t,draw:e}){let n=a(t.title)&&t.title?d(t.title,300):"";return t.collapsed===!0?s`<details class="view-closed"><summary>${n||"Show"}</summary>${e(t)}</details>`:s`${n&&s`<p class="view-title">${n}</p>`}${e(t)}`}var M=class extends O{static getDerivedStateFromError(){return{hasFailed:!0}}render({children:e,instead:n},{hasFailed:o}){return o?n:e}},w=50;function lt({view:t}){let e=t.columns.slice(0,w).map(({key:o,label:r})=>({key:o,label:d(a(r)?r:o,100),isNumber:t.rows.length>0&&t.rows.every(i=>i[o]===void 0||typeof i[o]=="number")})),n=Number.isFinite(t.totalRows)?t.totalRows:t.rows.length;return s`
    <${D} columns=${e} rows=${t.rows} label="Table" />
    ${t.columns.length>w&&s`<p class="muted">The first ${w} of ${t.columns.length.toLocaleString()} columns.</p>`}
    ${n>t.rows.length&&s`<p class="muted">The first ${t.rows.length.toLocaleString()} of ${n.toLocaleString()} rows.</p>`}
  `}export{jt as a};
