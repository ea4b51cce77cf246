import{A as Z,a as F,b as g,c as h,d as $,e as G,f as H,g as c,h as x,i as d,j as a,k as A,l as N,m as _,n as B,o as K,p as P,q as J,r as Q,s as V,t as W,u as w,v as X,w as z,x as L,z as Y}from"./chunk-OQVW7CMG.js";var M="hilt.keys",E=c(localStorage.getItem(M)!=="off"),v={},ee=new Set;function te(){let e=Object.assign({},v,...[...ee].map(t=>t.keys));return Object.entries(e).map(([t,{label:o}])=>[t,o])}function de(e){return e instanceof HTMLElement?e.isContentEditable||e.matches("textarea, select")?!0:e.matches("input")&&!e.matches("[type=checkbox], [type=radio], [type=button], [type=submit]"):!1}function oe(){d(()=>{E.value?localStorage.removeItem(M):localStorage.setItem(M,"off")}),document.addEventListener("keydown",e=>{if(e.defaultPrevented||e.isComposing||e.repeat)return;let t=e.ctrlKey||e.metaKey?`Ctrl ${e.key.toUpperCase()}`:e.key,o=!e.ctrlKey&&!e.metaKey;if(e.altKey||o&&(!E.value||de(e.target))||document.querySelector("dialog[open]"))return;let s=[...ee].reverse().find(({keys:n})=>Object.hasOwn(n,t)),r=s?s.keys[t]:Object.hasOwn(v,t)&&v[t];r&&(e.preventDefault(),r.run(e))})}var u=[["activity","Activity"],["approvals","Approvals"],["jobs","Jobs"],["changes","Changes"],["tasks","Tasks"],["agents","Agents"],["tools","Tools"],["metrics","Metrics"],["audit","Audit"],["settings","Settings"]],q=()=>({path:location.pathname,query:new URLSearchParams(location.search)}),I=c(q()),R=x(()=>{let e=I.value.path.slice(1);return u.some(([t])=>t===e)?e:"activity"}),xe=x(()=>I.value.query);function k(e,{replace:t=!1}={}){e!==location.pathname+location.search&&(history[t?"replaceState":"pushState"](null,"",e),I.value=q())}function ne(){addEventListener("popstate",()=>I.value=q()),document.addEventListener("click",e=>{let t=e.target instanceof Element?e.target.closest("a[href^='/']"):null;!t||t.target||e.button||e.ctrlKey||e.metaKey||e.shiftKey||e.altKey||u.some(([o])=>t.pathname===`/${o}`)&&(e.preventDefault(),k(t.pathname+t.search))})}var me=["command","path","paths","file","pattern","query","url","prompt","question","title","name","id","patch"];function ae({args:e}){if(!e||typeof e!="object")return"";let t=me.find(s=>e[s]!==void 0&&e[s]!==null&&e[s]!=="")??Object.keys(e)[0];if(t===void 0)return"";let o=e[t];return typeof o=="string"?o:X(o)}var se=30;function re({onClose:e}){let[t,o]=g(""),[s,r]=g(0),[n,i]=g([]),S=$(null),T=H();h(()=>{_.get("/v1/tools",B()).then(l=>i(l.tools),()=>{})},[]);let p=G(()=>fe(t,n),[t,n]),f=Math.min(s,p.length-1);h(()=>S.current?.children[f]?.scrollIntoView({block:"nearest"}),[f]);let U=l=>{e(),k(l.href)},pe=l=>{let y={ArrowDown:1,ArrowUp:-1}[l.key];if(y)r((f+y+p.length)%p.length||0);else if(l.key==="Enter"&&p[f])U(p[f]);else return;l.preventDefault()};return a`
    <${L} title="Find a page, tool or call" onClose=${e}>
      <input
        type="text"
        class="palette-input"
        role="combobox"
        aria-label="Find"
        aria-expanded="true"
        aria-controls=${T}
        aria-activedescendant=${p.length?`${T}-${f}`:void 0}
        autocomplete="off"
        spellcheck="false"
        autofocus
        value=${t}
        onInput=${l=>(o(l.currentTarget.value),r(0))}
        onKeyDown=${pe}
      />
      <ul class="palette" role="listbox" id=${T} aria-label="Results" ref=${S}>
        ${p.map((l,y)=>a`
            <li
              key=${l.href}
              id=${`${T}-${y}`}
              role="option"
              aria-selected=${y===f}
              onClick=${()=>U(l)}
              onMouseMove=${()=>r(y)}
            >
              <span class="palette-kind">${l.kind}</span>
              <span class="palette-name">${l.name}</span>
              <span class="palette-detail">${l.detail}</span>
            </li>
          `)}
      </ul>
      ${!p.length&&a`<p class="muted">Nothing matches.</p>`}
    <//>
  `}function fe(e,t){let o=e.toLowerCase().split(/\s+/).filter(Boolean),s=n=>o.every(i=>n.toLowerCase().includes(i)),r=u.filter(([,n])=>s(n)).map(([n,i])=>({kind:"Page",name:i,detail:"",href:`/${n}`}));for(let n of t)if(o.length&&s(n.name)){let i=w(n.description,80);r.push({kind:"Tool",name:w(n.name,60),detail:i,href:`/tools?tool=${encodeURIComponent(n.name)}`})}for(let n=P.rows.length-1;n>=0&&r.length<se&&o.length;n-=1){let i=P.rows[n],S=w(ae(i),80);s(`${i.tool} ${S} ${i.session}`)&&r.push({kind:"Call",name:w(i.tool,60),detail:S,href:`/activity?call=${i.seq}`})}return r.slice(0,se)}var O="hilt.theme",D=["system","light","dark"],b=c(D.includes(localStorage.getItem(O))?localStorage.getItem(O):"system");function le(){d(()=>{b.value==="system"?(localStorage.removeItem(O),delete document.documentElement.dataset.theme):(localStorage.setItem(O,b.value),document.documentElement.dataset.theme=b.value)})}var he={activity:()=>import("./activity-R3LIOHF3.js"),approvals:()=>import("./approvals-5P4S5FYT.js"),jobs:()=>import("./jobs-5WHKZQHQ.js"),changes:()=>import("./changes-PHHEQRJH.js"),tasks:()=>import("./tasks-GS3IQFO7.js"),agents:()=>import("./agents-ET6AXVR6.js"),tools:()=>import("./tools-3LP426PT.js"),metrics:()=>import("./metrics-O5AYGU4H.js"),audit:()=>import("./audit-T32HMJ2O.js"),settings:()=>import("./settings-RSSNTIYA.js")},j=x(()=>(J.value?.length??0)+(Q.value?.length??0)),C=c({}),m=c(null);d(()=>{let e=u.find(([t])=>t===R.value)[1];document.title=`${j.value?`(${j.value}) `:""}${e} \xB7 hilt`});Object.assign(v,{"Ctrl K":{label:"Find a page, tool or call",run:()=>m.value="palette"},"?":{label:"Show the keys",run:()=>m.value="keys"},a:{label:"Go to Approvals",run:()=>k("/approvals")},"/":{label:"Go to the filter",run:()=>document.querySelector("[data-filter]")?.focus()}});u.forEach(([e,t],o)=>{v[String((o+1)%10)]={label:t,run:()=>k(`/${e}`)}});async function ie(e){let t;try{t=(await he[e]()).default}catch{let o={message:"This part of the console cannot be loaded.",suggestion:"Reload the page."};t=()=>a`<${Y} error=${o} retry=${()=>location.reload()} />`}C.value={...C.value,[e]:t}}function ce(){let e=R.value,t=$(null),o=$(!0);h(()=>{C.value[e]||ie(e),o.current||t.current.focus(),o.current=!1,t.current.scrollTop=0},[e]),h(()=>{(window.requestIdleCallback??(n=>setTimeout(n,500)))(()=>u.forEach(([n])=>C.value[n]||ie(n)))},[]);let s=C.value[e];return a`
    <a class="skip" href="#main" onClick=${r=>(r.preventDefault(),t.current.focus())}>Skip to the page</a>
    <div class="shell">
      <div class="side">
        <p class="brand" aria-hidden="true">hilt</p>
        <nav aria-label="Pages">
          <ul>
            ${u.map(([r,n])=>a`<${ye} key=${r} id=${r} name=${n} />`)}
          </ul>
        </nav>
        <${ge} />
      </div>
      <main id="main" ref=${t} tabindex="-1">
        <${$e} />
        ${s?a`<${s} key=${e} />`:a`<${Z} />`}
      </main>
    </div>
    ${m.value==="palette"&&a`<${re} onClose=${()=>m.value=null} />`}
    ${m.value==="keys"&&a`<${ve} onClose=${()=>m.value=null} />`}
  `}function ye({id:e,name:t}){let o=e==="approvals"?j.value:0;return a`
    <li>
      <a href=${`/${e}`} aria-current=${R.value===e?"page":void 0}>
        ${t}${o>0&&a` <span class="badge">${o}</span>`}
      </a>
    </li>
  `}function ge(){let e={open:"Live",connecting:"Connecting",lost:"Not connected",refused:"Refused"};return a`
    <div class="side-foot">
      <p class=${`connection ${K.value}`} role="status">${e[K.value]}</p>
      <${z}
        label="Theme"
        value=${b.value}
        onInput=${t=>b.value=t}
        options=${D.map(t=>[t,t[0].toUpperCase()+t.slice(1)])}
      />
      <div class="side-buttons">
        <button type="button" class="small" onClick=${()=>m.value="palette"}>Find <kbd>Ctrl K</kbd></button>
        <button type="button" class="small" onClick=${()=>m.value="keys"}>Keys <kbd>?</kbd></button>
      </div>
    </div>
  `}function $e(){return K.value!=="lost"?null:a`
    <div class="lost" role="alert">
      The connection to hilt serve is lost; what you see may be out of date. It is tried again by itself.
      <button type="button" class="small" onClick=${W}>Try now</button>
    </div>
  `}function ve({onClose:e}){let[t]=g(te);return a`
    <${L} title="Keys" onClose=${e}>
      <dl class="keys">
        ${t.map(([o,s])=>a`<div key=${o}><dt><kbd>${o}</kbd></dt><dd>${s}</dd></div>`)}
      </dl>
      <label class="check">
        <input
          type="checkbox"
          checked=${E.value}
          onChange=${o=>E.value=o.currentTarget.checked}
        />
        Single keys work outside text fields
      </label>
    <//>
  `}function ue(){return a`
    <main class="alone">
      <h1>hilt</h1>
      <p>This page has no valid token, so it cannot show anything.</p>
      <p>
        Open the address that <code>hilt serve</code> prints in its first line: it ends with <code>#token=…</code>. If
        the server was started elsewhere, start <code>hilt serve</code> again in a terminal.
      </p>
    </main>
  `}le();N();ne();oe();A.value||V();document.body.replaceChildren();d(()=>F(A.value?a`<${ue} />`:a`<${ce} />`,document.body));
