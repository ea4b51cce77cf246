import{a as se,b as P,c as re}from"./chunk-YSOBIZ6P.js";import{a as le}from"./chunk-ZGS3KHEM.js";import{c as ne}from"./chunk-2XO6L3ML.js";import{a as M,b as D,d as ee,e as te}from"./chunk-PEWYOJNF.js";import{a as f,b as x,d as k,f as oe}from"./chunk-XZ6XCGDO.js";import{a as L,b as F,c as w,d as W,e as X,g as _,h as z,i as T,j as K,k as J,l as Q,n as Y,o as Z,r as U,x as A,y as ae}from"./chunk-V2BFITON.js";import{a as G,b as N,d,e as m,g,h as O,j as V,k as I,l as H,m as C,n,r as $,z as E}from"./chunk-I5UCRAXP.js";import"./chunk-OOJM4CTU.js";var ie=30;function ce({onClose:t}){let[e,a]=d(""),[i,s]=d(0),[o,r]=d(null),[v,S]=d(!1),B=g(null),y=V();m(()=>{X.get("/v1/tools",z()).then(l=>r(l.tools),()=>r([]))},[]);let c=O(()=>fe(e,o),[e,o]),u=Math.min(i,c.length-1);m(()=>B.current?.children[u]?.scrollIntoView({block:"nearest"}),[u]);let R=l=>{t(),k(l.href)};m(()=>{!v||!o||(S(!1),c[u]&&R(c[u]))},[v,o]);let me=l=>{let h={ArrowDown:1,ArrowUp:-1}[l.key];if(h)s((u+h+c.length)%c.length||0);else if(l.key==="Enter"&&c[u])R(c[u]);else if(l.key==="Enter"&&!o)S(!0);else return;l.preventDefault()};return n`
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
        onInput=${l=>(a(l.currentTarget.value),s(0),S(!1))}
        onKeyDown=${me}
      />
      <ul class="palette" role="listbox" id=${y} aria-label="Results" ref=${B}>
        ${c.map((l,h)=>n`
            <li
              key=${l.href}
              id=${`${y}-${h}`}
              role="option"
              aria-selected=${h===u}
              onClick=${()=>R(l)}
              onMouseMove=${()=>s(h)}
            >
              <span class="palette-kind">${l.kind}</span>
              <span class="palette-name">${l.name}</span>
              <span class="palette-detail">${l.detail}</span>
            </li>
          `)}
      </ul>
      ${!c.length&&n`<p class="muted">${o?"No matches.":"Loading the tools\u2026"}</p>`}
    <//>
  `}function fe(t,e){let a=t.toLowerCase().split(/\s+/).filter(Boolean),i=o=>a.every(r=>o.toLowerCase().includes(r)),s=f.filter(([,o])=>i(o)).map(([o,r])=>({kind:"Page",name:r,detail:"",href:`/${o}`}));if(!e)return s;for(let o of e)if(a.length&&i(o.name)){let r=$(o.description,80);s.push({kind:"Tool",name:$(o.name,60),detail:r,href:`/tools?name=${encodeURIComponent(o.name)}`})}for(let o=K.rows.length-1;o>=0&&s.length<ie&&a.length;o-=1){let r=K.rows[o],v=$(le(r),80);i(`${r.tool} ${v} ${r.session}`)&&s.push({kind:"Call",name:$(r.tool,60),detail:v,href:`/activity?call=${encodeURIComponent(r.key)}`})}return s.slice(0,ie)}var $e={activity:()=>import("./activity-2ZQWME5W.js"),approvals:()=>import("./approvals-LESWAU2X.js"),jobs:()=>import("./jobs-64CXJ3CP.js"),changes:()=>import("./changes-LVZ2G3RC.js"),tasks:()=>import("./tasks-4DVWCEPS.js"),agents:()=>import("./agents-FWZXPKTX.js"),tools:()=>import("./tools-K4DUZULL.js"),metrics:()=>import("./metrics-GUUMDNJ2.js"),audit:()=>import("./audit-RXIR6NEX.js"),settings:()=>import("./settings-LY5F4UKM.js")},q=H(()=>(J.value?.length??0)+(Q.value?.length??0)),b=I({}),p=I(null);C(()=>{let t=f.find(([e])=>e===x.value)[1];document.title=`${q.value?`(${q.value}) `:""}${t} \xB7 hilt`});Object.assign(D,{"Ctrl K":{label:"Find a page, tool or call",run:()=>p.value="palette"},"?":{label:"Show keyboard shortcuts",run:()=>p.value="keys"},a:{label:"Go to Approvals",run:()=>k("/approvals")},"/":{label:"Go to the filter",run:()=>document.querySelector("[data-filter]")?.focus()}});f.forEach(([t,e],a)=>{D[String((a+1)%10)]={label:e,run:()=>k(`/${t}`)}});async function ue(t){let e;try{e=(await $e[t]()).default}catch{let a={message:"This page cannot be loaded.",suggestion:"Reload the page."};e=()=>n`<${A} error=${a} retry=${()=>location.reload()} />`}b.value={...b.value,[t]:e}}function pe(){let t=x.value,e=g(null),a=g(!0);m(()=>{b.value[t]||ue(t),a.current||e.current.focus(),a.current=!1,e.current.scrollTop=0,document.querySelector("nav [aria-current]")?.scrollIntoView({block:"nearest",inline:"center"})},[t]),m(()=>{(window.requestIdleCallback??(o=>setTimeout(o,500)))(()=>f.forEach(([o])=>b.value[o]||ue(o)))},[]);let i=b.value[t];return n`
    <a class="skip" href="#main" onClick=${s=>(s.preventDefault(),e.current.focus())}>Skip to content</a>
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
  `}var j=class extends G{static getDerivedStateFromError(e){return{error:e}}render({children:e},{error:a}){if(!a)return e;let i={message:`This page failed: ${a.message}`,suggestion:"Reload it; if it fails again, report the bug."};return n`<div class="page"><${A} error=${i} retry=${()=>location.reload()} /></div>`}};function he({id:t,name:e}){let a=t==="approvals"?q.value:0;return n`
    <li>
      <a href=${`/${t}`} aria-current=${x.value===t?"page":void 0}>
        ${e}${a>0&&n` <span class="badge">${a}</span>`}
      </a>
    </li>
  `}function ve(){let t={open:"Live",connecting:"Connecting",lost:"Not connected",refused:"Invalid token"};return n`
    <div class="side-foot">
      <p class=${`connection ${T.value}`} role="status">${t[T.value]}</p>
      <${ge} />
      <${U}
        label="Theme"
        value=${P.value}
        onInput=${e=>P.value=e}
        options=${se.map(e=>[e,e[0].toUpperCase()+e.slice(1)])}
      />
      <div class="side-buttons">
        <button type="button" class="small" onClick=${()=>p.value="palette"}>Find <kbd>Ctrl K</kbd></button>
        <button type="button" class="small" onClick=${()=>p.value="keys"}>Keys <kbd>?</kbd></button>
      </div>
    </div>
  `}function ge(){return w.value.length<2?null:n`
    <${U}
      label="Folder"
      value=${F.value??w.value[0]}
      onInput=${_}
      options=${w.value.map(t=>[t,$(t.split("/").filter(Boolean).slice(-2).join("/")||t,40)])}
    />
  `}function ke(){return T.value!=="lost"?null:n`
    <div class="lost" role="alert">
      The connection to hilt serve is lost; this page may be out of date. Reconnecting automatically.
      <button type="button" class="small" onClick=${Z}>Reconnect now</button>
    </div>
  `}function be({onClose:t}){let[e]=d(ee);return n`
    <${E} title="Keyboard shortcuts" onClose=${t}>
      <dl class="keys">
        ${e.map(([a,i])=>n`<div key=${a}><dt><kbd>${a}</kbd></dt><dd>${i}</dd></div>`)}
      </dl>
      <label class="check">
        <input
          type="checkbox"
          checked=${M.value}
          onChange=${a=>M.value=a.currentTarget.checked}
        />
        Use single-key shortcuts outside text fields
      </label>
    <//>
  `}function de(){return n`
    <main class="alone">
      <h1>hilt</h1>
      <p>This page needs a valid token.</p>
      <p>
        Open the URL that <code>hilt serve</code> prints on its first line: it ends with <code>#token=…</code>. If you
        cannot see that output, restart <code>hilt serve</code> in a terminal.
      </p>
    </main>
  `}re();W();oe();te();L.value||(Y(),ne());document.body.replaceChildren();C(()=>N(L.value?n`<${de} />`:n`<${pe} />`,document.body));
