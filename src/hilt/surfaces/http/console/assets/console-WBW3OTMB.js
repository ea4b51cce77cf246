import{a as K,b as I,d as H,e as V}from"./chunk-5ZWY3SRT.js";import{a as Y,b as M,c as Z}from"./chunk-DWIDVHX2.js";import{a as d,b as T,d as g,f as W}from"./chunk-74KR7TKE.js";import{D as J,E as Q,b as P,c as m,d as $,e as v,f as q,g as D,h as x,i as F,j as w,k as l,l as E,m as G,n as O,p as U,q as C,r as L,s as j,t as N,u as _,v as B,x as z,z as S}from"./chunk-2H5QD3Y5.js";import{b as k,e as X}from"./chunk-PHU6BNSR.js";import"./chunk-OOJM4CTU.js";var re=["command","path","paths","file","pattern","query","url","prompt","question","title","name","id","patch"];function ee({args:e}){if(!e||typeof e!="object")return"";let t=re.find(s=>e[s]!==void 0&&e[s]!==null&&e[s]!=="")??Object.keys(e)[0];if(t===void 0)return"";let o=e[t];return typeof o=="string"?o:X(o)}var te=30;function oe({onClose:e}){let[t,o]=m(""),[s,r]=m(0),[n,i]=m([]),h=v(null),y=D();$(()=>{O.get("/v1/tools",U()).then(a=>i(a.tools),()=>{})},[]);let c=q(()=>ie(t,n),[t,n]),p=Math.min(s,c.length-1);$(()=>h.current?.children[p]?.scrollIntoView({block:"nearest"}),[p]);let A=a=>{e(),g(a.href)},se=a=>{let f={ArrowDown:1,ArrowUp:-1}[a.key];if(f)r((p+f+c.length)%c.length||0);else if(a.key==="Enter"&&c[p])A(c[p]);else return;a.preventDefault()};return l`
    <${S} title="Find a page, tool or call" onClose=${e}>
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
        autofocus
        value=${t}
        onInput=${a=>(o(a.currentTarget.value),r(0))}
        onKeyDown=${se}
      />
      <ul class="palette" role="listbox" id=${y} aria-label="Results" ref=${h}>
        ${c.map((a,f)=>l`
            <li
              key=${a.href}
              id=${`${y}-${f}`}
              role="option"
              aria-selected=${f===p}
              onClick=${()=>A(a)}
              onMouseMove=${()=>r(f)}
            >
              <span class="palette-kind">${a.kind}</span>
              <span class="palette-name">${a.name}</span>
              <span class="palette-detail">${a.detail}</span>
            </li>
          `)}
      </ul>
      ${!c.length&&l`<p class="muted">Nothing matches.</p>`}
    <//>
  `}function ie(e,t){let o=e.toLowerCase().split(/\s+/).filter(Boolean),s=n=>o.every(i=>n.toLowerCase().includes(i)),r=d.filter(([,n])=>s(n)).map(([n,i])=>({kind:"Page",name:i,detail:"",href:`/${n}`}));for(let n of t)if(o.length&&s(n.name)){let i=k(n.description,80);r.push({kind:"Tool",name:k(n.name,60),detail:i,href:`/tools?tool=${encodeURIComponent(n.name)}`})}for(let n=L.rows.length-1;n>=0&&r.length<te&&o.length;n-=1){let i=L.rows[n],h=k(ee(i),80);s(`${i.tool} ${h} ${i.session}`)&&r.push({kind:"Call",name:k(i.tool,60),detail:h,href:`/activity?call=${i.seq}`})}return r.slice(0,te)}var ce={activity:()=>import("./activity-2LW4EWLP.js"),approvals:()=>import("./approvals-MVN7P3RL.js"),jobs:()=>import("./jobs-7ODRVNFH.js"),changes:()=>import("./changes-THNZCIQH.js"),tasks:()=>import("./tasks-OOEH4QZ6.js"),agents:()=>import("./agents-OVFXCELK.js"),tools:()=>import("./tools-CWMXQHPQ.js"),metrics:()=>import("./metrics-AWBZ3PCT.js"),audit:()=>import("./audit-CLXGBYSI.js"),settings:()=>import("./settings-ONXZKXHJ.js")},R=F(()=>(j.value?.length??0)+(N.value?.length??0)),b=x({}),u=x(null);w(()=>{let e=d.find(([t])=>t===T.value)[1];document.title=`${R.value?`(${R.value}) `:""}${e} \xB7 hilt`});Object.assign(I,{"Ctrl K":{label:"Find a page, tool or call",run:()=>u.value="palette"},"?":{label:"Show the keys",run:()=>u.value="keys"},a:{label:"Go to Approvals",run:()=>g("/approvals")},"/":{label:"Go to the filter",run:()=>document.querySelector("[data-filter]")?.focus()}});d.forEach(([e,t],o)=>{I[String((o+1)%10)]={label:t,run:()=>g(`/${e}`)}});async function ne(e){let t;try{t=(await ce[e]()).default}catch{let o={message:"This part of the console cannot be loaded.",suggestion:"Reload the page."};t=()=>l`<${J} error=${o} retry=${()=>location.reload()} />`}b.value={...b.value,[e]:t}}function le(){let e=T.value,t=v(null),o=v(!0);$(()=>{b.value[e]||ne(e),o.current||t.current.focus(),o.current=!1,t.current.scrollTop=0},[e]),$(()=>{(window.requestIdleCallback??(n=>setTimeout(n,500)))(()=>d.forEach(([n])=>b.value[n]||ne(n)))},[]);let s=b.value[e];return l`
    <a class="skip" href="#main" onClick=${r=>(r.preventDefault(),t.current.focus())}>Skip to the page</a>
    <div class="shell">
      <div class="side">
        <p class="brand" aria-hidden="true">hilt</p>
        <nav aria-label="Pages">
          <ul>
            ${d.map(([r,n])=>l`<${ue} key=${r} id=${r} name=${n} />`)}
          </ul>
        </nav>
        <${pe} />
      </div>
      <main id="main" ref=${t} tabindex="-1">
        <${de} />
        ${s?l`<${s} key=${e} />`:l`<${Q} />`}
      </main>
    </div>
    ${u.value==="palette"&&l`<${oe} onClose=${()=>u.value=null} />`}
    ${u.value==="keys"&&l`<${fe} onClose=${()=>u.value=null} />`}
  `}function ue({id:e,name:t}){let o=e==="approvals"?R.value:0;return l`
    <li>
      <a href=${`/${e}`} aria-current=${T.value===e?"page":void 0}>
        ${t}${o>0&&l` <span class="badge">${o}</span>`}
      </a>
    </li>
  `}function pe(){let e={open:"Live",connecting:"Connecting",lost:"Not connected",refused:"Refused"};return l`
    <div class="side-foot">
      <p class=${`connection ${C.value}`} role="status">${e[C.value]}</p>
      <${z}
        label="Theme"
        value=${M.value}
        onInput=${t=>M.value=t}
        options=${Y.map(t=>[t,t[0].toUpperCase()+t.slice(1)])}
      />
      <div class="side-buttons">
        <button type="button" class="small" onClick=${()=>u.value="palette"}>Find <kbd>Ctrl K</kbd></button>
        <button type="button" class="small" onClick=${()=>u.value="keys"}>Keys <kbd>?</kbd></button>
      </div>
    </div>
  `}function de(){return C.value!=="lost"?null:l`
    <div class="lost" role="alert">
      The connection to hilt serve is lost; what you see may be out of date. It is tried again by itself.
      <button type="button" class="small" onClick=${B}>Try now</button>
    </div>
  `}function fe({onClose:e}){let[t]=m(H);return l`
    <${S} title="Keys" onClose=${e}>
      <dl class="keys">
        ${t.map(([o,s])=>l`<div key=${o}><dt><kbd>${o}</kbd></dt><dd>${s}</dd></div>`)}
      </dl>
      <label class="check">
        <input
          type="checkbox"
          checked=${K.value}
          onChange=${o=>K.value=o.currentTarget.checked}
        />
        Single keys work outside text fields
      </label>
    <//>
  `}function ae(){return l`
    <main class="alone">
      <h1>hilt</h1>
      <p>This page has no valid token, so it cannot show anything.</p>
      <p>
        Open the address that <code>hilt serve</code> prints in its first line: it ends with <code>#token=…</code>. If
        the server was started elsewhere, start <code>hilt serve</code> again in a terminal.
      </p>
    </main>
  `}Z();G();W();V();E.value||_();document.body.replaceChildren();w(()=>P(E.value?l`<${ae} />`:l`<${le} />`,document.body));
