import{a as ee}from"./chunk-YPEGLYAM.js";import{c as J}from"./chunk-AI763KLZ.js";import{a as M,b as L,d as X,e as _}from"./chunk-Z6VPXSDQ.js";import{a as p,b as E,d as y,f as z}from"./chunk-T3O46S4L.js";import{C as x,F as Y,G as Z,b as F,c as f,d as h,f as k,g as U,h as G,i as b,j as O,k as $,l as n,m as R,n as q,o as N,q as j,r as T,s as K,t as B,u as H,w as V,x as W,z as Q}from"./chunk-NATK32PW.js";import{b as w}from"./chunk-6DFJ27FF.js";import"./chunk-OOJM4CTU.js";var te=30;function oe({onClose:t}){let[e,a]=f(""),[i,s]=f(0),[o,r]=f([]),g=k(null),S=G();h(()=>{N.get("/v1/tools",j()).then(l=>r(l.tools),()=>{})},[]);let c=U(()=>ie(e,o),[e,o]),d=Math.min(i,c.length-1);h(()=>g.current?.children[d]?.scrollIntoView({block:"nearest"}),[d]);let A=l=>{t(),y(l.href)},re=l=>{let m={ArrowDown:1,ArrowUp:-1}[l.key];if(m)s((d+m+c.length)%c.length||0);else if(l.key==="Enter"&&c[d])A(c[d]);else return;l.preventDefault()};return n`
    <${x} title="Find a page, tool or call" onClose=${t}>
      <input
        type="text"
        class="palette-input"
        role="combobox"
        aria-label="Find"
        aria-expanded="true"
        aria-controls=${S}
        aria-activedescendant=${c.length?`${S}-${d}`:void 0}
        autocomplete="off"
        spellcheck="false"
        data-first
        value=${e}
        onInput=${l=>(a(l.currentTarget.value),s(0))}
        onKeyDown=${re}
      />
      <ul class="palette" role="listbox" id=${S} aria-label="Results" ref=${g}>
        ${c.map((l,m)=>n`
            <li
              key=${l.href}
              id=${`${S}-${m}`}
              role="option"
              aria-selected=${m===d}
              onClick=${()=>A(l)}
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
  `}function ie(t,e){let a=t.toLowerCase().split(/\s+/).filter(Boolean),i=o=>a.every(r=>o.toLowerCase().includes(r)),s=p.filter(([,o])=>i(o)).map(([o,r])=>({kind:"Page",name:r,detail:"",href:`/${o}`}));for(let o of e)if(a.length&&i(o.name)){let r=w(o.description,80);s.push({kind:"Tool",name:w(o.name,60),detail:r,href:`/tools?tool=${encodeURIComponent(o.name)}`})}for(let o=K.rows.length-1;o>=0&&s.length<te&&a.length;o-=1){let r=K.rows[o],g=w(ee(r),80);i(`${r.tool} ${g} ${r.session}`)&&s.push({kind:"Call",name:w(r.tool,60),detail:g,href:`/activity?call=${encodeURIComponent(r.key)}`})}return s.slice(0,te)}var I="hilt.theme",D=["system","light","dark"],v=b(D.includes(localStorage.getItem(I))?localStorage.getItem(I):"system");function ne(){$(()=>{v.value==="system"?(localStorage.removeItem(I),delete document.documentElement.dataset.theme):(localStorage.setItem(I,v.value),document.documentElement.dataset.theme=v.value)})}var ce={activity:()=>import("./activity-NE3KTHSO.js"),approvals:()=>import("./approvals-BG2GZEXM.js"),jobs:()=>import("./jobs-OLG7D4VJ.js"),changes:()=>import("./changes-CW5TYUKK.js"),tasks:()=>import("./tasks-ALJAIHCI.js"),agents:()=>import("./agents-OAG6BDIO.js"),tools:()=>import("./tools-2RMZ2OVN.js"),metrics:()=>import("./metrics-3MOV3XSB.js"),audit:()=>import("./audit-JCSDN3TR.js"),settings:()=>import("./settings-6URI6G76.js")},P=O(()=>(B.value?.length??0)+(H.value?.length??0)),C=b({}),u=b(null);$(()=>{let t=p.find(([e])=>e===E.value)[1];document.title=`${P.value?`(${P.value}) `:""}${t} \xB7 hilt`});Object.assign(L,{"Ctrl K":{label:"Find a page, tool or call",run:()=>u.value="palette"},"?":{label:"Show the keys",run:()=>u.value="keys"},a:{label:"Go to Approvals",run:()=>y("/approvals")},"/":{label:"Go to the filter",run:()=>document.querySelector("[data-filter]")?.focus()}});p.forEach(([t,e],a)=>{L[String((a+1)%10)]={label:e,run:()=>y(`/${t}`)}});async function ae(t){let e;try{e=(await ce[t]()).default}catch{let a={message:"This part of the console cannot be loaded.",suggestion:"Reload the page."};e=()=>n`<${Y} error=${a} retry=${()=>location.reload()} />`}C.value={...C.value,[t]:e}}function le(){let t=E.value,e=k(null),a=k(!0);h(()=>{C.value[t]||ae(t),a.current||e.current.focus(),a.current=!1,e.current.scrollTop=0},[t]),h(()=>{(window.requestIdleCallback??(o=>setTimeout(o,500)))(()=>p.forEach(([o])=>C.value[o]||ae(o)))},[]);let i=C.value[t];return n`
    <a class="skip" href="#main" onClick=${s=>(s.preventDefault(),e.current.focus())}>Skip to the page</a>
    <div class="shell">
      <header class="side">
        <p class="brand" aria-hidden="true">hilt</p>
        <nav aria-label="Pages">
          <ul>
            ${p.map(([s,o])=>n`<${ue} key=${s} id=${s} name=${o} />`)}
          </ul>
        </nav>
        <${de} />
      </header>
      <main id="main" ref=${e} tabindex="-1">
        <${pe} />
        ${i?n`<${i} key=${t} />`:n`<${Z} />`}
      </main>
    </div>
    ${u.value==="palette"&&n`<${oe} onClose=${()=>u.value=null} />`}
    ${u.value==="keys"&&n`<${me} onClose=${()=>u.value=null} />`}
  `}function ue({id:t,name:e}){let a=t==="approvals"?P.value:0;return n`
    <li>
      <a href=${`/${t}`} aria-current=${E.value===t?"page":void 0}>
        ${e}${a>0&&n` <span class="badge">${a}</span>`}
      </a>
    </li>
  `}function de(){let t={open:"Live",connecting:"Connecting",lost:"Not connected",refused:"Refused"};return n`
    <div class="side-foot">
      <p class=${`connection ${T.value}`} role="status">${t[T.value]}</p>
      <${Q}
        label="Theme"
        value=${v.value}
        onInput=${e=>v.value=e}
        options=${D.map(e=>[e,e[0].toUpperCase()+e.slice(1)])}
      />
      <div class="side-buttons">
        <button type="button" class="small" onClick=${()=>u.value="palette"}>Find <kbd>Ctrl K</kbd></button>
        <button type="button" class="small" onClick=${()=>u.value="keys"}>Keys <kbd>?</kbd></button>
      </div>
    </div>
  `}function pe(){return T.value!=="lost"?null:n`
    <div class="lost" role="alert">
      The connection to hilt serve is lost; what you see may be out of date. It is tried again by itself.
      <button type="button" class="small" onClick=${W}>Try now</button>
    </div>
  `}function me({onClose:t}){let[e]=f(X);return n`
    <${x} title="Keys" onClose=${t}>
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
  `}function se(){return n`
    <main class="alone">
      <h1>hilt</h1>
      <p>This page has no valid token, so it cannot show anything.</p>
      <p>
        Open the address that <code>hilt serve</code> prints in its first line: it ends with <code>#token=…</code>. If
        the server was started elsewhere, start <code>hilt serve</code> again in a terminal.
      </p>
    </main>
  `}ne();q();z();_();R.value||(V(),J());document.body.replaceChildren();$(()=>F(R.value?n`<${se} />`:n`<${le} />`,document.body));
