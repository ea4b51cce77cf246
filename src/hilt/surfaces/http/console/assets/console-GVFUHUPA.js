import{a as ae,b as P,c as le}from"./chunk-36VWJE6B.js";import{a as ne}from"./chunk-PDK3GT7C.js";import{c as te}from"./chunk-4V5474YP.js";import{a as K,b as L,d as Y,e as Z}from"./chunk-ZKM4YMDT.js";import{a as d,b as T,d as k,f as ee}from"./chunk-KWNQ5HX6.js";import{A as Q,C as M,F as E,J as D,K as oe,a as j,b as B,c as $,d as h,f as g,g as G,h as N,i as x,j as O,k as w,l as n,m as I,n as R,o as C,p as V,q as W,s as H,t as X,u as S,v as F,w as _,x as z,z as J}from"./chunk-Y7Q4PVQ2.js";import{b as m}from"./chunk-LAGCCF5Y.js";import"./chunk-OOJM4CTU.js";var se=30;function re({onClose:t}){let[e,a]=$(""),[i,s]=$(0),[o,r]=$([]),v=g(null),y=N();h(()=>{W.get("/v1/tools",X()).then(l=>r(l.tools),()=>{})},[]);let c=G(()=>de(e,o),[e,o]),p=Math.min(i,c.length-1);h(()=>v.current?.children[p]?.scrollIntoView({block:"nearest"}),[p]);let q=l=>{t(),k(l.href)},pe=l=>{let f={ArrowDown:1,ArrowUp:-1}[l.key];if(f)s((p+f+c.length)%c.length||0);else if(l.key==="Enter"&&c[p])q(c[p]);else return;l.preventDefault()};return n`
    <${E} title="Find a page, tool or call" onClose=${t}>
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
        value=${e}
        onInput=${l=>(a(l.currentTarget.value),s(0))}
        onKeyDown=${pe}
      />
      <ul class="palette" role="listbox" id=${y} aria-label="Results" ref=${v}>
        ${c.map((l,f)=>n`
            <li
              key=${l.href}
              id=${`${y}-${f}`}
              role="option"
              aria-selected=${f===p}
              onClick=${()=>q(l)}
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
  `}function de(t,e){let a=t.toLowerCase().split(/\s+/).filter(Boolean),i=o=>a.every(r=>o.toLowerCase().includes(r)),s=d.filter(([,o])=>i(o)).map(([o,r])=>({kind:"Page",name:r,detail:"",href:`/${o}`}));for(let o of e)if(a.length&&i(o.name)){let r=m(o.description,80);s.push({kind:"Tool",name:m(o.name,60),detail:r,href:`/tools?name=${encodeURIComponent(o.name)}`})}for(let o=F.rows.length-1;o>=0&&s.length<se&&a.length;o-=1){let r=F.rows[o],v=m(ne(r),80);i(`${r.tool} ${v} ${r.session}`)&&s.push({kind:"Call",name:m(r.tool,60),detail:v,href:`/activity?call=${encodeURIComponent(r.key)}`})}return s.slice(0,se)}var me={activity:()=>import("./activity-CPLH3OA2.js"),approvals:()=>import("./approvals-2HPVYHQH.js"),jobs:()=>import("./jobs-4M2N5XYQ.js"),changes:()=>import("./changes-UOWHUNUR.js"),tasks:()=>import("./tasks-MOSA2CNL.js"),agents:()=>import("./agents-A5YIDJ5I.js"),tools:()=>import("./tools-ISPUASIQ.js"),metrics:()=>import("./metrics-XBOBQCIS.js"),audit:()=>import("./audit-N4RR44HX.js"),settings:()=>import("./settings-KEBYYVHY.js")},A=O(()=>(_.value?.length??0)+(z.value?.length??0)),b=x({}),u=x(null);w(()=>{let t=d.find(([e])=>e===T.value)[1];document.title=`${A.value?`(${A.value}) `:""}${t} \xB7 hilt`});Object.assign(L,{"Ctrl K":{label:"Find a page, tool or call",run:()=>u.value="palette"},"?":{label:"Show the keys",run:()=>u.value="keys"},a:{label:"Go to Approvals",run:()=>k("/approvals")},"/":{label:"Go to the filter",run:()=>document.querySelector("[data-filter]")?.focus()}});d.forEach(([t,e],a)=>{L[String((a+1)%10)]={label:e,run:()=>k(`/${t}`)}});async function ie(t){let e;try{e=(await me[t]()).default}catch{let a={message:"This part of the console cannot be loaded.",suggestion:"Reload the page."};e=()=>n`<${D} error=${a} retry=${()=>location.reload()} />`}b.value={...b.value,[t]:e}}function ce(){let t=T.value,e=g(null),a=g(!0);h(()=>{b.value[t]||ie(t),a.current||e.current.focus(),a.current=!1,e.current.scrollTop=0,document.querySelector("nav [aria-current]")?.scrollIntoView({block:"nearest",inline:"center"})},[t]),h(()=>{(window.requestIdleCallback??(o=>setTimeout(o,500)))(()=>d.forEach(([o])=>b.value[o]||ie(o)))},[]);let i=b.value[t];return n`
    <a class="skip" href="#main" onClick=${s=>(s.preventDefault(),e.current.focus())}>Skip to the page</a>
    <div class="shell">
      <header class="side">
        <p class="brand" aria-hidden="true">hilt</p>
        <nav aria-label="Pages">
          <ul>
            ${d.map(([s,o])=>n`<${fe} key=${s} id=${s} name=${o} />`)}
          </ul>
        </nav>
        <${$e} />
      </header>
      <main id="main" ref=${e} tabindex="-1">
        <${ve} />
        ${i?n`<${U} key=${`${t} ${R.value}`}><${i} /><//>`:n`<${oe} />`}
      </main>
    </div>
    ${u.value==="palette"&&n`<${re} onClose=${()=>u.value=null} />`}
    ${u.value==="keys"&&n`<${ge} onClose=${()=>u.value=null} />`}
  `}var U=class extends j{static getDerivedStateFromError(e){return{error:e}}render({children:e},{error:a}){if(!a)return e;let i={message:`This page has failed: ${a.message}`,suggestion:"Reload it; if it fails again, report it."};return n`<div class="page"><${D} error=${i} retry=${()=>location.reload()} /></div>`}};function fe({id:t,name:e}){let a=t==="approvals"?A.value:0;return n`
    <li>
      <a href=${`/${t}`} aria-current=${T.value===t?"page":void 0}>
        ${e}${a>0&&n` <span class="badge">${a}</span>`}
      </a>
    </li>
  `}function $e(){let t={open:"Live",connecting:"Connecting",lost:"Not connected",refused:"Refused"};return n`
    <div class="side-foot">
      <p class=${`connection ${S.value}`} role="status">${t[S.value]}</p>
      <${he} />
      <${M}
        label="Theme"
        value=${P.value}
        onInput=${e=>P.value=e}
        options=${ae.map(e=>[e,e[0].toUpperCase()+e.slice(1)])}
      />
      <div class="side-buttons">
        <button type="button" class="small" onClick=${()=>u.value="palette"}>Find <kbd>Ctrl K</kbd></button>
        <button type="button" class="small" onClick=${()=>u.value="keys"}>Keys <kbd>?</kbd></button>
      </div>
    </div>
  `}function he(){return C.value.length<2?null:n`
    <${M}
      label="Folder"
      value=${R.value??C.value[0]}
      onInput=${H}
      options=${C.value.map(t=>[t,m(t.split("/").filter(Boolean).slice(-2).join("/")||t,40)])}
    />
  `}function ve(){return S.value!=="lost"?null:n`
    <div class="lost" role="alert">
      The connection to hilt serve is lost; what you see may be out of date. It is tried again by itself.
      <button type="button" class="small" onClick=${Q}>Try now</button>
    </div>
  `}function ge({onClose:t}){let[e]=$(Y);return n`
    <${E} title="Keys" onClose=${t}>
      <dl class="keys">
        ${e.map(([a,i])=>n`<div key=${a}><dt><kbd>${a}</kbd></dt><dd>${i}</dd></div>`)}
      </dl>
      <label class="check">
        <input
          type="checkbox"
          checked=${K.value}
          onChange=${a=>K.value=a.currentTarget.checked}
        />
        Single keys work outside text fields
      </label>
    <//>
  `}function ue(){return n`
    <main class="alone">
      <h1>hilt</h1>
      <p>This page has no valid token, so it cannot show anything.</p>
      <p>
        Open the address that <code>hilt serve</code> prints in its first line: it ends with <code>#token=…</code>. If
        the server was started elsewhere, start <code>hilt serve</code> again in a terminal.
      </p>
    </main>
  `}le();V();ee();Z();I.value||(J(),te());document.body.replaceChildren();w(()=>B(I.value?n`<${ue} />`:n`<${ce} />`,document.body));
