import{a as H,b as G}from"./chunk-4ZSCE2NW.js";import{a as Q,c as V}from"./chunk-XE6IHMAG.js";import{a as Z}from"./chunk-HQXGF4V2.js";import{a as z}from"./chunk-MKXN7MWL.js";import"./chunk-I2E4NN26.js";import{D as P,H as J,J as U,K as O,L as X,N as j,P as Y,c as g,d as T,e as M,f as C,g as B,h as W,l as s,q as L,r as q,w as I,x as N,y as F}from"./chunk-KLSJ4T3K.js";import{a as S,b as y}from"./chunk-3V634C7B.js";import"./chunk-OOJM4CTU.js";var oe=2500,ae=6e4,re=[["","until revoked"],["1h","for 1 hour"],["8h","for 8 hours"],["7d","for 7 days"]],ee={once:"Allowed once",always:"Always allowed",deny:"Denied",preview:"Preview requested"},ie={approved:"Allowed",used:"Allowed",preview:"Preview requested",denied:"Denied",answered:"Answered",expired:"Expired",withdrawn:"Withdrawn"},ce=(e,t)=>e.id!==t.id&&e.asked>t.asked&&e.session===t.session&&e.command===t.command;function le(){let{cards:e,settle:t}=$e(),i=e.filter(({end:n})=>!n),[m,d]=g(null),[c,p]=g(null),a=c&&i.find(({row:n})=>ce(n,c)),r=i.find(({row:n})=>n.id===m)??i.find(({row:n})=>!n.questions)??i[0],l=c?a:r,o=l?.row.id??null;M(()=>{o!==m&&!l?.row.questions&&d(o)},[o]);let v=n=>{d(n),p(null)},k=n=>{p(n),setTimeout(()=>p(f=>f===n?null:f),ae)},w=C(null);pe(w,o);let x=n=>{let f=w.current?.querySelector(`[data-card="${CSS.escape(n)}"]`);return f?.scrollIntoView({block:"nearest"}),f},u=C(!1);M(()=>{a&&(u.current=!0,v(a.row.id))},[a?.row.id]),T(()=>{u.current&&o!==null&&x(o),u.current=!1},[o]);let $=C(new Map),h=n=>f=>{let E=$.current.get(o);!E||f.timeStamp<E.since||(u.current=!0,E[n]?.())},b=n=>{let f=i.findIndex(({row:R})=>R.id===o),E=i[Math.max(0,Math.min(i.length-1,f+n))]?.row.id;E!==void 0&&(v(E),x(E)?.focus({preventScroll:!0}))};V({a:{label:"Allow once",run:h("once")},A:{label:"Always allow",run:h("always")},p:{label:"Preview first, if available",run:h("preview")},d:{label:"Deny: type a reason, then Enter",run:h("deny")},j:{label:"Next card",run:()=>b(1)},k:{label:"Previous card",run:()=>b(-1)}});let A=I.value===null||N.value===null,_=i.findIndex(({row:n})=>n.id===o);return s`
    <${J} title="Approvals" actions=${s`<${ue} /><${de} />`}>
      ${_>0&&s`<div class="newer-note"><button type="button" class="main" onClick=${()=>b(-_)}>${_} newer above</button></div>`}
      ${A&&s`<${X} />`}
      ${!A&&!e.length&&s`<${U} title="Nothing is waiting for you">
        Calls that need approval and questions from agents appear here while this page is open. Rules decide what needs
        approval: see the Settings page.
      <//>`}
      <div class="cards" ref=${w}>
        ${e.map(({row:n,end:f})=>{let E=n.questions?ve:fe,R=n.id===o;return s`<${E}
            key=${n.id}
            row=${n}
            end=${f}
            isCurrent=${R}
            onChoose=${()=>f||v(n.id)}
            onEnd=${se=>t(n.id,se)}
            onPreview=${()=>k(n)}
            actions=${$.current}
          />`})}
      </div>
    <//>
  `}function ue(){return Q.value?s`<p class="hints muted">${[["a","allow once"],["A","always"],["d","deny"],["j","next"],["k","previous"]].map(([t,i])=>s`<span key=${t}><kbd>${t}</kbd> ${i}</span>`)}</p>`:null}function de(){let e=H.value;return e==="blocked"?s`<span class="muted">The browser blocks notifications.</span>`:s`
    <label class="check">
      <input type="checkbox" checked=${e==="on"} onChange=${G} />Notify me in other tabs
    </label>
  `}function $e(){let[e,t]=g({}),i=C(new Map),m=(r,l)=>{t(o=>o[r]?o:{...o,[r]:l}),setTimeout(()=>{i.current.delete(r),t(({[r]:o,...v})=>v)},oe)},d=B(()=>I.value&&N.value?[...I.value,...N.value]:[],[I.value,N.value]),c=new Set(d.map(({id:r})=>r));for(let r of d)e[r.id]||i.current.set(r.id,r);let p=C({});return T(()=>F(["approval","question"],r=>{for(let{id:l,status:o,answered_by:v}of r)o!=="pending"&&(p.current[l]=`${ie[o]??o}${v?` by ${y(v,60)}`:""}`)}),[]),T(()=>{for(let r of i.current.keys())!c.has(r)&&!e[r]&&m(r,p.current[r]??"Answered elsewhere")},[d]),{cards:[...i.current.values()].map(r=>({row:r,end:e[r.id]})).sort((r,l)=>r.row.asked<l.row.asked?1:-1),settle:m}}function pe(e,t){let i=C(null),m=C(null),d=()=>e.current.closest("main"),c=a=>a&&e.current.querySelector(`[data-card="${CSS.escape(a)}"]`),p=()=>{let a=c(m.current)??c(t);i.current=a?{id:a.dataset.card,top:a.getBoundingClientRect().top}:null};M(()=>{let a=c(i.current?.id);a&&(d().scrollTop+=a.getBoundingClientRect().top-i.current.top),p()}),T(()=>{let a=d(),r=l=>{let o=l.target.closest?.("[data-card]");m.current=o&&e.current?.contains(o)?o.dataset.card:null,p()};return a.addEventListener("scroll",p,{passive:!0}),a.addEventListener("pointermove",r,{passive:!0}),()=>{a.removeEventListener("scroll",p),a.removeEventListener("pointermove",r)}},[t])}function ne({row:e,name:t,title:i,end:m,isCurrent:d,onChoose:c,children:p}){let a=e.workspace?e.workspace.split("/").filter(Boolean).at(-1):"";return s`
    <article
      class=${`card${d?" current":""}${m?" leaving":""}`}
      aria-label=${t}
      aria-current=${d?"true":void 0}
      data-card=${e.id}
      tabindex="-1"
      onFocusIn=${c}
      onPointerDown=${c}
    >
      <header class="card-head">
        <h2>${i}</h2>
        <p class="card-who muted">
          ${e.client&&s`${y(e.client,60)}, `}${e.agent?"agent":"session"} <span class="mono">${y(e.session,60)}</span>
          ${a&&s` in <span class="mono" title=${S(e.workspace)}>${y(a,60)}</span>`}
        </p>
        <span class="card-time muted"><${Y} at=${e.asked} /></span>
      </header>
      ${p}
      ${m&&s`<p class="card-end" role="status">${m}</p>`}
    </article>
  `}var te={dangerous:"bad",caution:"warn",safe:"good"};function fe({row:e,end:t,isCurrent:i,onChoose:m,onEnd:d,onPreview:c,actions:p}){let[a,r]=g(""),[l,o]=g(""),[v,k]=g(null),[w,x]=g(!1),u=C(null),$=e.rules.length>0,h=async n=>{if(!(w||t||n==="always"&&!$)){x(!0),k(null);try{let f=n==="always"&&l?{for:l}:{};await L.post(q("/v1/approvals",e.id),{answer:n,...a?{reason:a}:{},...f}),n==="preview"&&c(),d(`${ee[n]} by you`)}catch(f){f.status===409?d(f.first?`${ee[f.first.answer]??"Answered"} by ${y(f.first.by,60)}`:"Expired"):k(f)}x(!1)}},b=C(performance.now());T(()=>(p.set(e.id,{since:b.current,once:()=>h("once"),always:()=>h("always"),preview:()=>e.preview&&h("preview"),deny:()=>u.current?.focus()}),()=>p.delete(e.id)));let A=n=>f=>f.detail<2&&h(n),_=n=>{n.key!=="Enter"||n.isComposing||(n.preventDefault(),h("deny"))};return s`
    <${ne} row=${e} name=${y(e.tool,100)} title=${y(e.tool,100)} end=${t} isCurrent=${i} onChoose=${m}>
      <p class="card-reason">
        ${e.risk&&s`<span class=${`tag ${te[e.risk]??""}`}>${y(e.risk,20)}</span> `}${S(e.reason)}
      </p>
      <${me} row=${e} />
      ${$&&s`<p class="card-rules">
        <span class="muted">“Always allow” stores:</span>${" "}
        ${e.rules.map(n=>s`<code key=${n}>${y(n,300)}</code> `)}
      </p>`}
      <${O} error=${v} />
      <div class="card-answer" inert=${!!t}>
        <${P}
          label="Reason"
          placeholder="Optional, for the agent; Enter denies"
          maxlength="2000"
          value=${a}
          onInput=${r}
          inputRef=${u}
          onKeyDown=${_}
        />
        <div class="buttons">
          <button type="button" class="main" disabled=${w} onClick=${A("once")}>Allow once</button>
          <button type="button" disabled=${w||!$} title=${$?"":"Not available for this call"} onClick=${A("always")}>Always allow</button>
          ${$&&s`<${P} label="How long to always allow" hidden value=${l} onInput=${o} options=${re} />`}
          ${e.preview&&s`<button type="button" disabled=${w} onClick=${A("preview")}>Preview first</button>`}
          <button type="button" class="danger" disabled=${w} onClick=${A("deny")}>Deny</button>
        </div>
      </div>
    <//>
  `}function me({row:e}){let t=B(()=>Z(e.diff),[e.diff]),i=e.command||t;return s`
    ${e.command&&s`<${he} row=${e} />`}
    ${e.diff&&!t&&s`<p class="mono">${y(e.diff,2e3)}</p>`}
    ${t&&s`<${z} view=${t} />`}
    ${i?s`<details><summary>Arguments</summary><${j} value=${e.arguments} label="Arguments" /></details>`:s`<${j} value=${e.arguments} label="Arguments" />`}
  `}var K=2e4;function he({row:{command:e,part:t,risk:i,risk_reason:m}}){let d=e.length>K?`${e.slice(0,K)}\u2026`:e,c=t&&i!=="safe"?d.indexOf(t):-1;return s`
    <pre class="command" tabindex="0" role="group" aria-label="Command">${c<0?S(d):s`${S(d.slice(0,c))}<mark class="risky">${S(t)}</mark>${S(d.slice(c+t.length))}`}</pre>
    ${m&&s`<p class=${te[i]??""}>${y(m,500)}</p>`}
    ${e.length>K&&s`<p class="warn">The command has ${e.length.toLocaleString()} characters; only its start is shown.</p>`}
  `}var D="\0own";function ve({row:e,end:t,isCurrent:i,onChoose:m,onEnd:d}){let[c,p]=g({}),[a,r]=g({}),[l,o]=g(null),v=({question:u,multi_select:$})=>{let h=c[u],b=a[u]?.trim()??"";return $?[...h??[]].map(A=>A===D?b:A).filter(Boolean):h===D?b:h??""},k=e.questions.filter(u=>!v(u).length),w=async u=>{if(u.preventDefault(),!t){if(k.length){o({message:`Not answered yet: ${y(k[0].question,200)}`});return}o(null);try{let $={answers:Object.fromEntries(e.questions.map(h=>[h.question,v(h)]))};await L.post(q("/v1/questions",e.id),$),d("Answered by you")}catch($){$.status===409?d($.first?.by?`Answered by ${y($.first.by,60)}`:"No longer pending"):o($)}}},x=(u,$,h)=>{if(!u.multi_select)p({...c,[u.question]:$});else{let b=new Set(c[u.question]??[]);h?b.add($):b.delete($),p({...c,[u.question]:b})}};return s`
    <${ne} row=${e} name="Question" title="Question" end=${t} isCurrent=${i} onChoose=${m}>
      <form onSubmit=${w} inert=${!!t}>
        ${e.questions.map(u=>s`
            <${ye}
              key=${u.question}
              question=${u}
              chosen=${c[u.question]}
              text=${a[u.question]??""}
              onChoose=${x}
              onText=${$=>{r({...a,[u.question]:$}),x(u,D,!0)}}
            />
          `)}
        <${O} error=${l} />
        <div class="buttons"><button type="submit" class="main">Answer</button></div>
      </form>
    <//>
  `}function ye({question:e,chosen:t,text:i,onChoose:m,onText:d}){let c=W(),p=e.multi_select?"checkbox":"radio",a=l=>e.multi_select?!!t?.has(l):t===l,r=l=>o=>m(e,l,o.currentTarget.checked);return s`
    <fieldset>
      <legend>${e.header&&s`<span class="tag">${y(e.header,40)}</span> `}${S(e.question)}</legend>
      ${e.options.map(({label:l,description:o},v)=>{let k=o?`${c}-${v}`:void 0;return s`
          <div key=${l} class="choice">
            <label class="check">
              <input type=${p} name=${c} checked=${a(l)} aria-describedby=${k} onChange=${r(l)} />
              ${S(l)}
            </label>
            ${o&&s`<p class="hint" id=${k}>${S(o)}</p>`}
          </div>
        `})}
      <div class="choice own">
        <label class="check">
          <input type=${p} name=${c} checked=${a(D)} onChange=${r(D)} />In your own words
        </label>
        <${P} label="Your own words" hidden value=${i} onInput=${d} maxlength="2000" />
      </div>
    </fieldset>
  `}export{le as default};
