import{a as ne}from"./chunk-YPEGLYAM.js";import{c as ee}from"./chunk-YWQIJVS4.js";import{a as F,b as D,d as Q,e as Y}from"./chunk-HTGBILJF.js";import{a as m,b as x,d as w,f as Z}from"./chunk-XJAJQ2GI.js";import{A as J,C as P,F as I,I as te,J as oe,b as O,c as $,d as h,f as b,g as j,h as q,i as y,j as B,k as v,l as n,m as K,n as L,o as T,p as N,q as H,s as W,t as V,u as E,v as M,w as X,x as _,z}from"./chunk-FAB6A7RB.js";import{b as d}from"./chunk-6DFJ27FF.js";import"./chunk-OOJM4CTU.js";var le=30;function ae({onClose:e}){let[t,l]=$(""),[i,s]=$(0),[o,r]=$([]),k=b(null),S=q();h(()=>{H.get("/v1/tools",V()).then(a=>r(a.tools),()=>{})},[]);let c=j(()=>pe(t,o),[t,o]),p=Math.min(i,c.length-1);h(()=>k.current?.children[p]?.scrollIntoView({block:"nearest"}),[p]);let G=a=>{e(),w(a.href)},ue=a=>{let f={ArrowDown:1,ArrowUp:-1}[a.key];if(f)s((p+f+c.length)%c.length||0);else if(a.key==="Enter"&&c[p])G(c[p]);else return;a.preventDefault()};return n`
    <${I} title="Find a page, tool or call" onClose=${e}>
      <input
        type="text"
        class="palette-input"
        role="combobox"
        aria-label="Find"
        aria-expanded="true"
        aria-controls=${S}
        aria-activedescendant=${c.length?`${S}-${p}`:void 0}
        autocomplete="off"
        spellcheck="false"
        data-first
        value=${t}
        onInput=${a=>(l(a.currentTarget.value),s(0))}
        onKeyDown=${ue}
      />
      <ul class="palette" role="listbox" id=${S} aria-label="Results" ref=${k}>
        ${c.map((a,f)=>n`
            <li
              key=${a.href}
              id=${`${S}-${f}`}
              role="option"
              aria-selected=${f===p}
              onClick=${()=>G(a)}
              onMouseMove=${()=>s(f)}
            >
              <span class="palette-kind">${a.kind}</span>
              <span class="palette-name">${a.name}</span>
              <span class="palette-detail">${a.detail}</span>
            </li>
          `)}
      </ul>
      ${!c.length&&n`<p class="muted">Nothing matches.</p>`}
    <//>
  `}function pe(e,t){let l=e.toLowerCase().split(/\s+/).filter(Boolean),i=o=>l.every(r=>o.toLowerCase().includes(r)),s=m.filter(([,o])=>i(o)).map(([o,r])=>({kind:"Page",name:r,detail:"",href:`/${o}`}));for(let o of t)if(l.length&&i(o.name)){let r=d(o.description,80);s.push({kind:"Tool",name:d(o.name,60),detail:r,href:`/tools?tool=${encodeURIComponent(o.name)}`})}for(let o=M.rows.length-1;o>=0&&s.length<le&&l.length;o-=1){let r=M.rows[o],k=d(ne(r),80);i(`${r.tool} ${k} ${r.session}`)&&s.push({kind:"Call",name:d(r.tool,60),detail:k,href:`/activity?call=${encodeURIComponent(r.key)}`})}return s.slice(0,le)}var R="hilt.theme",A=["system","light","dark"],g=y(A.includes(localStorage.getItem(R))?localStorage.getItem(R):"system");function se(){v(()=>{g.value==="system"?(localStorage.removeItem(R),delete document.documentElement.dataset.theme):(localStorage.setItem(R,g.value),document.documentElement.dataset.theme=g.value)})}var me={activity:()=>import("./activity-L6SSJRLD.js"),approvals:()=>import("./approvals-DIVW3VC6.js"),jobs:()=>import("./jobs-SQLPJ75K.js"),changes:()=>import("./changes-IKIC3XTR.js"),tasks:()=>import("./tasks-XUNQP7DD.js"),agents:()=>import("./agents-6OKD2VYF.js"),tools:()=>import("./tools-EYLZU72C.js"),metrics:()=>import("./metrics-NIYZYGVY.js"),audit:()=>import("./audit-YZ2VCGED.js"),settings:()=>import("./settings-23CZBZLC.js")},U=B(()=>(X.value?.length??0)+(_.value?.length??0)),C=y({}),u=y(null);v(()=>{let e=m.find(([t])=>t===x.value)[1];document.title=`${U.value?`(${U.value}) `:""}${e} \xB7 hilt`});Object.assign(D,{"Ctrl K":{label:"Find a page, tool or call",run:()=>u.value="palette"},"?":{label:"Show the keys",run:()=>u.value="keys"},a:{label:"Go to Approvals",run:()=>w("/approvals")},"/":{label:"Go to the filter",run:()=>document.querySelector("[data-filter]")?.focus()}});m.forEach(([e,t],l)=>{D[String((l+1)%10)]={label:t,run:()=>w(`/${e}`)}});async function re(e){let t;try{t=(await me[e]()).default}catch{let l={message:"This part of the console cannot be loaded.",suggestion:"Reload the page."};t=()=>n`<${te} error=${l} retry=${()=>location.reload()} />`}C.value={...C.value,[e]:t}}function ie(){let e=x.value,t=b(null),l=b(!0);h(()=>{C.value[e]||re(e),l.current||t.current.focus(),l.current=!1,t.current.scrollTop=0},[e]),h(()=>{(window.requestIdleCallback??(o=>setTimeout(o,500)))(()=>m.forEach(([o])=>C.value[o]||re(o)))},[]);let i=C.value[e];return n`
    <a class="skip" href="#main" onClick=${s=>(s.preventDefault(),t.current.focus())}>Skip to the page</a>
    <div class="shell">
      <header class="side">
        <p class="brand" aria-hidden="true">hilt</p>
        <nav aria-label="Pages">
          <ul>
            ${m.map(([s,o])=>n`<${de} key=${s} id=${s} name=${o} />`)}
          </ul>
        </nav>
        <${fe} />
      </header>
      <main id="main" ref=${t} tabindex="-1">
        <${he} />
        ${i?n`<${i} key=${`${e} ${L.value}`} />`:n`<${oe} />`}
      </main>
    </div>
    ${u.value==="palette"&&n`<${ae} onClose=${()=>u.value=null} />`}
    ${u.value==="keys"&&n`<${ve} onClose=${()=>u.value=null} />`}
  `}function de({id:e,name:t}){let l=e==="approvals"?U.value:0;return n`
    <li>
      <a href=${`/${e}`} aria-current=${x.value===e?"page":void 0}>
        ${t}${l>0&&n` <span class="badge">${l}</span>`}
      </a>
    </li>
  `}function fe(){let e={open:"Live",connecting:"Connecting",lost:"Not connected",refused:"Refused"};return n`
    <div class="side-foot">
      <p class=${`connection ${E.value}`} role="status">${e[E.value]}</p>
      <${$e} />
      <${P}
        label="Theme"
        value=${g.value}
        onInput=${t=>g.value=t}
        options=${A.map(t=>[t,t[0].toUpperCase()+t.slice(1)])}
      />
      <div class="side-buttons">
        <button type="button" class="small" onClick=${()=>u.value="palette"}>Find <kbd>Ctrl K</kbd></button>
        <button type="button" class="small" onClick=${()=>u.value="keys"}>Keys <kbd>?</kbd></button>
      </div>
    </div>
  `}function $e(){return T.value.length<2?null:n`
    <${P}
      label="Folder"
      value=${L.value??T.value[0]}
      onInput=${W}
      options=${T.value.map(e=>[e,d(e.split("/").filter(Boolean).slice(-2).join("/")||e,40)])}
    />
  `}function he(){return E.value!=="lost"?null:n`
    <div class="lost" role="alert">
      The connection to hilt serve is lost; what you see may be out of date. It is tried again by itself.
      <button type="button" class="small" onClick=${J}>Try now</button>
    </div>
  `}function ve({onClose:e}){let[t]=$(Q);return n`
    <${I} title="Keys" onClose=${e}>
      <dl class="keys">
        ${t.map(([l,i])=>n`<div key=${l}><dt><kbd>${l}</kbd></dt><dd>${i}</dd></div>`)}
      </dl>
      <label class="check">
        <input
          type="checkbox"
          checked=${F.value}
          onChange=${l=>F.value=l.currentTarget.checked}
        />
        Single keys work outside text fields
      </label>
    <//>
  `}function ce(){return n`
    <main class="alone">
      <h1>hilt</h1>
      <p>This page has no valid token, so it cannot show anything.</p>
      <p>
        Open the address that <code>hilt serve</code> prints in its first line: it ends with <code>#token=…</code>. If
        the server was started elsewhere, start <code>hilt serve</code> again in a terminal.
      </p>
    </main>
  `}se();N();Z();Y();K.value||(z(),ee());document.body.replaceChildren();v(()=>O(K.value?n`<${ce} />`:n`<${ie} />`,document.body));
