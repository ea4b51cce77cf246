import{a as le,b as U,c as ae}from"./chunk-3SK3OVPN.js";import{a as oe}from"./chunk-AP3FNEBE.js";import{c as re}from"./chunk-3U6WNGN5.js";import{a as M,b as A,d as ee,e as te}from"./chunk-IDSXIV7L.js";import{a as d,b as E,d as k,f as se}from"./chunk-STYMQTOY.js";import{a as L,b as F,c as w,d as W,e as X,g as _,h as z,i as T,j as K,k as J,l as Q,n as Y,o as Z,r as D,x as P,y as ne}from"./chunk-OTZEVIFT.js";import{a as N,b as j,d as m,e as f,g,h as O,j as V,k as I,l as H,m as C,n as l,r as $,z as x}from"./chunk-N2E7E6HP.js";import"./chunk-OOJM4CTU.js";var ie=30;function ce({onClose:t}){let[e,n]=m(""),[r,a]=m(0),[o,i]=m(null),[v,S]=m(!1),G=g(null),y=V();f(()=>{X.get("/v1/tools",z()).then(s=>i(s.tools),()=>i([]))},[]);let c=O(()=>fe(e,o),[e,o]),u=Math.min(r,c.length-1);f(()=>G.current?.children[u]?.scrollIntoView({block:"nearest"}),[u]);let R=s=>{t(),k(s.href)};f(()=>{!v||!o||(S(!1),c[u]&&R(c[u]))},[v,o]);let me=s=>{let h={ArrowDown:1,ArrowUp:-1}[s.key];if(h)a((u+h+c.length)%c.length||0);else if(s.key==="Enter"&&c[u])R(c[u]);else if(s.key==="Enter"&&!o)S(!0);else return;s.preventDefault()};return l`
    <${x} title="Find a page, tool or call" onClose=${t}>
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
        onInput=${s=>(n(s.currentTarget.value),a(0),S(!1))}
        onKeyDown=${me}
      />
      <ul class="palette" role="listbox" id=${y} aria-label="Results" ref=${G}>
        ${c.map((s,h)=>l`
            <li
              key=${s.href}
              id=${`${y}-${h}`}
              role="option"
              aria-selected=${h===u}
              onClick=${()=>R(s)}
              onMouseMove=${()=>a(h)}
            >
              <span class="palette-kind">${s.kind}</span>
              <span class="palette-name">${s.name}</span>
              <span class="palette-detail">${s.detail}</span>
            </li>
          `)}
      </ul>
      ${!c.length&&l`<p class="muted">${o?"No matches.":"Loading the tools\u2026"}</p>`}
    <//>
  `}function fe(t,e){let n=t.toLowerCase().split(/\s+/).filter(Boolean),r=o=>n.every(i=>o.toLowerCase().includes(i)),a=d.filter(([,o])=>r(o)).map(([o,i])=>({kind:"Page",name:i,detail:"",href:`/${o}`}));if(!e)return a;for(let o of e)if(n.length&&r(o.name)){let i=$(o.description,80);a.push({kind:"Tool",name:$(o.name,60),detail:i,href:`/tools?name=${encodeURIComponent(o.name)}`})}for(let o=K.rows.length-1;o>=0&&a.length<ie&&n.length;o-=1){let i=K.rows[o],v=$(oe(i),80);r(`${i.tool} ${v} ${i.session}`)&&a.push({kind:"Call",name:$(i.tool,60),detail:v,href:`/activity?call=${encodeURIComponent(i.key)}`})}return a.slice(0,ie)}var q=H(()=>(J.value?.length??0)+(Q.value?.length??0)),b=I({}),p=I(null);C(()=>{let t=d.find(([e])=>e===E.value)[1];document.title=`${q.value?`(${q.value}) `:""}${t} \xB7 hilt`});Object.assign(A,{"Ctrl K":{label:"Find a page, tool or call",run:()=>p.value="palette"},"?":{label:"Show keyboard shortcuts",run:()=>p.value="keys"},a:{label:"Go to Approvals",run:()=>k("/approvals")},"/":{label:"Go to the filter",run:()=>document.querySelector("[data-filter]")?.focus()}});d.forEach(([t,e],n)=>{A[String((n+1)%10)]={label:e,run:()=>k(`/${t}`)}});async function ue([t,,e]){let n;try{n=(await e()).default}catch{let r={message:"This page cannot be loaded.",suggestion:"Reload the page."};n=()=>l`<${P} error=${r} retry=${()=>location.reload()} />`}b.value={...b.value,[t]:n}}function de(){let t=E.value,e=g(null),n=g(!0);f(()=>{b.value[t]||ue(d.find(([a])=>a===t)),n.current||e.current.focus(),n.current=!1,e.current.scrollTop=0,document.querySelector("nav [aria-current]")?.scrollIntoView({block:"nearest",inline:"center"})},[t]),f(()=>{(window.requestIdleCallback??(o=>setTimeout(o,500)))(()=>d.forEach(o=>b.value[o[0]]||ue(o)))},[]);let r=b.value[t];return l`
    <a class="skip" href="#main" onClick=${a=>(a.preventDefault(),e.current.focus())}>Skip to content</a>
    <div class="shell">
      <header class="side">
        <p class="brand" aria-hidden="true">hilt</p>
        <nav aria-label="Pages">
          <ul>
            ${d.map(([a,o])=>l`<${$e} key=${a} id=${a} name=${o} />`)}
          </ul>
        </nav>
        <${he} />
      </header>
      <main id="main" ref=${e} tabindex="-1">
        <${ge} />
        ${r?l`<${B} key=${`${t} ${F.value}`}><${r} /><//>`:l`<${ne} />`}
      </main>
    </div>
    ${p.value==="palette"&&l`<${ce} onClose=${()=>p.value=null} />`}
    ${p.value==="keys"&&l`<${ke} onClose=${()=>p.value=null} />`}
  `}var B=class extends N{static getDerivedStateFromError(e){return{error:e}}render({children:e},{error:n}){if(!n)return e;let r={message:`This page failed: ${n.message}`,suggestion:"Reload it; if it fails again, report the bug."};return l`<div class="page"><${P} error=${r} retry=${()=>location.reload()} /></div>`}};function $e({id:t,name:e}){let n=t==="approvals"?q.value:0;return l`
    <li>
      <a href=${`/${t}`} aria-current=${E.value===t?"page":void 0}>
        ${e}${n>0&&l` <span class="badge">${n}</span>`}
      </a>
    </li>
  `}function he(){let t={open:"Live",connecting:"Connecting",lost:"Not connected",refused:"Invalid token"};return l`
    <div class="side-foot">
      <p class=${`connection ${T.value}`} role="status">${t[T.value]}</p>
      <${ve} />
      <${D}
        label="Theme"
        value=${U.value}
        onInput=${e=>U.value=e}
        options=${le.map(e=>[e,e[0].toUpperCase()+e.slice(1)])}
      />
      <div class="side-buttons">
        <button type="button" class="small" onClick=${()=>p.value="palette"}>Find <kbd>Ctrl K</kbd></button>
        <button type="button" class="small" onClick=${()=>p.value="keys"}>Keys <kbd>?</kbd></button>
      </div>
    </div>
  `}function ve(){return w.value.length<2?null:l`
    <${D}
      label="Folder"
      value=${F.value??w.value[0]}
      onInput=${_}
      options=${w.value.map(t=>[t,$(t.split("/").filter(Boolean).slice(-2).join("/")||t,40)])}
    />
  `}function ge(){return T.value!=="lost"?null:l`
    <div class="lost" role="alert">
      The connection to hilt serve is lost; this page may be out of date. Reconnecting automatically.
      <button type="button" class="small" onClick=${Z}>Reconnect now</button>
    </div>
  `}function ke({onClose:t}){let[e]=m(ee);return l`
    <${x} title="Keyboard shortcuts" onClose=${t}>
      <dl class="keys">
        ${e.map(([n,r])=>l`<div key=${n}><dt><kbd>${n}</kbd></dt><dd>${r}</dd></div>`)}
      </dl>
      <label class="check">
        <input
          type="checkbox"
          checked=${M.value}
          onChange=${n=>M.value=n.currentTarget.checked}
        />
        Use single-key shortcuts outside text fields
      </label>
    <//>
  `}function pe(){return l`
    <main class="alone">
      <h1>hilt</h1>
      <p>This page needs a valid token.</p>
      <p>
        Open the URL that <code>hilt serve</code> prints on its first line: it ends with <code>#token=…</code>. If you
        cannot see that output, restart <code>hilt serve</code> in a terminal.
      </p>
    </main>
  `}ae();W();se();te();L.value||(Y(),re());document.body.replaceChildren();C(()=>j(L.value?l`<${pe} />`:l`<${de} />`,document.body));
