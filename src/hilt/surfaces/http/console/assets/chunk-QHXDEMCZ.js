import{a as x,b as O}from"./chunk-MKXN7MWL.js";import{a as F,b as M}from"./chunk-ZJRP4W4X.js";import{C as A,F as E,G as N,M as C,a as w,c,d as L,f as I,g as b,l as s}from"./chunk-KLSJ4T3K.js";import{a as f,b as a,c as T,d as g}from"./chunk-3V634C7B.js";var z=400,U=2e3,Y=6e4;function D({view:t}){let{content:e,language:n,path:o,created:r,lineCount:i}=t,d=Number.isInteger(t.firstLine)?t.firstLine:1;return s`
    <div class="code">
      <div class="diff-head">
        <span class="mono">${a(typeof o=="string"?o:"",300)}</span>
        ${r===!0&&s`<span class="tag good">created</span>`}
        ${Number.isInteger(i)&&s`<span class="muted">${g(i,"line")}</span>`}
      </div>
      <${Z} text=${e} language=${n} first=${d} marked=${t.highlightLines} />
    </div>
  `}function Z({text:t,language:e,first:n=1,marked:o=[],label:r="Code"}){let[i,d]=c(z),[h,y]=c(null),$=b(()=>t.replace(/\n$/,"").split(`
`),[t]);L(()=>{if(y(null),typeof e!="string"||t.length>Y||$.some(m=>m.length>U))return;let S=!0;return import("./highlighting-QIF6XCGF.js").then(({highlighted:m})=>S&&y(m($.join(`
`),e)),()=>{}),()=>S=!1},[t,e]);let H=new Set(Array.isArray(o)?o:[]);return s`
    <div class="lines source">
      <div class="lines-tools"><${A} text=${t} /></div>
      <pre tabindex="0" role="group" aria-label=${r}>${$.slice(0,i).map((S,m)=>s`
          <span key=${m} class=${`source-line${H.has(n+m)?" marked":""}`}>
            <span class="source-number" data-number=${n+m}></span>
            <span class="source-text">${h?.[m]?.map(q)??T(S)}${`
`}</span>
          </span>
        `)}</pre>
      ${$.length>i&&s`<button type="button" onClick=${()=>d(i*4)}>Show more of ${g($.length,"line")}</button>`}
    </div>
  `}function q({text:t,scope:e},n){return e?s`<span key=${n} class=${`syntax-${e}`}>${f(t)}</span>`:f(t)}var J=200,K={created:"good",modified:"warn",deleted:"bad"},_={completed:["\u2713","done"],in_progress:["\u25D0","in progress"],pending:["\u25CB","to do"],cancelled:["\u2715","cancelled"]};function v({view:t}){let e=Array.isArray(t.groups)?t.groups:[{label:"",files:t.files}],n=e.reduce((r,i)=>r+i.files.length,0),o=Number.isFinite(t.total)?t.total:n;return s`
    <div class="file-list">
      ${e.map((r,i)=>s`<${Q} key=${i} group=${r} />`)}
      <p class="muted">${o>n?`The first ${n.toLocaleString()} of ${g(o,"file")}.`:g(o,"file")}</p>
    </div>
  `}function Q({group:t}){let[e,n]=c(J);return s`
    ${t.label&&s`<p class="file-group">${a(t.label,100)}</p>`}
    <ul>
      ${t.files.slice(0,e).map((o,r)=>s`
          <li key=${r}>
            <span class="mono">${a(o.path,500)}${Number.isFinite(o.line)?`:${o.line}`:""}</span>
            ${typeof o.action=="string"&&s` <span class=${`tag ${K[o.action]??""}`}>${a(o.action,20)}</span>`}
            ${typeof o.content=="string"&&s` <span class="mono muted">${a(o.content,300)}</span>`}
          </li>
        `)}
    </ul>
    ${t.files.length>e&&s`<button type="button" onClick=${()=>n(e*5)}>Show more files</button>`}
  `}function j({view:t}){return s`
    <ul class="todo-list">
      ${t.items.slice(0,500).map((e,n)=>{let[o,r]=_[e.status]??_.pending;return s`
          <li key=${n} class=${e.status==="completed"||e.status==="cancelled"?"muted":""}>
            <span aria-hidden="true">${o}</span><span class="hidden">${r}:</span> ${a(e.content,1e3)}
            ${typeof e.priority=="string"&&s` <span class="tag">${a(e.priority,20)}</span>`}
          </li>
        `})}
    </ul>
  `}var W=new Set(["image/png","image/jpeg","image/gif","image/webp"]),tt=/^[A-Za-z0-9+/]+={0,2}$/;function X({content:t}){return(Array.isArray(t)?t:[]).filter(n=>n?.type==="image").map((n,o)=>s`<${et} key=${o} image=${n} number=${o+1} />`)}function et({image:t,number:e}){let[n,o]=c(!1),r=t.mimeType??t.mime_type,i=W.has(r)&&typeof t.data=="string"&&tt.test(t.data),[d,h]=c(!i);if(d)return s`<p class="muted">Image ${e} is incomplete, or its type is not supported.</p>`;let y=`data:${r};base64,${t.data}`,$=s`<img src=${y} alt=${`Image ${e} of the result`} onError=${()=>h(!0)} />`;return s`
    <button type="button" class="thumbnail" aria-label=${`Zoom image ${e}`} onClick=${()=>o(!0)}>${$}</button>
    ${n&&s`<${N} title=${`Image ${e}`} wide onClose=${()=>o(!1)}><div class="zoomed">${$}</div><//>`}
  `}function B({view:t}){let e=I(null),[n,o]=c(!1);return L(()=>{let r=!0;return import("./rendering-J7DN532D.js").then(({rendered:i})=>{r&&(e.current.replaceChildren(i(t.content)),o(!0))},()=>{}),()=>r=!1},[t.content]),s`
    ${typeof t.sourceUrl=="string"&&s`<p class="muted mono">${a(t.sourceUrl,300)}</p>`}
    <div class="markdown" ref=${e}></div>
    ${!n&&s`<${C} text=${t.content} />`}
  `}var st=400;function R({view:t}){let{command:e,stdout:n="",stderr:o="",exitCode:r}=t;return s`
    <div class="shell-output">
      ${typeof e=="string"&&s`<pre class="shell-command" tabindex="0" role="group" aria-label="Command"><span aria-hidden="true">$ </span>${f(e)}</pre>`}
      <${P} text=${n} label="Output" />
      ${o&&s`<p class="muted">Standard error</p><${P} text=${o} label="Standard error" />`}
      ${Number.isFinite(r)&&s`<p><span class=${`tag ${r===0?"good":"bad"}`}>exit ${r}</span></p>`}
    </div>
  `}function P({text:t,label:e}){let[n,o]=c(st),r=b(()=>t.replace(/\n$/,"").split(`
`),[t]),i=b(()=>{let d=new F;return r.slice(0,n).map(h=>[...M(d.read(h)),`
`])},[r,n]);return t?s`
    <div class="lines">
      <div class="lines-tools"><${A} text=${t} /></div>
      <pre tabindex="0" role="group" aria-label=${e}>${i}</pre>
      ${r.length>n&&s`<button type="button" onClick=${()=>o(n*4)}>Show more of ${r.length.toLocaleString()} lines</button>`}
    </div>
  `:s`<p class="muted">No output.</p>`}var l=t=>typeof t=="string",p=t=>typeof t=="object"&&t!==null&&!Array.isArray(t),u=t=>e=>Array.isArray(e)&&e.every(t),V=t=>p(t)&&l(t.path)&&u(e=>p(e)&&u(n=>p(n)&&l(n.content))(e.changes))(t.hunks),G={diff:[V,t=>s`<${O} view=${t} />`],diffs:[t=>u(V)(t.items),t=>s`<${x} view=${t} />`],code:[t=>l(t.content),t=>s`<${D} view=${t} />`],"file-list":[({groups:t,files:e})=>u(n=>p(n)&&l(n.path))(e??[])&&u(n=>p(n)&&u(o=>p(o)&&l(o.path))(n.files))(t??[])&&!!(t??e),t=>s`<${v} view=${t} />`],table:[({columns:t,rows:e})=>u(n=>p(n)&&l(n.key))(t)&&u(p)(e),t=>s`<${rt} view=${t} />`],markdown:[t=>l(t.content),t=>s`<${B} view=${t} />`],"shell-output":[t=>l(t.stdout??"")&&l(t.stderr??""),t=>s`<${R} view=${t} />`],"todo-list":[({items:t})=>u(e=>p(e)&&l(e.content))(t),t=>s`<${j} view=${t} />`],none:[()=>!0,({message:t})=>s`<p class="view-none">${f(l(t)?t:"Nothing to show.")}</p>`]};function _t({view:t,text:e="",content:n=[]}){let o=p(t)&&Object.hasOwn(G,t.type)?G[t.type]:null,r=o!==null&&nt(o[0],t),i=s`<${C} text=${String(e)} label="Result" />`;return s`
    <div class="view">
      ${r?s`<${k} instead=${i}><${ot} view=${t} draw=${o[1]} /><//>`:i}
      <${X} content=${n} />
    </div>
  `}function nt(t,e){try{return t(e)}catch{return!1}}function ot({view:t,draw:e}){let n=l(t.title)&&t.title?a(t.title,300):"";return t.collapsed===!0?s`<details class="view-closed"><summary>${n||"Show"}</summary>${e(t)}</details>`:s`${n&&s`<p class="view-title">${n}</p>`}${e(t)}`}var k=class extends w{static getDerivedStateFromError(){return{hasFailed:!0}}render({children:e,instead:n},{hasFailed:o}){return o?n:e}};function rt({view:t}){let e=t.columns.map(({key:o,label:r})=>({key:o,label:a(l(r)?r:o,100),isNumber:t.rows.length>0&&t.rows.every(i=>i[o]===void 0||typeof i[o]=="number")})),n=Number.isFinite(t.totalRows)?t.totalRows:t.rows.length;return s`
    <${E} columns=${e} rows=${t.rows} label="Table" />
    ${n>t.rows.length&&s`<p class="muted">The first ${t.rows.length.toLocaleString()} of ${n.toLocaleString()} rows.</p>`}
  `}export{_t as a};
