import{a as W,b as Q}from"./chunk-4V5474YP.js";import{a as F,c as K}from"./chunk-ZKM4YMDT.js";import{a as X}from"./chunk-HQXGF4V2.js";import{a as U}from"./chunk-EMKNZY2K.js";import"./chunk-KWNQ5HX6.js";import{C as I,G as H,I as V,J as R,K as G,M as q,O as J,c as w,d as E,e as _,f as g,g as B,h as O,l as s,q as L,r as M,w as N,x as T,y as j}from"./chunk-Y7Q4PVQ2.js";import{a as k,b as v}from"./chunk-LAGCCF5Y.js";import"./chunk-OOJM4CTU.js";var ee=2500,te=[["","until revoked"],["1h","for 1 hour"],["8h","for 8 hours"],["7d","for 7 days"]],Y={once:"Allowed once",always:"Always allowed",deny:"Denied",preview:"Preview wanted"},ne={approved:"Allowed",used:"Allowed",preview:"Preview wanted",denied:"Denied",answered:"Answered",expired:"Expired",withdrawn:"Withdrawn"};function se(){let{cards:e,settle:o}=re(),a=e.filter(({end:t})=>!t),[p,d]=w(null),c=a.find(({row:t})=>t.id===p)??a.find(({row:t})=>!t.questions)??a[0],r=c?.row.id??null;_(()=>{r!==p&&!c?.row.questions&&d(r)},[r]);let i=g(null);ie(i,r);let n=t=>{let l=i.current?.querySelector(`[data-card="${CSS.escape(t)}"]`);return l?.scrollIntoView({block:"nearest"}),l},$=g(!1);E(()=>{$.current&&r!==null&&n(r),$.current=!1},[r]);let u=g(new Map),m=t=>l=>{let f=u.current.get(r);!f||l.timeStamp<f.since||($.current=!0,f[t]?.())},h=t=>{let l=a.findIndex(({row:y})=>y.id===r),f=a[Math.max(0,Math.min(a.length-1,l+t))]?.row.id;f!==void 0&&(d(f),n(f)?.focus({preventScroll:!0}))};K({a:{label:"Allow once",run:m("once")},A:{label:"Always allow",run:m("always")},p:{label:"Preview first, if it is offered",run:m("preview")},d:{label:"Deny: type a reason, then Enter",run:m("deny")},j:{label:"Next card",run:()=>h(1)},k:{label:"Previous card",run:()=>h(-1)}});let S=N.value===null||T.value===null,C=a.findIndex(({row:t})=>t.id===r);return s`
    <${H} title="Approvals" actions=${s`<${oe} /><${ae} />`}>
      ${C>0&&s`<div class="newer-note"><button type="button" class="main" onClick=${()=>h(-C)}>${C} newer above</button></div>`}
      ${S&&s`<${G} />`}
      ${!S&&!e.length&&s`<${V} title="Nothing waits for you">
        Calls that need approval, and questions of agents, appear here while this page is open. What needs approval is
        set by rules: see the page Settings.
      <//>`}
      <div class="cards" ref=${i}>
        ${e.map(({row:t,end:l})=>{let f=t.questions?de:le,y=t.id===r;return s`<${f}
            key=${t.id}
            row=${t}
            end=${l}
            isCurrent=${y}
            onChoose=${()=>l||d(t.id)}
            onEnd=${x=>o(t.id,x)}
            actions=${u.current}
          />`})}
      </div>
    <//>
  `}function oe(){return F.value?s`<p class="hints muted">${[["a","allow once"],["A","always"],["d","deny"],["j","next"],["k","previous"]].map(([o,a])=>s`<span key=${o}><kbd>${o}</kbd> ${a}</span>`)}</p>`:null}function ae(){let e=W.value;return e==="blocked"?s`<span class="muted">The browser blocks notifications.</span>`:s`
    <label class="check">
      <input type="checkbox" checked=${e==="on"} onChange=${Q} />Notify me in other tabs
    </label>
  `}function re(){let[e,o]=w({}),a=g(new Map),p=(n,$)=>{o(u=>u[n]?u:{...u,[n]:$}),setTimeout(()=>{a.current.delete(n),o(({[n]:u,...m})=>m)},ee)},d=B(()=>N.value&&T.value?[...N.value,...T.value]:[],[N.value,T.value]),c=new Set(d.map(({id:n})=>n));for(let n of d)e[n.id]||a.current.set(n.id,n);let r=g({});return E(()=>j(["approval","question"],n=>{for(let{id:$,status:u,answered_by:m}of n)u!=="pending"&&(r.current[$]=`${ne[u]??u}${m?` by ${v(m,60)}`:""}`)}),[]),E(()=>{for(let n of a.current.keys())!c.has(n)&&!e[n]&&p(n,r.current[n]??"Answered elsewhere")},[d]),{cards:[...a.current.values()].map(n=>({row:n,end:e[n.id]})).sort((n,$)=>n.row.asked<$.row.asked?1:-1),settle:p}}function ie(e,o){let a=g(null),p=g(null),d=()=>e.current.closest("main"),c=i=>i&&e.current.querySelector(`[data-card="${CSS.escape(i)}"]`),r=()=>{let i=c(p.current)??c(o);a.current=i?{id:i.dataset.card,top:i.getBoundingClientRect().top}:null};_(()=>{let i=c(a.current?.id);i&&(d().scrollTop+=i.getBoundingClientRect().top-a.current.top),r()}),E(()=>{let i=d(),n=$=>{let u=$.target.closest?.("[data-card]");p.current=u&&e.current?.contains(u)?u.dataset.card:null,r()};return i.addEventListener("scroll",r,{passive:!0}),i.addEventListener("pointermove",n,{passive:!0}),()=>{i.removeEventListener("scroll",r),i.removeEventListener("pointermove",n)}},[o])}function z({row:e,name:o,title:a,end:p,isCurrent:d,onChoose:c,children:r}){let i=e.workspace?e.workspace.split("/").filter(Boolean).at(-1):"";return s`
    <article
      class=${`card${d?" current":""}${p?" leaving":""}`}
      aria-label=${o}
      aria-current=${d?"true":void 0}
      data-card=${e.id}
      tabindex="-1"
      onFocusIn=${c}
      onPointerDown=${c}
    >
      <header class="card-head">
        <h2>${a}</h2>
        <p class="card-who muted">
          ${e.client&&s`${v(e.client,60)}, `}${e.agent?"agent":"session"} <span class="mono">${v(e.session,60)}</span>
          ${i&&s` in <span class="mono" title=${k(e.workspace)}>${v(i,60)}</span>`}
        </p>
        <span class="card-time muted"><${J} at=${e.asked} /></span>
      </header>
      ${r}
      ${p&&s`<p class="card-end" role="status">${p}</p>`}
    </article>
  `}var Z={dangerous:"bad",caution:"warn",safe:"good"};function le({row:e,end:o,isCurrent:a,onChoose:p,onEnd:d,actions:c}){let[r,i]=w(""),[n,$]=w(""),[u,m]=w(null),[h,S]=w(!1),C=g(null),t=e.rules.length>0,l=async b=>{if(!(h||o||b==="always"&&!t)){S(!0),m(null);try{let A=b==="always"&&n?{for:n}:{};await L.post(M("/v1/approvals",e.id),{answer:b,...r?{reason:r}:{},...A}),d(`${Y[b]} by you`)}catch(A){A.status===409?d(A.first?`${Y[A.first.answer]??"Answered"} by ${v(A.first.by,60)}`:"Expired"):m(A)}S(!1)}},f=g(performance.now());E(()=>(c.set(e.id,{since:f.current,once:()=>l("once"),always:()=>l("always"),preview:()=>e.preview&&l("preview"),deny:()=>C.current?.focus()}),()=>c.delete(e.id)));let y=b=>A=>A.detail<2&&l(b),x=b=>{b.key!=="Enter"||b.isComposing||(b.preventDefault(),l("deny"))};return s`
    <${z} row=${e} name=${v(e.tool,100)} title=${v(e.tool,100)} end=${o} isCurrent=${a} onChoose=${p}>
      <p class="card-reason">
        ${e.risk&&s`<span class=${`tag ${Z[e.risk]??""}`}>${v(e.risk,20)}</span> `}${k(e.reason)}
      </p>
      <${ce} row=${e} />
      ${t&&s`<p class="card-rules">
        <span class="muted">“Always allow” stores:</span>${" "}
        ${e.rules.map(b=>s`<code key=${b}>${v(b,300)}</code> `)}
      </p>`}
      <${R} error=${u} />
      <div class="card-answer" inert=${!!o}>
        <${I}
          label="Reason"
          placeholder="For the agent, optional; Enter denies"
          maxlength="2000"
          value=${r}
          onInput=${i}
          inputRef=${C}
          onKeyDown=${x}
        />
        <div class="buttons">
          <button type="button" class="main" disabled=${h} onClick=${y("once")}>Allow once</button>
          <button type="button" disabled=${h||!t} title=${t?"":"Not offered for this call"} onClick=${y("always")}>Always allow</button>
          ${t&&s`<${I} label="How long to always allow" hidden value=${n} onInput=${$} options=${te} />`}
          ${e.preview&&s`<button type="button" disabled=${h} onClick=${y("preview")}>Preview first</button>`}
          <button type="button" class="danger" disabled=${h} onClick=${y("deny")}>Deny</button>
        </div>
      </div>
    <//>
  `}function ce({row:e}){let o=B(()=>X(e.diff),[e.diff]),a=e.command||o;return s`
    ${e.command&&s`<${ue} row=${e} />`}
    ${e.diff&&!o&&s`<p class="mono">${v(e.diff,2e3)}</p>`}
    ${o&&s`<${U} view=${o} />`}
    ${a?s`<details><summary>Arguments</summary><${q} value=${e.arguments} label="Arguments" /></details>`:s`<${q} value=${e.arguments} label="Arguments" />`}
  `}var P=2e4;function ue({row:{command:e,part:o,risk:a,risk_reason:p}}){let d=e.length>P?`${e.slice(0,P)}\u2026`:e,c=o&&a!=="safe"?d.indexOf(o):-1;return s`
    <pre class="command" tabindex="0" role="group" aria-label="Command">${c<0?k(d):s`${k(d.slice(0,c))}<mark class="risky">${k(o)}</mark>${k(d.slice(c+o.length))}`}</pre>
    ${p&&s`<p class=${Z[a]??""}>${v(p,500)}</p>`}
    ${e.length>P&&s`<p class="warn">The command has ${e.length.toLocaleString()} characters; only its start is shown.</p>`}
  `}var D="\0own";function de({row:e,end:o,isCurrent:a,onChoose:p,onEnd:d}){let[c,r]=w({}),[i,n]=w({}),[$,u]=w(null),m=({question:t,multi_select:l})=>{let f=c[t],y=i[t]?.trim()??"";return l?[...f??[]].map(x=>x===D?y:x).filter(Boolean):f===D?y:f??""},h=e.questions.filter(t=>!m(t).length),S=async t=>{if(t.preventDefault(),!o){if(h.length){u({message:`Not answered yet: ${v(h[0].question,200)}`});return}u(null);try{let l={answers:Object.fromEntries(e.questions.map(f=>[f.question,m(f)]))};await L.post(M("/v1/questions",e.id),l),d("Answered by you")}catch(l){l.status===409?d(l.first?.by?`Answered by ${v(l.first.by,60)}`:"No longer asked"):u(l)}}},C=(t,l,f)=>{if(!t.multi_select)r({...c,[t.question]:l});else{let y=new Set(c[t.question]??[]);f?y.add(l):y.delete(l),r({...c,[t.question]:y})}};return s`
    <${z} row=${e} name="Question" title="Question" end=${o} isCurrent=${a} onChoose=${p}>
      <form onSubmit=${S} inert=${!!o}>
        ${e.questions.map(t=>s`
            <${$e}
              key=${t.question}
              question=${t}
              chosen=${c[t.question]}
              text=${i[t.question]??""}
              onChoose=${C}
              onText=${l=>{n({...i,[t.question]:l}),C(t,D,!0)}}
            />
          `)}
        <${R} error=${$} />
        <div class="buttons"><button type="submit" class="main">Answer</button></div>
      </form>
    <//>
  `}function $e({question:e,chosen:o,text:a,onChoose:p,onText:d}){let c=O(),r=e.multi_select?"checkbox":"radio",i=$=>e.multi_select?!!o?.has($):o===$,n=$=>u=>p(e,$,u.currentTarget.checked);return s`
    <fieldset>
      <legend>${e.header&&s`<span class="tag">${v(e.header,40)}</span> `}${k(e.question)}</legend>
      ${e.options.map(({label:$,description:u},m)=>{let h=u?`${c}-${m}`:void 0;return s`
          <div key=${$} class="choice">
            <label class="check">
              <input type=${r} name=${c} checked=${i($)} aria-describedby=${h} onChange=${n($)} />
              ${k($)}
            </label>
            ${u&&s`<p class="hint" id=${h}>${k(u)}</p>`}
          </div>
        `})}
      <div class="choice own">
        <label class="check">
          <input type=${r} name=${c} checked=${i(D)} onChange=${n(D)} />In your own words
        </label>
        <${I} label="Your own words" hidden value=${a} onInput=${d} maxlength="2000" />
      </div>
    </fieldset>
  `}export{se as default};
