import{b as j,c as F}from"./chunk-OXKZLCDD.js";import{a as _,b as v}from"./chunk-OMV6HHQJ.js";import{a as X,b as B}from"./chunk-65IA2AVK.js";import{C,F as T,H as D,R as E,S as A,a as k,c as p,d as y,f as x,g as f,l as s}from"./chunk-DLOVLKBK.js";import{a as N,b as L,d,e as S,f as w}from"./chunk-ADK6XEHG.js";var K=6e4;function P({view:t}){let{content:e,language:n,path:o,created:r,lineCount:i}=t,m=Number.isInteger(t.firstLine)?t.firstLine:1;return s`
    <div class="code">
      <div class="diff-head">
        <span class="mono">${d(typeof o=="string"?o:"",300)}</span>
        ${r===!0&&s`<span class="tag good">created</span>`}
        ${Number.isInteger(i)&&s`<span class="muted">${w(i,"line")}</span>`}
      </div>
      <${Q} text=${e} language=${n} first=${m} marked=${t.highlightLines} />
    </div>
  `}function Q({text:t,language:e,first:n=1,marked:o=[],label:r="Code"}){let[i,m]=p(null),l=f(()=>t.replace(/\n$/,"").split(`
`),[t]),{limit:h,width:g,text:O,showMore:Y}=E(l);y(()=>{if(m(null),typeof e!="string"||t.length>K||l.some($=>$.length>N))return;let b=!0;return import("./highlighting-QIF6XCGF.js").then(({highlighted:$})=>b&&m($(l.join(`
`),e)),()=>{}),()=>b=!1},[t,e]);let Z=new Set(Array.isArray(o)?o:[]);return s`
    <div class="lines source">
      <div class="lines-tools"><${C} text=${t} /></div>
      <pre tabindex="0" role="group" aria-label=${r}>${l.slice(0,h).map((b,$)=>s`
          <span key=${$} class=${`source-line${Z.has(n+$)?" marked":""}`}>
            <span class="source-number" data-number=${n+$}></span>
            <span class="source-text">${i?.[$]?.map((q,J)=>W(q,J,O))??S(b,O,g)}${`
`}</span>
          </span>
        `)}</pre>
      ${l.length>h&&s`<button type="button" onClick=${Y}>Show more of ${w(l.length,"line")}</button>`}
    </div>
  `}function W({text:t,scope:e},n,o){return e?s`<span key=${n} class=${`syntax-${e}`}>${o(t)}</span>`:o(t)}var tt=new Set(["image/png","image/jpeg","image/gif","image/webp"]),et=/^[A-Za-z0-9+/]+={0,2}$/;function R({content:t}){return(Array.isArray(t)?t:[]).filter(n=>n?.type==="image").map((n,o)=>s`<${st} key=${o} image=${n} number=${o+1} />`)}function st({image:t,number:e}){let[n,o]=p(!1),r=t.mimeType??t.mime_type,i=tt.has(r)&&typeof t.data=="string"&&et.test(t.data),[m,l]=p(!i);if(m)return s`<p class="muted">Image ${e} is incomplete, or its type is not supported.</p>`;let h=`data:${r};base64,${t.data}`,g=s`<img src=${h} alt=${`Image ${e} of the result`} onError=${()=>l(!0)} />`;return s`
    <button type="button" class="thumbnail" aria-label=${`Zoom image ${e}`} onClick=${()=>o(!0)}>${g}</button>
    ${n&&s`<${D} title=${`Image ${e}`} wide onClose=${()=>o(!1)}><div class="zoomed">${g}</div><//>`}
  `}function V({view:t}){let e=x(null),[n,o]=p(!1);return y(()=>{let r=!0;return import("./rendering-GVXC4H2V.js").then(({rendered:i})=>{r&&(e.current.replaceChildren(i(t.content)),o(!0))},()=>{}),()=>r=!1},[t.content]),s`
    ${typeof t.sourceUrl=="string"&&s`<p class="muted mono">${d(t.sourceUrl,300)}</p>`}
    <div class="markdown" ref=${e}></div>
    ${!n&&s`<${A} text=${t.content} />`}
  `}var nt=400,ot=2e4;function U({view:t}){let{command:e,stdout:n="",stderr:o="",exitCode:r}=t;return s`
    <div class="shell-output">
      ${typeof e=="string"&&s`<pre class="shell-command" tabindex="0" role="group" aria-label="Command"><span aria-hidden="true">$ </span>${S(e,L,ot)}</pre>`}
      <${H} text=${n} label="Output" />
      ${o&&s`<p class="muted">Standard error</p><${H} text=${o} label="Standard error" />`}
      ${Number.isFinite(r)&&s`<p><span class=${`tag ${r===0?"good":"bad"}`}>exit ${r}</span></p>`}
    </div>
  `}function H({text:t,label:e}){let[n,o]=p(nt),r=f(()=>t.replace(/\n$/,"").split(`
`),[t]),i=f(()=>{let m=new X;return r.slice(0,n).map(l=>[...B(m.read(l)),`
`])},[r,n]);return t?s`
    <div class="lines">
      <div class="lines-tools"><${C} text=${t} /></div>
      <pre tabindex="0" role="group" aria-label=${e}>${i}</pre>
      ${r.length>n&&s`<button type="button" onClick=${()=>o(n*4)}>Show more of ${r.length.toLocaleString()} lines</button>`}
    </div>
  `:s`<p class="muted">No output.</p>`}var a=t=>typeof t=="string",c=t=>typeof t=="object"&&t!==null&&!Array.isArray(t),u=t=>e=>Array.isArray(e)&&e.every(t),z=t=>c(t)&&a(t.path)&&u(e=>c(e)&&u(n=>c(n)&&a(n.content))(e.changes))(t.hunks),G={diff:[z,t=>s`<${v} view=${t} />`],diffs:[t=>u(z)(t.items),t=>s`<${_} view=${t} />`],code:[t=>a(t.content),t=>s`<${P} view=${t} />`],"file-list":[({groups:t,files:e})=>u(n=>c(n)&&a(n.path))(e??[])&&u(n=>c(n)&&u(o=>c(o)&&a(o.path))(n.files))(t??[])&&!!(t??e),t=>s`<${j} view=${t} />`],table:[({columns:t,rows:e})=>u(n=>c(n)&&a(n.key))(t)&&u(c)(e),t=>s`<${at} view=${t} />`],markdown:[t=>a(t.content),t=>s`<${V} view=${t} />`],"shell-output":[t=>a(t.stdout??"")&&a(t.stderr??""),t=>s`<${U} view=${t} />`],"todo-list":[({items:t})=>u(e=>c(e)&&a(e.content))(t),t=>s`<${F} view=${t} />`],none:[()=>!0,({message:t})=>s`<p class="view-none">${L(a(t)?t:"Nothing to show.")}</p>`]};function vt({view:t,text:e="",content:n=[]}){let o=c(t)&&Object.hasOwn(G,t.type)?G[t.type]:null,r=o!==null&&rt(o[0],t),i=s`<${A} text=${String(e)} label="Result" />`;return s`
    <div class="view">
      ${r?s`<${I} instead=${i}><${it} view=${t} draw=${o[1]} /><//>`:i}
      <${R} content=${n} />
    </div>
  `}function rt(t,e){try{return t(e)}catch{return!1}}function it({view:t,draw:e}){let n=a(t.title)&&t.title?d(t.title,300):"";return t.collapsed===!0?s`<details class="view-closed"><summary>${n||"Show"}</summary>${e(t)}</details>`:s`${n&&s`<p class="view-title">${n}</p>`}${e(t)}`}var I=class extends k{static getDerivedStateFromError(){return{hasFailed:!0}}render({children:e,instead:n},{hasFailed:o}){return o?n:e}},M=50;function at({view:t}){let e=t.columns.slice(0,M).map(({key:o,label:r})=>({key:o,label:d(a(r)?r:o,100),isNumber:t.rows.length>0&&t.rows.every(i=>i[o]===void 0||typeof i[o]=="number")})),n=Number.isFinite(t.totalRows)?t.totalRows:t.rows.length;return s`
    <${T} columns=${e} rows=${t.rows} label="Table" />
    ${t.columns.length>M&&s`<p class="muted">The first ${M} of ${t.columns.length.toLocaleString()} columns.</p>`}
    ${n>t.rows.length&&s`<p class="muted">The first ${t.rows.length.toLocaleString()} of ${n.toLocaleString()} rows.</p>`}
  `}export{vt as a};
