import{a as W,b as Q}from"./chunk-EERM7YHQ.js";import{a as F,c as K}from"./chunk-C3EUQ6DP.js";import{a as X}from"./chunk-HQXGF4V2.js";import{a as U}from"./chunk-42ZGUE6R.js";import"./chunk-RYPRQTRN.js";import{C as I,G as H,I as V,J as R,K as G,M as P,O as J,c as g,d as x,e as _,f as k,g as B,h as q,l as s,q as L,r as M,w as T,x as D,y as j}from"./chunk-ZUDFSCJ6.js";import{a as C,b as h}from"./chunk-JDG66FB4.js";import"./chunk-OOJM4CTU.js";var ee=3500,te=[["","until revoked"],["1h","for 1 hour"],["8h","for 8 hours"],["7d","for 7 days"]],Y={once:"Allowed once",always:"Always allowed",deny:"Denied",preview:"Preview wanted"},ne={approved:"Allowed",preview:"Preview wanted",used:"Allowed",denied:"Denied",answered:"Answered",expired:"Expired",withdrawn:"Withdrawn"};function se(){let{cards:e,settle:a}=re(),r=e.filter(({end:$})=>!$),[f,u]=g(null),n=(r.find(({row:$})=>$.id===f)??r[0])?.row.id??null;_(()=>{n!==f&&u(n)},[n]);let p=k(null);ce(p,n);let c=$=>{let o=p.current?.querySelector(`[data-card="${CSS.escape($)}"]`);return o?.scrollIntoView({block:"nearest"}),o},t=k(!1);x(()=>{t.current&&n!==null&&c(n),t.current=!1},[n]);let d=k(new Map),i=$=>o=>{let l=d.current.get(n);!l||o.timeStamp<l.since||(t.current=!0,l[$]?.())},m=$=>{let o=r.findIndex(({row:v})=>v.id===n),l=r[Math.max(0,Math.min(r.length-1,o+$))]?.row.id;l!==void 0&&(u(l),c(l)?.focus({preventScroll:!0}))};K({a:{label:"Allow once",run:i("once")},A:{label:"Always allow",run:i("always")},p:{label:"Preview first, if it is offered",run:i("preview")},d:{label:"Deny: type a reason, then Enter",run:i("deny")},j:{label:"Next card",run:()=>m(1)},k:{label:"Previous card",run:()=>m(-1)}});let y=T.value===null||D.value===null,S=r.findIndex(({row:$})=>$.id===n);return s`
    <${H} title="Approvals" actions=${s`<${oe} /><${ae} />`}>
      ${S>0&&s`<div class="newer-note"><button type="button" class="main" onClick=${()=>m(-S)}>${S} newer above</button></div>`}
      ${y&&s`<${G} />`}
      ${!y&&!e.length&&s`<${V} title="Nothing waits for you">
        Calls that need approval, and questions of agents, appear here while this page is open. What needs approval is
        set by rules: see the page Settings.
      <//>`}
      <div class="cards" ref=${p}>
        ${e.map(({row:$,end:o})=>{let l=$.questions?de:le,v=$.id===n;return s`<${l}
            key=${$.id}
            row=${$}
            end=${o}
            isCurrent=${v}
            onChoose=${()=>o||u($.id)}
            onEnd=${b=>a($.id,b)}
            actions=${d.current}
          />`})}
      </div>
    <//>
  `}function oe(){return F.value?s`<p class="hints muted">${[["a","allow once"],["A","always"],["d","deny"],["j","next"],["k","previous"]].map(([a,r])=>s`<span key=${a}><kbd>${a}</kbd> ${r}</span>`)}</p>`:null}function ae(){let e=W.value;return e==="blocked"?s`<span class="muted">The browser blocks notifications.</span>`:s`
    <label class="check">
      <input type="checkbox" checked=${e==="on"} onChange=${Q} />Notify me in other tabs
    </label>
  `}function re(){let[e,a]=g({}),r=k(new Map),f=(t,d)=>{a(i=>i[t]?i:{...i,[t]:d}),setTimeout(()=>{r.current.delete(t),a(({[t]:i,...m})=>m)},ee)},u=B(()=>[...T.value??[],...D.value??[]],[T.value,D.value]),n=new Set(u.map(({id:t})=>t));for(let t of u)e[t.id]||r.current.set(t.id,t);let p=k({});return x(()=>j(["approval","question"],t=>{for(let{id:d,status:i,answered_by:m}of t)i!=="pending"&&(p.current[d]=`${ne[i]??i}${m?` by ${h(m,60)}`:""}`)}),[]),x(()=>{for(let t of r.current.keys())!n.has(t)&&!e[t]&&f(t,p.current[t]??"Answered elsewhere")},[u]),{cards:[...r.current.values()].map(t=>({row:t,end:e[t.id]})).sort((t,d)=>t.row.asked<d.row.asked?1:-1),settle:f}}function ce(e,a){let r=k(null),f=k(null),u=()=>e.current.closest("main"),n=c=>c&&e.current.querySelector(`[data-card="${CSS.escape(c)}"]`),p=()=>{let c=n(f.current)??n(a);r.current=c?{id:c.dataset.card,top:c.getBoundingClientRect().top}:null};_(()=>{let c=n(r.current?.id);c&&(u().scrollTop+=c.getBoundingClientRect().top-r.current.top),p()}),x(()=>{let c=u(),t=d=>{let i=d.target.closest?.("[data-card]");f.current=i&&e.current?.contains(i)?i.dataset.card:null,p()};return c.addEventListener("scroll",p,{passive:!0}),c.addEventListener("pointermove",t,{passive:!0}),()=>{c.removeEventListener("scroll",p),c.removeEventListener("pointermove",t)}},[a])}function z({row:e,name:a,title:r,end:f,isCurrent:u,onChoose:n,children:p}){let c=e.workspace?e.workspace.split("/").filter(Boolean).at(-1):"";return s`
    <article
      class=${`card${u?" current":""}${f?" leaving":""}`}
      aria-label=${a}
      aria-current=${u?"true":void 0}
      data-card=${e.id}
      tabindex="-1"
      onFocusIn=${n}
      onPointerDown=${n}
    >
      <header class="card-head">
        <h2>${r}</h2>
        <p class="card-who muted">
          ${e.client&&s`${h(e.client,60)}, `}${e.agent?"agent":"session"} <span class="mono">${h(e.session,60)}</span>
          ${c&&s` in <span class="mono" title=${C(e.workspace)}>${h(c,60)}</span>`}
        </p>
        <span class="card-time muted"><${J} at=${e.asked} /></span>
      </header>
      ${p}
      ${f&&s`<p class="card-end" role="status">${f}</p>`}
    </article>
  `}var Z={dangerous:"bad",caution:"warn",safe:"good"};function le({row:e,end:a,isCurrent:r,onChoose:f,onEnd:u,actions:n}){let[p,c]=g(""),[t,d]=g(""),[i,m]=g(null),[y,S]=g(!1),$=k(null),o=e.rules.length>0,l=async w=>{if(!(y||a||w==="always"&&!o)){S(!0),m(null);try{let A=w==="always"&&t?{for:t}:{};await L.post(M("/v1/approvals",e.id),{answer:w,...p?{reason:p}:{},...A}),u(`${Y[w]} by you`)}catch(A){A.status===409?u(A.first?`${Y[A.first.answer]??"Answered"} by ${h(A.first.by,60)}`:"Expired"):m(A)}S(!1)}},v=k(performance.now());x(()=>(n.set(e.id,{since:v.current,once:()=>l("once"),always:()=>l("always"),preview:()=>e.preview&&l("preview"),deny:()=>$.current?.focus()}),()=>n.delete(e.id)));let b=w=>A=>A.detail<2&&l(w),N=w=>{w.key!=="Enter"||w.isComposing||(w.preventDefault(),l("deny"))};return s`
    <${z} row=${e} name=${h(e.tool,100)} title=${h(e.tool,100)} end=${a} isCurrent=${r} onChoose=${f}>
      <p class="card-reason">
        ${e.risk&&s`<span class=${`tag ${Z[e.risk]??""}`}>${h(e.risk,20)}</span> `}${C(e.reason)}
      </p>
      <${ie} row=${e} />
      ${o&&s`<p class="card-rules">
        <span class="muted">“Always allow” stores:</span>${" "}
        ${e.rules.map(w=>s`<code key=${w}>${h(w,300)}</code> `)}
      </p>`}
      <${R} error=${i} />
      <div class="card-answer" inert=${!!a}>
        <${I} label="Reason" value=${p} onInput=${c} inputRef=${$} maxlength="2000" placeholder="For the agent, optional; Enter denies" onKeyDown=${N} />
        <div class="buttons">
          <button type="button" class="main" disabled=${y} onClick=${b("once")}>Allow once</button>
          <button type="button" disabled=${y||!o} title=${o?"":"Not offered for this call"} onClick=${b("always")}>Always allow</button>
          ${o&&s`<${I} label="How long to always allow" hidden value=${t} onInput=${d} options=${te} />`}
          ${e.preview&&s`<button type="button" disabled=${y} onClick=${b("preview")}>Preview first</button>`}
          <button type="button" class="danger" disabled=${y} onClick=${b("deny")}>Deny</button>
        </div>
      </div>
    <//>
  `}function ie({row:e}){let a=B(()=>X(e.diff),[e.diff]),r=e.command||a;return s`
    ${e.command&&s`<${ue} row=${e} />`}
    ${e.diff&&!a&&s`<p class="mono">${h(e.diff,2e3)}</p>`}
    ${a&&s`<${U} view=${a} />`}
    ${r?s`<details><summary>Arguments</summary><${P} value=${e.arguments} label="Arguments" /></details>`:s`<${P} value=${e.arguments} label="Arguments" />`}
  `}var O=2e4;function ue({row:{command:e,part:a,risk:r,risk_reason:f}}){let u=e.length>O?`${e.slice(0,O)}\u2026`:e,n=a&&r!=="safe"?u.indexOf(a):-1;return s`
    <pre class="command" tabindex="0" role="group" aria-label="Command">${n<0?C(u):s`${C(u.slice(0,n))}<mark class="risky">${C(a)}</mark>${C(u.slice(n+a.length))}`}</pre>
    ${f&&s`<p class=${Z[r]??""}>${h(f,500)}</p>`}
    ${e.length>O&&s`<p class="warn">The command has ${e.length.toLocaleString()} characters; only its start is shown.</p>`}
  `}var E="\0own";function de({row:e,end:a,isCurrent:r,onChoose:f,onEnd:u}){let[n,p]=g({}),[c,t]=g({}),[d,i]=g(null),m=({question:o,multi_select:l})=>{let v=n[o],b=c[o]?.trim()??"";return l?[...v??[]].map(N=>N===E?b:N).filter(Boolean):v===E?b:v??""},y=e.questions.filter(o=>!m(o).length),S=async o=>{if(o.preventDefault(),!a){if(y.length){i({message:`Not answered yet: ${h(y[0].question,200)}`});return}i(null);try{let l={answers:Object.fromEntries(e.questions.map(v=>[v.question,m(v)]))};await L.post(M("/v1/questions",e.id),l),u("Answered by you")}catch(l){l.status===409?u(l.first?.by?`Answered by ${h(l.first.by,60)}`:"No longer asked"):i(l)}}},$=(o,l,v)=>{if(!o.multi_select)p({...n,[o.question]:l});else{let b=new Set(n[o.question]??[]);v?b.add(l):b.delete(l),p({...n,[o.question]:b})}};return s`
    <${z} row=${e} name="Question" title="Question" end=${a} isCurrent=${r} onChoose=${f}>
      <form onSubmit=${S} inert=${!!a}>
        ${e.questions.map(o=>s`
            <${$e}
              key=${o.question}
              question=${o}
              chosen=${n[o.question]}
              text=${c[o.question]??""}
              onChoose=${$}
              onText=${l=>{t({...c,[o.question]:l}),$(o,E,!0)}}
            />
          `)}
        <${R} error=${d} />
        <div class="buttons"><button type="submit" class="main">Answer</button></div>
      </form>
    <//>
  `}function $e({question:e,chosen:a,text:r,onChoose:f,onText:u}){let n=q(),p=e.multi_select?"checkbox":"radio",c=d=>e.multi_select?!!a?.has(d):a===d,t=d=>i=>f(e,d,i.currentTarget.checked);return s`
    <fieldset>
      <legend>${e.header&&s`<span class="tag">${h(e.header,40)}</span> `}${C(e.question)}</legend>
      ${e.options.map(({label:d,description:i},m)=>{let y=i?`${n}-${m}`:void 0;return s`
          <div key=${d} class="choice">
            <label class="check">
              <input type=${p} name=${n} checked=${c(d)} aria-describedby=${y} onChange=${t(d)} />
              ${C(d)}
            </label>
            ${i&&s`<p class="hint" id=${y}>${C(i)}</p>`}
          </div>
        `})}
      <div class="choice own">
        <label class="check">
          <input type=${p} name=${n} checked=${c(E)} onChange=${t(E)} />In your own words
        </label>
        <${I} label="Your own words" hidden value=${r} onInput=${u} maxlength="2000" />
      </div>
    </fieldset>
  `}export{se as default};
