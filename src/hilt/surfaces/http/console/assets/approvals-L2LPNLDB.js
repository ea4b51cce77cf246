import{a as W,b as Q}from"./chunk-4V5474YP.js";import{a as F,c as K}from"./chunk-ZKM4YMDT.js";import{a as X}from"./chunk-HQXGF4V2.js";import{a as U}from"./chunk-EMKNZY2K.js";import"./chunk-KWNQ5HX6.js";import{C as I,G as H,I as V,J as R,K as G,M as q,O as J,c as w,d as E,e as _,f as g,g as B,h as O,l as s,q as L,r as M,w as T,x as D,y as j}from"./chunk-Y7Q4PVQ2.js";import{a as k,b as v}from"./chunk-LAGCCF5Y.js";import"./chunk-OOJM4CTU.js";var ee=2500,te=[["","until revoked"],["1h","for 1 hour"],["8h","for 8 hours"],["7d","for 7 days"]],Y={once:"Allowed once",always:"Always allowed",deny:"Denied",preview:"Preview wanted"},ne={approved:"Allowed",used:"Allowed",preview:"Preview wanted",denied:"Denied",answered:"Answered",expired:"Expired",withdrawn:"Withdrawn"};function se(){let{cards:e,settle:o}=re(),a=e.filter(({end:t})=>!t),[p,d]=w(null),l=a.find(({row:t})=>t.id===p)??a.find(({row:t})=>!t.questions)??a[0],r=l?.row.id??null;_(()=>{r!==p&&!l?.row.questions&&d(r)},[r]);let i=g(null);ie(i,r);let n=t=>{let c=i.current?.querySelector(`[data-card="${CSS.escape(t)}"]`);return c?.scrollIntoView({block:"nearest"}),c},$=g(!1);E(()=>{$.current&&r!==null&&n(r),$.current=!1},[r]);let u=g(new Map),m=t=>c=>{let f=u.current.get(r);!f||c.timeStamp<f.since||($.current=!0,f[t]?.())},h=t=>{let c=a.findIndex(({row:y})=>y.id===r),f=a[Math.max(0,Math.min(a.length-1,c+t))]?.row.id;f!==void 0&&(d(f),n(f)?.focus({preventScroll:!0}))};K({a:{label:"Allow once",run:m("once")},A:{label:"Always allow",run:m("always")},p:{label:"Preview first, if it is offered",run:m("preview")},d:{label:"Deny: type a reason, then Enter",run:m("deny")},j:{label:"Next card",run:()=>h(1)},k:{label:"Previous card",run:()=>h(-1)}});let S=T.value===null||D.value===null,C=a.findIndex(({row:t})=>t.id===r);return s`
    <${H} title="Approvals" actions=${s`<${oe} /><${ae} />`}>
      ${C>0&&s`<div class="newer-note"><button type="button" class="main" onClick=${()=>h(-C)}>${C} newer above</button></div>`}
      ${S&&s`<${G} />`}
      ${!S&&!e.length&&s`<${V} title="Nothing waits for you">
        Calls that need approval, and questions of agents, appear here while this page is open. What needs approval is
        set by rules: see the page Settings.
      <//>`}
      <div class="cards" ref=${i}>
        ${e.map(({row:t,end:c})=>{let f=t.questions?de:ce,y=t.id===r;return s`<${f}
            key=${t.id}
            row=${t}
            end=${c}
            isCurrent=${y}
            onChoose=${()=>c||d(t.id)}
            onEnd=${x=>o(t.id,x)}
            actions=${u.current}
          />`})}
      </div>
    <//>
  `}function oe(){return F.value?s`<p class="hints muted">${[["a","allow once"],["A","always"],["d","deny"],["j","next"],["k","previous"]].map(([o,a])=>s`<span key=${o}><kbd>${o}</kbd> ${a}</span>`)}</p>`:null}function ae(){let e=W.value;return e==="blocked"?s`<span class="muted">The browser blocks notifications.</span>`:s`
    <label class="check">
      <input type="checkbox" checked=${e==="on"} onChange=${Q} />Notify me in other tabs
    </label>
  `}function re(){let[e,o]=w({}),a=g(new Map),p=(n,$)=>{o(u=>u[n]?u:{...u,[n]:$}),setTimeout(()=>{a.current.delete(n),o(({[n]:u,...m})=>m)},ee)},d=B(()=>[...T.value??[],...D.value??[]],[T.value,D.value]),l=new Set(d.map(({id:n})=>n));for(let n of d)e[n.id]||a.current.set(n.id,n);let r=g({});return E(()=>j(["approval","question"],n=>{for(let{id:$,status:u,answered_by:m}of n)u!=="pending"&&(r.current[$]=`${ne[u]??u}${m?` by ${v(m,60)}`:""}`)}),[]),E(()=>{for(let n of a.current.keys())!l.has(n)&&!e[n]&&p(n,r.current[n]??"Answered elsewhere")},[d]),{cards:[...a.current.values()].map(n=>({row:n,end:e[n.id]})).sort((n,$)=>n.row.asked<$.row.asked?1:-1),settle:p}}function ie(e,o){let a=g(null),p=g(null),d=()=>e.current.closest("main"),l=i=>i&&e.current.querySelector(`[data-card="${CSS.escape(i)}"]`),r=()=>{let i=l(p.current)??l(o);a.current=i?{id:i.dataset.card,top:i.getBoundingClientRect().top}:null};_(()=>{let i=l(a.current?.id);i&&(d().scrollTop+=i.getBoundingClientRect().top-a.current.top),r()}),E(()=>{let i=d(),n=$=>{let u=$.target.closest?.("[data-card]");p.current=u&&e.current?.contains(u)?u.dataset.card:null,r()};return i.addEventListener("scroll",r,{passive:!0}),i.addEventListener("pointermove",n,{passive:!0}),()=>{i.removeEventListener("scroll",r),i.removeEventListener("pointermove",n)}},[o])}function z({row:e,name:o,title:a,end:p,isCurrent:d,onChoose:l,children:r}){let i=e.workspace?e.workspace.split("/").filter(Boolean).at(-1):"";return s`
    <article
      class=${`card${d?" current":""}${p?" leaving":""}`}
      aria-label=${o}
      aria-current=${d?"true":void 0}
      data-card=${e.id}
      tabindex="-1"
      onFocusIn=${l}
      onPointerDown=${l}
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
  `}var Z={dangerous:"bad",caution:"warn",safe:"good"};function ce({row:e,end:o,isCurrent:a,onChoose:p,onEnd:d,actions:l}){let[r,i]=w(""),[n,$]=w(""),[u,m]=w(null),[h,S]=w(!1),C=g(null),t=e.rules.length>0,c=async b=>{if(!(h||o||b==="always"&&!t)){S(!0),m(null);try{let A=b==="always"&&n?{for:n}:{};await L.post(M("/v1/approvals",e.id),{answer:b,...r?{reason:r}:{},...A}),d(`${Y[b]} by you`)}catch(A){A.status===409?d(A.first?`${Y[A.first.answer]??"Answered"} by ${v(A.first.by,60)}`:"Expired"):m(A)}S(!1)}},f=g(performance.now());E(()=>(l.set(e.id,{since:f.current,once:()=>c("once"),always:()=>c("always"),preview:()=>e.preview&&c("preview"),deny:()=>C.current?.focus()}),()=>l.delete(e.id)));let y=b=>A=>A.detail<2&&c(b),x=b=>{b.key!=="Enter"||b.isComposing||(b.preventDefault(),c("deny"))};return s`
    <${z} row=${e} name=${v(e.tool,100)} title=${v(e.tool,100)} end=${o} isCurrent=${a} onChoose=${p}>
      <p class="card-reason">
        ${e.risk&&s`<span class=${`tag ${Z[e.risk]??""}`}>${v(e.risk,20)}</span> `}${k(e.reason)}
      </p>
      <${le} row=${e} />
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
  `}function le({row:e}){let o=B(()=>X(e.diff),[e.diff]),a=e.command||o;return s`
    ${e.command&&s`<${ue} row=${e} />`}
    ${e.diff&&!o&&s`<p class="mono">${v(e.diff,2e3)}</p>`}
    ${o&&s`<${U} view=${o} />`}
    ${a?s`<details><summary>Arguments</summary><${q} value=${e.arguments} label="Arguments" /></details>`:s`<${q} value=${e.arguments} label="Arguments" />`}
  `}var P=2e4;function ue({row:{command:e,part:o,risk:a,risk_reason:p}}){let d=e.length>P?`${e.slice(0,P)}\u2026`:e,l=o&&a!=="safe"?d.indexOf(o):-1;return s`
    <pre class="command" tabindex="0" role="group" aria-label="Command">${l<0?k(d):s`${k(d.slice(0,l))}<mark class="risky">${k(o)}</mark>${k(d.slice(l+o.length))}`}</pre>
    ${p&&s`<p class=${Z[a]??""}>${v(p,500)}</p>`}
    ${e.length>P&&s`<p class="warn">The command has ${e.length.toLocaleString()} characters; only its start is shown.</p>`}
  `}var N="\0own";function de({row:e,end:o,isCurrent:a,onChoose:p,onEnd:d}){let[l,r]=w({}),[i,n]=w({}),[$,u]=w(null),m=({question:t,multi_select:c})=>{let f=l[t],y=i[t]?.trim()??"";return c?[...f??[]].map(x=>x===N?y:x).filter(Boolean):f===N?y:f??""},h=e.questions.filter(t=>!m(t).length),S=async t=>{if(t.preventDefault(),!o){if(h.length){u({message:`Not answered yet: ${v(h[0].question,200)}`});return}u(null);try{let c={answers:Object.fromEntries(e.questions.map(f=>[f.question,m(f)]))};await L.post(M("/v1/questions",e.id),c),d("Answered by you")}catch(c){c.status===409?d(c.first?.by?`Answered by ${v(c.first.by,60)}`:"No longer asked"):u(c)}}},C=(t,c,f)=>{if(!t.multi_select)r({...l,[t.question]:c});else{let y=new Set(l[t.question]??[]);f?y.add(c):y.delete(c),r({...l,[t.question]:y})}};return s`
    <${z} row=${e} name="Question" title="Question" end=${o} isCurrent=${a} onChoose=${p}>
      <form onSubmit=${S} inert=${!!o}>
        ${e.questions.map(t=>s`
            <${$e}
              key=${t.question}
              question=${t}
              chosen=${l[t.question]}
              text=${i[t.question]??""}
              onChoose=${C}
              onText=${c=>{n({...i,[t.question]:c}),C(t,N,!0)}}
            />
          `)}
        <${R} error=${$} />
        <div class="buttons"><button type="submit" class="main">Answer</button></div>
      </form>
    <//>
  `}function $e({question:e,chosen:o,text:a,onChoose:p,onText:d}){let l=O(),r=e.multi_select?"checkbox":"radio",i=$=>e.multi_select?!!o?.has($):o===$,n=$=>u=>p(e,$,u.currentTarget.checked);return s`
    <fieldset>
      <legend>${e.header&&s`<span class="tag">${v(e.header,40)}</span> `}${k(e.question)}</legend>
      ${e.options.map(({label:$,description:u},m)=>{let h=u?`${l}-${m}`:void 0;return s`
          <div key=${$} class="choice">
            <label class="check">
              <input type=${r} name=${l} checked=${i($)} aria-describedby=${h} onChange=${n($)} />
              ${k($)}
            </label>
            ${u&&s`<p class="hint" id=${h}>${k(u)}</p>`}
          </div>
        `})}
      <div class="choice own">
        <label class="check">
          <input type=${r} name=${l} checked=${i(N)} onChange=${n(N)} />In your own words
        </label>
        <${I} label="Your own words" hidden value=${a} onInput=${d} maxlength="2000" />
      </div>
    </fieldset>
  `}export{se as default};
