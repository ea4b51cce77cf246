import{a as Z,b as L,c as ee}from"./chunk-JATUXBQ3.js";import{a as Y}from"./chunk-BCSU5DWP.js";import{c as _}from"./chunk-XSOHVXHZ.js";import{a as R,b as I,d as V,e as W}from"./chunk-PJOPEJHK.js";import{a as d,b as T,d as g,f as X}from"./chunk-OXIS5CAQ.js";import{C as S,G as J,H as Q,b as A,c as f,d as $,f as v,g as D,h as F,i as E,j as U,k as w,l as n,m as x,n as G,o as q,q as N,r as C,s as K,t as O,u as j,w as B,x as H,z}from"./chunk-3TPHJNPE.js";import{b as k}from"./chunk-JDG66FB4.js";import"./chunk-OOJM4CTU.js";var te=30;function oe({onClose:t}){let[e,a]=f(""),[i,s]=f(0),[o,r]=f([]),h=v(null),y=F();$(()=>{q.get("/v1/tools",N()).then(l=>r(l.tools),()=>{})},[]);let c=D(()=>re(e,o),[e,o]),p=Math.min(i,c.length-1);$(()=>h.current?.children[p]?.scrollIntoView({block:"nearest"}),[p]);let P=l=>{t(),g(l.href)},se=l=>{let m={ArrowDown:1,ArrowUp:-1}[l.key];if(m)s((p+m+c.length)%c.length||0);else if(l.key==="Enter"&&c[p])P(c[p]);else return;l.preventDefault()};return n`
    <${S} title="Find a page, tool or call" onClose=${t}>
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
        onKeyDown=${se}
      />
      <ul class="palette" role="listbox" id=${y} aria-label="Results" ref=${h}>
        ${c.map((l,m)=>n`
            <li
              key=${l.href}
              id=${`${y}-${m}`}
              role="option"
              aria-selected=${m===p}
              onClick=${()=>P(l)}
              onMouseMove=${()=>s(m)}
            >
              <span class="palette-kind">${l.kind}</span>
              <span class="palette-name">${l.name}</span>
              <span class="palette-detail">${l.detail}</span>
            </li>
          `)}
      </ul>
      ${!c.length&&n`<p class="muted">Nothing matches.</p>`}
    <//>
  `}function re(t,e){let a=t.toLowerCase().split(/\s+/).filter(Boolean),i=o=>a.every(r=>o.toLowerCase().includes(r)),s=d.filter(([,o])=>i(o)).map(([o,r])=>({kind:"Page",name:r,detail:"",href:`/${o}`}));for(let o of e)if(a.length&&i(o.name)){let r=k(o.description,80);s.push({kind:"Tool",name:k(o.name,60),detail:r,href:`/tools?tool=${encodeURIComponent(o.name)}`})}for(let o=K.rows.length-1;o>=0&&s.length<te&&a.length;o-=1){let r=K.rows[o],h=k(Y(r),80);i(`${r.tool} ${h} ${r.session}`)&&s.push({kind:"Call",name:k(r.tool,60),detail:h,href:`/activity?call=${encodeURIComponent(r.key)}`})}return s.slice(0,te)}var ie={activity:()=>import("./activity-N37PYMXI.js"),approvals:()=>import("./approvals-X2SC5ALR.js"),jobs:()=>import("./jobs-Y4UPSNU5.js"),changes:()=>import("./changes-TXQFACB6.js"),tasks:()=>import("./tasks-UCTP3R4N.js"),agents:()=>import("./agents-22TDMDKV.js"),tools:()=>import("./tools-QR2XBBUW.js"),metrics:()=>import("./metrics-FLP7HLAA.js"),audit:()=>import("./audit-YJA5QP3R.js"),settings:()=>import("./settings-JUZOQBPL.js")},M=U(()=>(O.value?.length??0)+(j.value?.length??0)),b=E({}),u=E(null);w(()=>{let t=d.find(([e])=>e===T.value)[1];document.title=`${M.value?`(${M.value}) `:""}${t} \xB7 hilt`});Object.assign(I,{"Ctrl K":{label:"Find a page, tool or call",run:()=>u.value="palette"},"?":{label:"Show the keys",run:()=>u.value="keys"},a:{label:"Go to Approvals",run:()=>g("/approvals")},"/":{label:"Go to the filter",run:()=>document.querySelector("[data-filter]")?.focus()}});d.forEach(([t,e],a)=>{I[String((a+1)%10)]={label:e,run:()=>g(`/${t}`)}});async function ne(t){let e;try{e=(await ie[t]()).default}catch{let a={message:"This part of the console cannot be loaded.",suggestion:"Reload the page."};e=()=>n`<${J} error=${a} retry=${()=>location.reload()} />`}b.value={...b.value,[t]:e}}function ae(){let t=T.value,e=v(null),a=v(!0);$(()=>{b.value[t]||ne(t),a.current||e.current.focus(),a.current=!1,e.current.scrollTop=0},[t]),$(()=>{(window.requestIdleCallback??(o=>setTimeout(o,500)))(()=>d.forEach(([o])=>b.value[o]||ne(o)))},[]);let i=b.value[t];return n`
    <a class="skip" href="#main" onClick=${s=>(s.preventDefault(),e.current.focus())}>Skip to the page</a>
    <div class="shell">
      <header class="side">
        <p class="brand" aria-hidden="true">hilt</p>
        <nav aria-label="Pages">
          <ul>
            ${d.map(([s,o])=>n`<${ce} key=${s} id=${s} name=${o} />`)}
          </ul>
        </nav>
        <${ue} />
      </header>
      <main id="main" ref=${e} tabindex="-1">
        <${pe} />
        ${i?n`<${i} key=${t} />`:n`<${Q} />`}
      </main>
    </div>
    ${u.value==="palette"&&n`<${oe} onClose=${()=>u.value=null} />`}
    ${u.value==="keys"&&n`<${de} onClose=${()=>u.value=null} />`}
  `}function ce({id:t,name:e}){let a=t==="approvals"?M.value:0;return n`
    <li>
      <a href=${`/${t}`} aria-current=${T.value===t?"page":void 0}>
        ${e}${a>0&&n` <span class="badge">${a}</span>`}
      </a>
    </li>
  `}function ue(){let t={open:"Live",connecting:"Connecting",lost:"Not connected",refused:"Refused"};return n`
    <div class="side-foot">
      <p class=${`connection ${C.value}`} role="status">${t[C.value]}</p>
      <${z}
        label="Theme"
        value=${L.value}
        onInput=${e=>L.value=e}
        options=${Z.map(e=>[e,e[0].toUpperCase()+e.slice(1)])}
      />
      <div class="side-buttons">
        <button type="button" class="small" onClick=${()=>u.value="palette"}>Find <kbd>Ctrl K</kbd></button>
        <button type="button" class="small" onClick=${()=>u.value="keys"}>Keys <kbd>?</kbd></button>
      </div>
    </div>
  `}function pe(){return C.value!=="lost"?null:n`
    <div class="lost" role="alert">
      The connection to hilt serve is lost; what you see may be out of date. It is tried again by itself.
      <button type="button" class="small" onClick=${H}>Try now</button>
    </div>
  `}function de({onClose:t}){let[e]=f(V);return n`
    <${S} title="Keys" onClose=${t}>
      <dl class="keys">
        ${e.map(([a,i])=>n`<div key=${a}><dt><kbd>${a}</kbd></dt><dd>${i}</dd></div>`)}
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
  `}function le(){return n`
    <main class="alone">
      <h1>hilt</h1>
      <p>This page has no valid token, so it cannot show anything.</p>
      <p>
        Open the address that <code>hilt serve</code> prints in its first line: it ends with <code>#token=…</code>. If
        the server was started elsewhere, start <code>hilt serve</code> again in a terminal.
      </p>
    </main>
  `}ee();G();X();W();x.value||(B(),_());document.body.replaceChildren();w(()=>A(x.value?n`<${le} />`:n`<${ae} />`,document.body));
