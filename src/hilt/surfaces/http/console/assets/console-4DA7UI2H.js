import{a as se,b as U,c as re}from"./chunk-36VWJE6B.js";import{a as le}from"./chunk-PDK3GT7C.js";import{c as ne}from"./chunk-4V5474YP.js";import{a as M,b as D,d as ee,e as te}from"./chunk-2HEYMLI7.js";import{a as f,b as T,d as k,f as oe}from"./chunk-KWNQ5HX6.js";import{A as Z,C as P,F as E,J as A,K as ae,a as G,b as N,c as d,d as m,f as g,g as O,h as V,i as L,j as W,k as w,l as n,m as R,n as F,o as C,p as H,q as X,s as _,t as z,u as S,v as K,w as J,x as Q,z as Y}from"./chunk-Y7Q4PVQ2.js";import{b as $}from"./chunk-LAGCCF5Y.js";import"./chunk-OOJM4CTU.js";var ie=30;function ce({onClose:t}){let[e,a]=d(""),[i,s]=d(0),[o,r]=d(null),[v,x]=d(!1),B=g(null),y=V();m(()=>{X.get("/v1/tools",z()).then(l=>r(l.tools),()=>r([]))},[]);let c=O(()=>fe(e,o),[e,o]),u=Math.min(i,c.length-1);m(()=>B.current?.children[u]?.scrollIntoView({block:"nearest"}),[u]);let I=l=>{t(),k(l.href)};m(()=>{!v||!o||(x(!1),c[u]&&I(c[u]))},[v,o]);let me=l=>{let h={ArrowDown:1,ArrowUp:-1}[l.key];if(h)s((u+h+c.length)%c.length||0);else if(l.key==="Enter"&&c[u])I(c[u]);else if(l.key==="Enter"&&!o)x(!0);else return;l.preventDefault()};return n`
    <${E} title="Find a page, tool or call" onClose=${t}>
      <input
        type="text"
        class="palette-input"
        role="combobox"
        aria-label="Find"
        aria-expanded="true"
        aria-controls=${y}
        aria-activedescendant=${c.length?`${y}-${u}`:void 0}
        autocomplete="off"
        spellcheck="false"
        data-first
        value=${e}
        onInput=${l=>(a(l.currentTarget.value),s(0),x(!1))}
        onKeyDown=${me}
      />
      <ul class="palette" role="listbox" id=${y} aria-label="Results" ref=${B}>
        ${c.map((l,h)=>n`
            <li
              key=${l.href}
              id=${`${y}-${h}`}
              role="option"
              aria-selected=${h===u}
              onClick=${()=>I(l)}
              onMouseMove=${()=>s(h)}
            >
              <span class="palette-kind">${l.kind}</span>
              <span class="palette-name">${l.name}</span>
              <span class="palette-detail">${l.detail}</span>
            </li>
          `)}
      </ul>
      ${!c.length&&n`<p class="muted">${o?"Nothing matches.":"Loading the tools\u2026"}</p>`}
    <//>
  `}function fe(t,e){let a=t.toLowerCase().split(/\s+/).filter(Boolean),i=o=>a.every(r=>o.toLowerCase().includes(r)),s=f.filter(([,o])=>i(o)).map(([o,r])=>({kind:"Page",name:r,detail:"",href:`/${o}`}));if(!e)return s;for(let o of e)if(a.length&&i(o.name)){let r=$(o.description,80);s.push({kind:"Tool",name:$(o.name,60),detail:r,href:`/tools?name=${encodeURIComponent(o.name)}`})}for(let o=K.rows.length-1;o>=0&&s.length<ie&&a.length;o-=1){let r=K.rows[o],v=$(le(r),80);i(`${r.tool} ${v} ${r.session}`)&&s.push({kind:"Call",name:$(r.tool,60),detail:v,href:`/activity?call=${encodeURIComponent(r.key)}`})}return s.slice(0,ie)}var $e={activity:()=>import("./activity-BCN4FEZO.js"),approvals:()=>import("./approvals-XMGM43AI.js"),jobs:()=>import("./jobs-4M2N5XYQ.js"),changes:()=>import("./changes-UOWHUNUR.js"),tasks:()=>import("./tasks-MOSA2CNL.js"),agents:()=>import("./agents-BVAOK6BD.js"),tools:()=>import("./tools-Q637AI67.js"),metrics:()=>import("./metrics-XBOBQCIS.js"),audit:()=>import("./audit-N4RR44HX.js"),settings:()=>import("./settings-UELNKEYM.js")},q=W(()=>(J.value?.length??0)+(Q.value?.length??0)),b=L({}),p=L(null);w(()=>{let t=f.find(([e])=>e===T.value)[1];document.title=`${q.value?`(${q.value}) `:""}${t} \xB7 hilt`});Object.assign(D,{"Ctrl K":{label:"Find a page, tool or call",run:()=>p.value="palette"},"?":{label:"Show the keys",run:()=>p.value="keys"},a:{label:"Go to Approvals",run:()=>k("/approvals")},"/":{label:"Go to the filter",run:()=>document.querySelector("[data-filter]")?.focus()}});f.forEach(([t,e],a)=>{D[String((a+1)%10)]={label:e,run:()=>k(`/${t}`)}});async function ue(t){let e;try{e=(await $e[t]()).default}catch{let a={message:"This part of the console cannot be loaded.",suggestion:"Reload the page."};e=()=>n`<${A} error=${a} retry=${()=>location.reload()} />`}b.value={...b.value,[t]:e}}function pe(){let t=T.value,e=g(null),a=g(!0);m(()=>{b.value[t]||ue(t),a.current||e.current.focus(),a.current=!1,e.current.scrollTop=0,document.querySelector("nav [aria-current]")?.scrollIntoView({block:"nearest",inline:"center"})},[t]),m(()=>{(window.requestIdleCallback??(o=>setTimeout(o,500)))(()=>f.forEach(([o])=>b.value[o]||ue(o)))},[]);let i=b.value[t];return n`
    <a class="skip" href="#main" onClick=${s=>(s.preventDefault(),e.current.focus())}>Skip to the page</a>
    <div class="shell">
      <header class="side">
        <p class="brand" aria-hidden="true">hilt</p>
        <nav aria-label="Pages">
          <ul>
            ${f.map(([s,o])=>n`<${he} key=${s} id=${s} name=${o} />`)}
          </ul>
        </nav>
        <${ve} />
      </header>
      <main id="main" ref=${e} tabindex="-1">
        <${ke} />
        ${i?n`<${j} key=${`${t} ${F.value}`}><${i} /><//>`:n`<${ae} />`}
      </main>
    </div>
    ${p.value==="palette"&&n`<${ce} onClose=${()=>p.value=null} />`}
    ${p.value==="keys"&&n`<${be} onClose=${()=>p.value=null} />`}
  `}var j=class extends G{static getDerivedStateFromError(e){return{error:e}}render({children:e},{error:a}){if(!a)return e;let i={message:`This page has failed: ${a.message}`,suggestion:"Reload it; if it fails again, report it."};return n`<div class="page"><${A} error=${i} retry=${()=>location.reload()} /></div>`}};function he({id:t,name:e}){let a=t==="approvals"?q.value:0;return n`
    <li>
      <a href=${`/${t}`} aria-current=${T.value===t?"page":void 0}>
        ${e}${a>0&&n` <span class="badge">${a}</span>`}
      </a>
    </li>
  `}function ve(){let t={open:"Live",connecting:"Connecting",lost:"Not connected",refused:"Refused"};return n`
    <div class="side-foot">
      <p class=${`connection ${S.value}`} role="status">${t[S.value]}</p>
      <${ge} />
      <${P}
        label="Theme"
        value=${U.value}
        onInput=${e=>U.value=e}
        options=${se.map(e=>[e,e[0].toUpperCase()+e.slice(1)])}
      />
      <div class="side-buttons">
        <button type="button" class="small" onClick=${()=>p.value="palette"}>Find <kbd>Ctrl K</kbd></button>
        <button type="button" class="small" onClick=${()=>p.value="keys"}>Keys <kbd>?</kbd></button>
      </div>
    </div>
  `}function ge(){return C.value.length<2?null:n`
    <${P}
      label="Folder"
      value=${F.value??C.value[0]}
      onInput=${_}
      options=${C.value.map(t=>[t,$(t.split("/").filter(Boolean).slice(-2).join("/")||t,40)])}
    />
  `}function ke(){return S.value!=="lost"?null:n`
    <div class="lost" role="alert">
      The connection to hilt serve is lost; what you see may be out of date. It is tried again by itself.
      <button type="button" class="small" onClick=${Z}>Try now</button>
    </div>
  `}function be({onClose:t}){let[e]=d(ee);return n`
    <${E} title="Keys" onClose=${t}>
      <dl class="keys">
        ${e.map(([a,i])=>n`<div key=${a}><dt><kbd>${a}</kbd></dt><dd>${i}</dd></div>`)}
      </dl>
      <label class="check">
        <input
          type="checkbox"
          checked=${M.value}
          onChange=${a=>M.value=a.currentTarget.checked}
        />
        Single keys work outside text fields
      </label>
    <//>
  `}function de(){return n`
    <main class="alone">
      <h1>hilt</h1>
      <p>This page has no valid token, so it cannot show anything.</p>
      <p>
        Open the address that <code>hilt serve</code> prints in its first line: it ends with <code>#token=…</code>. If
        the server was started elsewhere, start <code>hilt serve</code> again in a terminal.
      </p>
    </main>
  `}re();H();oe();te();R.value||(Y(),ne());document.body.replaceChildren();w(()=>N(R.value?n`<${de} />`:n`<${pe} />`,document.body));
