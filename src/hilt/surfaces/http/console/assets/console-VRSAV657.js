import{a as oe,b as P,c as ne}from"./chunk-4FMBZLIX.js";import{a as te}from"./chunk-RAME25B2.js";import{c as Y}from"./chunk-RKYIJKUM.js";import{a as R,b as F,d as z,e as J}from"./chunk-WG426LII.js";import{a as d,b as T,d as k,f as Q}from"./chunk-32YVGNWO.js";import{A as _,C as M,F as E,J as Z,K as ee,b as U,c as $,d as h,f as g,g as q,h as G,i as x,j,k as w,l as n,m as I,n as K,o as C,p as B,q as N,s as O,t as V,u as S,v as L,w as W,x as H,z as X}from"./chunk-YO5XC462.js";import{b as m}from"./chunk-JDG66FB4.js";import"./chunk-OOJM4CTU.js";var ae=30;function le({onClose:e}){let[t,a]=$(""),[i,s]=$(0),[o,r]=$([]),v=g(null),y=G();h(()=>{N.get("/v1/tools",V()).then(l=>r(l.tools),()=>{})},[]);let c=q(()=>ue(t,o),[t,o]),p=Math.min(i,c.length-1);h(()=>v.current?.children[p]?.scrollIntoView({block:"nearest"}),[p]);let D=l=>{e(),k(l.href)},ce=l=>{let f={ArrowDown:1,ArrowUp:-1}[l.key];if(f)s((p+f+c.length)%c.length||0);else if(l.key==="Enter"&&c[p])D(c[p]);else return;l.preventDefault()};return n`
    <${E} title="Find a page, tool or call" onClose=${e}>
      <input
        type="text"
        class="palette-input"
        role="combobox"
        aria-label="Find"
        aria-expanded="true"
        aria-controls=${y}
        aria-activedescendant=${c.length?`${y}-${p}`:void 0}
        autocomplete="off"
        spellcheck="false"
        data-first
        value=${t}
        onInput=${l=>(a(l.currentTarget.value),s(0))}
        onKeyDown=${ce}
      />
      <ul class="palette" role="listbox" id=${y} aria-label="Results" ref=${v}>
        ${c.map((l,f)=>n`
            <li
              key=${l.href}
              id=${`${y}-${f}`}
              role="option"
              aria-selected=${f===p}
              onClick=${()=>D(l)}
              onMouseMove=${()=>s(f)}
            >
              <span class="palette-kind">${l.kind}</span>
              <span class="palette-name">${l.name}</span>
              <span class="palette-detail">${l.detail}</span>
            </li>
          `)}
      </ul>
      ${!c.length&&n`<p class="muted">Nothing matches.</p>`}
    <//>
  `}function ue(e,t){let a=e.toLowerCase().split(/\s+/).filter(Boolean),i=o=>a.every(r=>o.toLowerCase().includes(r)),s=d.filter(([,o])=>i(o)).map(([o,r])=>({kind:"Page",name:r,detail:"",href:`/${o}`}));for(let o of t)if(a.length&&i(o.name)){let r=m(o.description,80);s.push({kind:"Tool",name:m(o.name,60),detail:r,href:`/tools?name=${encodeURIComponent(o.name)}`})}for(let o=L.rows.length-1;o>=0&&s.length<ae&&a.length;o-=1){let r=L.rows[o],v=m(te(r),80);i(`${r.tool} ${v} ${r.session}`)&&s.push({kind:"Call",name:m(r.tool,60),detail:v,href:`/activity?call=${encodeURIComponent(r.key)}`})}return s.slice(0,ae)}var pe={activity:()=>import("./activity-TFGGOIAD.js"),approvals:()=>import("./approvals-AX5JUKBA.js"),jobs:()=>import("./jobs-IWOMLUIT.js"),changes:()=>import("./changes-7M6GOUWX.js"),tasks:()=>import("./tasks-W7SLCCSA.js"),agents:()=>import("./agents-I5BJL337.js"),tools:()=>import("./tools-K3VQLUVF.js"),metrics:()=>import("./metrics-THHDZ3T2.js"),audit:()=>import("./audit-WEOQOFPO.js"),settings:()=>import("./settings-M3ZH5QWN.js")},A=j(()=>(W.value?.length??0)+(H.value?.length??0)),b=x({}),u=x(null);w(()=>{let e=d.find(([t])=>t===T.value)[1];document.title=`${A.value?`(${A.value}) `:""}${e} \xB7 hilt`});Object.assign(F,{"Ctrl K":{label:"Find a page, tool or call",run:()=>u.value="palette"},"?":{label:"Show the keys",run:()=>u.value="keys"},a:{label:"Go to Approvals",run:()=>k("/approvals")},"/":{label:"Go to the filter",run:()=>document.querySelector("[data-filter]")?.focus()}});d.forEach(([e,t],a)=>{F[String((a+1)%10)]={label:t,run:()=>k(`/${e}`)}});async function se(e){let t;try{t=(await pe[e]()).default}catch{let a={message:"This part of the console cannot be loaded.",suggestion:"Reload the page."};t=()=>n`<${Z} error=${a} retry=${()=>location.reload()} />`}b.value={...b.value,[e]:t}}function re(){let e=T.value,t=g(null),a=g(!0);h(()=>{b.value[e]||se(e),a.current||t.current.focus(),a.current=!1,t.current.scrollTop=0,document.querySelector("nav [aria-current]")?.scrollIntoView({block:"nearest",inline:"center"}),document.querySelector("nav [aria-current]").scrollIntoView({block:"nearest",inline:"nearest"})},[e]),h(()=>{(window.requestIdleCallback??(o=>setTimeout(o,500)))(()=>d.forEach(([o])=>b.value[o]||se(o)))},[]);let i=b.value[e];return n`
    <a class="skip" href="#main" onClick=${s=>(s.preventDefault(),t.current.focus())}>Skip to the page</a>
    <div class="shell">
      <header class="side">
        <p class="brand" aria-hidden="true">hilt</p>
        <nav aria-label="Pages">
          <ul>
            ${d.map(([s,o])=>n`<${de} key=${s} id=${s} name=${o} />`)}
          </ul>
        </nav>
        <${me} />
      </header>
      <main id="main" ref=${t} tabindex="-1">
        <${$e} />
        ${i?n`<${i} key=${`${e} ${K.value}`} />`:n`<${ee} />`}
      </main>
    </div>
    ${u.value==="palette"&&n`<${le} onClose=${()=>u.value=null} />`}
    ${u.value==="keys"&&n`<${he} onClose=${()=>u.value=null} />`}
  `}function de({id:e,name:t}){let a=e==="approvals"?A.value:0;return n`
    <li>
      <a href=${`/${e}`} aria-current=${T.value===e?"page":void 0}>
        ${t}${a>0&&n` <span class="badge">${a}</span>`}
      </a>
    </li>
  `}function me(){let e={open:"Live",connecting:"Connecting",lost:"Not connected",refused:"Refused"};return n`
    <div class="side-foot">
      <p class=${`connection ${S.value}`} role="status">${e[S.value]}</p>
      <${fe} />
      <${M}
        label="Theme"
        value=${P.value}
        onInput=${t=>P.value=t}
        options=${oe.map(t=>[t,t[0].toUpperCase()+t.slice(1)])}
      />
      <div class="side-buttons">
        <button type="button" class="small" onClick=${()=>u.value="palette"}>Find <kbd>Ctrl K</kbd></button>
        <button type="button" class="small" onClick=${()=>u.value="keys"}>Keys <kbd>?</kbd></button>
      </div>
    </div>
  `}function fe(){return C.value.length<2?null:n`
    <${M}
      label="Folder"
      value=${K.value??C.value[0]}
      onInput=${O}
      options=${C.value.map(e=>[e,m(e.split("/").filter(Boolean).slice(-2).join("/")||e,40)])}
    />
  `}function $e(){return S.value!=="lost"?null:n`
    <div class="lost" role="alert">
      The connection to hilt serve is lost; what you see may be out of date. It is tried again by itself.
      <button type="button" class="small" onClick=${_}>Try now</button>
    </div>
  `}function he({onClose:e}){let[t]=$(z);return n`
    <${E} title="Keys" onClose=${e}>
      <dl class="keys">
        ${t.map(([a,i])=>n`<div key=${a}><dt><kbd>${a}</kbd></dt><dd>${i}</dd></div>`)}
      </dl>
      <label class="check">
        <input
          type="checkbox"
          checked=${R.value}
          onChange=${a=>R.value=a.currentTarget.checked}
        />
        Single keys work outside text fields
      </label>
    <//>
  `}function ie(){return n`
    <main class="alone">
      <h1>hilt</h1>
      <p>This page has no valid token, so it cannot show anything.</p>
      <p>
        Open the address that <code>hilt serve</code> prints in its first line: it ends with <code>#token=…</code>. If
        the server was started elsewhere, start <code>hilt serve</code> again in a terminal.
      </p>
    </main>
  `}ne();B();Q();J();I.value||(X(),Y());document.body.replaceChildren();w(()=>U(I.value?n`<${ie} />`:n`<${re} />`,document.body));
