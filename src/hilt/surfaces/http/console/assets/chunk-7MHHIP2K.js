import{d,n as s,r,t as a}from"./chunk-N2E7E6HP.js";var u=200,f={created:"good",modified:"warn",deleted:"bad"},p={completed:["\u2713","done"],in_progress:["\u25D0","in progress"],pending:["\u25CB","to do"],cancelled:["\u2715","cancelled"]};function $({rows:e,draw:l,name:i="",noun:t="row"}){let[n,o]=d(u);return s`
    <ul class=${i}>${e.slice(0,n).map(l)}</ul>
    ${e.length>n&&s`<button type="button" onClick=${()=>o(n*5)}>Show more of ${a(e.length,t)}</button>`}
  `}function b({view:e}){let l=Array.isArray(e.groups)?e.groups:[{label:"",files:e.files}],i=l.flatMap(({label:o,files:c})=>[...o?[{label:o}]:[],...c]),t=l.reduce((o,c)=>o+c.files.length,0),n=Number.isFinite(e.total)?e.total:t;return s`
    <div class="file-list">
      <${$} rows=${i} draw=${m} noun="file" />
      <p class="muted">${n>t?`The first ${t.toLocaleString()} of ${a(n,"file")}.`:a(n,"file")}</p>
    </div>
  `}function m({label:e,path:l,line:i,action:t,content:n},o){return l===void 0?s`<li key=${o} class="file-group">${r(e,100)}</li>`:s`
    <li key=${o}>
      <span class="mono">${r(l,500)}${Number.isFinite(i)?`:${i}`:""}</span>
      ${typeof t=="string"&&s` <span class=${`tag ${f[t]??""}`}>${r(t,20)}</span>`}
      ${typeof n=="string"&&s` <span class="mono muted">${r(n,300)}</span>`}
    </li>
  `}function S({view:e}){return s`<${$} rows=${e.items} draw=${g} name="todo-list" noun="item" />`}function g({status:e,content:l,priority:i},t){let[n,o]=p[e]??p.pending;return s`
    <li key=${t} class=${e==="completed"||e==="cancelled"?"muted":""}>
      <span aria-hidden="true">${n}</span><span class="hidden">${o}:</span> ${r(l,1e3)}
      ${typeof i=="string"&&s` <span class="tag">${r(i,20)}</span>`}
    </li>
  `}export{$ as a,b,S as c};
