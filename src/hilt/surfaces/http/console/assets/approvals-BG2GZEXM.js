import{a as P,b as Q}from"./chunk-AI763KLZ.js";import{a as K,c as W}from"./chunk-Z6VPXSDQ.js";import{a as X}from"./chunk-HQXGF4V2.js";import{a as U}from"./chunk-ZEJNTAF5.js";import"./chunk-T3O46S4L.js";import{D as H,E as V,F as R,G,I as O,K as J,c as w,d as x,e as _,f as k,g as B,h as j,l as s,o as L,p as M,t as T,u as D,v as F,z as I}from"./chunk-NATK32PW.js";import{a as A,b as h}from"./chunk-6DFJ27FF.js";import"./chunk-OOJM4CTU.js";var ee=3500,ne=[["","until revoked"],["1h","for 1 hour"],["8h","for 8 hours"],["7d","for 7 days"]],Y={once:"Allowed once",always:"Always allowed",deny:"Denied"},te={approved:"Allowed",used:"Allowed",denied:"Denied",answered:"Answered",expired:"Expired",withdrawn:"Withdrawn"};function se(){let{cards:e,settle:a}=re(),r=e.filter(({end:$})=>!$),[f,u]=w(null),t=(r.find(({row:$})=>$.id===f)??r[0])?.row.id??null;_(()=>{t!==f&&u(t)},[t]);let p=k(null);ce(p,t);let c=$=>{let o=p.current?.querySelector(`[data-card="${CSS.escape($)}"]`);return o?.scrollIntoView({block:"nearest"}),o},n=k(!1);x(()=>{n.current&&t!==null&&c(t),n.current=!1},[t]);let d=k(new Map),i=$=>o=>{let l=d.current.get(t);!l||o.timeStamp<l.since||(n.current=!0,l[$]?.())},m=$=>{let o=r.findIndex(({row:y})=>y.id===t),l=r[Math.max(0,Math.min(r.length-1,o+$))]?.row.id;l!==void 0&&(u(l),c(l)?.focus({preventScroll:!0}))};W({a:{label:"Allow once",run:i("once")},A:{label:"Always allow",run:i("always")},d:{label:"Deny: type a reason, then Enter",run:i("deny")},j:{label:"Next card",run:()=>m(1)},k:{label:"Previous card",run:()=>m(-1)}});let b=T.value===null||D.value===null,S=r.findIndex(({row:$})=>$.id===t);return s`
    <${H} title="Approvals" actions=${s`<${oe} /><${ae} />`}>
      ${S>0&&s`<div class="newer-note"><button type="button" class="main" onClick=${()=>m(-S)}>${S} newer above</button></div>`}
      ${b&&s`<${G} />`}
      ${!b&&!e.length&&s`<${V} title="Nothing waits for you">
        Calls that need approval, and questions of agents, appear here while this page is open. What needs approval is
        set by rules: see <a href="/settings">Settings</a>.
      <//>`}
      <div class="cards" ref=${p}>
        ${e.map(({row:$,end:o})=>{let l=$.questions?de:le,y=$.id===t;return s`<${l}
            key=${$.id}
            row=${$}
            end=${o}
            isCurrent=${y}
            onChoose=${()=>o||u($.id)}
            onEnd=${g=>a($.id,g)}
            actions=${d.current}
          />`})}
      </div>
    <//>
  `}function oe(){return K.value?s`<p class="hints muted">${[["a","allow once"],["A","always"],["d","deny"],["j","next"],["k","previous"]].map(([a,r])=>s`<span key=${a}><kbd>${a}</kbd> ${r}</span>`)}</p>`:null}function ae(){let e=P.value;return e==="blocked"?s`<span class="muted">The browser blocks notifications.</span>`:s`
    <label class="check">
      <input type="checkbox" checked=${e==="on"} onChange=${Q} />Notify me in other tabs
    </label>
  `}function re(){let[e,a]=w({}),r=k(new Map),f=(n,d)=>{a(i=>i[n]?i:{...i,[n]:d}),setTimeout(()=>{r.current.delete(n),a(({[n]:i,...m})=>m)},ee)},u=B(()=>[...T.value??[],...D.value??[]],[T.value,D.value]),t=new Set(u.map(({id:n})=>n));for(let n of u)e[n.id]||r.current.set(n.id,n);let p=k({});return x(()=>F(["approval","question"],n=>{for(let{id:d,status:i,answered_by:m}of n)i!=="pending"&&(p.current[d]=`${te[i]??i}${m?` by ${h(m,60)}`:""}`)}),[]),x(()=>{for(let n of r.current.keys())!t.has(n)&&!e[n]&&f(n,p.current[n]??"Answered elsewhere")},[u]),{cards:[...r.current.values()].map(n=>({row:n,end:e[n.id]})).sort((n,d)=>n.row.asked<d.row.asked?1:-1),settle:f}}function ce(e,a){let r=k(null),f=k(null),u=()=>e.current.closest("main"),t=c=>c&&e.current.querySelector(`[data-card="${CSS.escape(c)}"]`),p=()=>{let c=t(f.current)??t(a);r.current=c?{id:c.dataset.card,top:c.getBoundingClientRect().top}:null};_(()=>{let c=t(r.current?.id);c&&(u().scrollTop+=c.getBoundingClientRect().top-r.current.top),p()}),x(()=>{let c=u(),n=d=>{let i=d.target.closest?.("[data-card]");f.current=i&&e.current?.contains(i)?i.dataset.card:null,p()};return c.addEventListener("scroll",p,{passive:!0}),c.addEventListener("pointermove",n,{passive:!0}),()=>{c.removeEventListener("scroll",p),c.removeEventListener("pointermove",n)}},[a])}function z({row:e,name:a,title:r,end:f,isCurrent:u,onChoose:t,children:p}){let c=e.workspace?e.workspace.split("/").filter(Boolean).at(-1):"";return s`
    <article
      class=${`card${u?" current":""}${f?" leaving":""}`}
      aria-label=${a}
      aria-current=${u?"true":void 0}
      data-card=${e.id}
      tabindex="-1"
      onFocusIn=${t}
      onPointerDown=${t}
    >
      <header class="card-head">
        <h2>${r}</h2>
        <p class="card-who muted">
          ${e.client&&s`${h(e.client,60)}, `}${e.agent?"agent":"session"} <span class="mono">${h(e.session,60)}</span>
          ${c&&s` in <span class="mono" title=${A(e.workspace)}>${h(c,60)}</span>`}
        </p>
        <span class="card-time muted"><${J} at=${e.asked} /></span>
      </header>
      ${p}
      ${f&&s`<p class="card-end" role="status">${f}</p>`}
    </article>
  `}var Z={dangerous:"bad",caution:"warn",safe:"good"};function le({row:e,end:a,isCurrent:r,onChoose:f,onEnd:u,actions:t}){let[p,c]=w(""),[n,d]=w(""),[i,m]=w(null),[b,S]=w(!1),$=k(null),o=e.rules.length>0,l=async v=>{if(!(b||a||v==="always"&&!o)){S(!0),m(null);try{let C=v==="always"&&n?{for:n}:{};await L.post(M("/v1/approvals",e.id),{answer:v,...p?{reason:p}:{},...C}),u(`${Y[v]} by you`)}catch(C){C.status===409?u(C.first?`${Y[C.first.answer]??"Answered"} by ${h(C.first.by,60)}`:"Expired"):m(C)}S(!1)}},y=k(performance.now());x(()=>(t.set(e.id,{since:y.current,once:()=>l("once"),always:()=>l("always"),deny:()=>$.current?.focus()}),()=>t.delete(e.id)));let g=v=>C=>C.detail<2&&l(v),N=v=>{v.key!=="Enter"||v.isComposing||(v.preventDefault(),l("deny"))};return s`
    <${z} row=${e} name=${h(e.tool,100)} title=${h(e.tool,100)} end=${a} isCurrent=${r} onChoose=${f}>
      <p class="card-reason">
        ${e.risk&&s`<span class=${`tag ${Z[e.risk]??""}`}>${h(e.risk,20)}</span> `}${A(e.reason)}
      </p>
      <${ie} row=${e} />
      ${o&&s`<p class="card-rules">
        <span class="muted">“Always allow” stores:</span>${" "}
        ${e.rules.map(v=>s`<code key=${v}>${h(v,300)}</code> `)}
      </p>`}
      <${R} error=${i} />
      <div class="card-answer" inert=${!!a}>
        <${I} label="Reason" value=${p} onInput=${c} inputRef=${$} maxlength="2000" placeholder="For the agent, optional; Enter denies" onKeyDown=${N} />
        <div class="buttons">
          <button type="button" class="main" disabled=${b} onClick=${g("once")}>Allow once</button>
          <button type="button" disabled=${b||!o} title=${o?"":"Not offered for this call"} onClick=${g("always")}>Always allow</button>
          ${o&&s`<${I} label="How long to always allow" hidden value=${n} onInput=${d} options=${ne} />`}
          <button type="button" class="danger" disabled=${b} onClick=${g("deny")}>Deny</button>
        </div>
      </div>
    <//>
  `}function ie({row:e}){let a=B(()=>X(e.diff),[e.diff]),r=e.command||a;return s`
    ${e.command&&s`<${ue} row=${e} />`}
    ${e.diff&&!a&&s`<p class="mono">${h(e.diff,2e3)}</p>`}
    ${a&&s`<${U} view=${a} />`}
    ${r?s`<details><summary>Arguments</summary><${O} value=${e.arguments} label="Arguments" /></details>`:s`<${O} value=${e.arguments} label="Arguments" />`}
  `}var q=2e4;function ue({row:{command:e,part:a,risk:r,risk_reason:f}}){let u=e.length>q?`${e.slice(0,q)}\u2026`:e,t=a&&r!=="safe"?u.indexOf(a):-1;return s`
    <pre class="command" tabindex="0" role="group" aria-label="Command">${t<0?A(u):s`${A(u.slice(0,t))}<mark class="risky">${A(a)}</mark>${A(u.slice(t+a.length))}`}</pre>
    ${f&&s`<p class=${Z[r]??""}>${h(f,500)}</p>`}
    ${e.length>q&&s`<p class="warn">The command has ${e.length.toLocaleString()} characters; only its start is shown.</p>`}
  `}var E="\0own";function de({row:e,end:a,isCurrent:r,onChoose:f,onEnd:u}){let[t,p]=w({}),[c,n]=w({}),[d,i]=w(null),m=({question:o,multi_select:l})=>{let y=t[o],g=c[o]?.trim()??"";return l?[...y??[]].map(N=>N===E?g:N).filter(Boolean):y===E?g:y??""},b=e.questions.filter(o=>!m(o).length),S=async o=>{if(o.preventDefault(),!a){if(b.length){i({message:`Not answered yet: ${h(b[0].question,200)}`});return}i(null);try{let l={answers:Object.fromEntries(e.questions.map(y=>[y.question,m(y)]))};await L.post(M("/v1/questions",e.id),l),u("Answered by you")}catch(l){l.status===409?u(l.first?.by?`Answered by ${h(l.first.by,60)}`:"No longer asked"):i(l)}}},$=(o,l,y)=>{if(!o.multi_select)p({...t,[o.question]:l});else{let g=new Set(t[o.question]??[]);y?g.add(l):g.delete(l),p({...t,[o.question]:g})}};return s`
    <${z} row=${e} name="Question" title="Question" end=${a} isCurrent=${r} onChoose=${f}>
      <form onSubmit=${S} inert=${!!a}>
        ${e.questions.map(o=>s`
            <${$e}
              key=${o.question}
              question=${o}
              chosen=${t[o.question]}
              text=${c[o.question]??""}
              onChoose=${$}
              onText=${l=>{n({...c,[o.question]:l}),$(o,E,!0)}}
            />
          `)}
        <${R} error=${d} />
        <div class="buttons"><button type="submit" class="main">Answer</button></div>
      </form>
    <//>
  `}function $e({question:e,chosen:a,text:r,onChoose:f,onText:u}){let t=j(),p=e.multi_select?"checkbox":"radio",c=d=>e.multi_select?!!a?.has(d):a===d,n=d=>i=>f(e,d,i.currentTarget.checked);return s`
    <fieldset>
      <legend>${e.header&&s`<span class="tag">${h(e.header,40)}</span> `}${A(e.question)}</legend>
      ${e.options.map(({label:d,description:i},m)=>{let b=i?`${t}-${m}`:void 0;return s`
          <div key=${d} class="choice">
            <label class="check">
              <input type=${p} name=${t} checked=${c(d)} aria-describedby=${b} onChange=${n(d)} />
              ${A(d)}
            </label>
            ${i&&s`<p class="hint" id=${b}>${A(i)}</p>`}
          </div>
        `})}
      <div class="choice own">
        <label class="check">
          <input type=${p} name=${t} checked=${c(E)} onChange=${n(E)} />In your own words
        </label>
        <${I} label="Your own words" hidden value=${r} onInput=${u} maxlength="2000" />
      </div>
    </fieldset>
  `}export{se as default};
