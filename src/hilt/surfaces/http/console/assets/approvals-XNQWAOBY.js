import{a as ce,b as le}from"./chunk-3U6WNGN5.js";import{a as Q,c as G}from"./chunk-IDSXIV7L.js";import{a as ie}from"./chunk-KZNXHTG3.js";import{a as ae}from"./chunk-HOPPGRH4.js";import"./chunk-STYMQTOY.js";import{A as te,B as O,C as ne,E as se,F as oe,H as re,e as j,f as F,k as M,l as _,m as z,r as B,u as X,w as Y,x as V,y as Z,z as ee}from"./chunk-OTZEVIFT.js";import{d as k,e as N,f as T,g as S,h as D,j as K,n as a,p as H,q as g,r as E,t as J,y as U}from"./chunk-N2E7E6HP.js";import"./chunk-OOJM4CTU.js";var q=300,ve=2500,ge=6e4,ye=[["","until revoked"],["1h","for 1 hour"],["8h","for 8 hours"],["7d","for 7 days"]],ue={once:"Allowed once",always:"Always allowed",deny:"Denied",preview:"Preview requested"},be={approved:"Allowed",used:"Allowed",preview:"Preview requested",denied:"Denied",answered:"Answered",expired:"Expired",withdrawn:"Withdrawn"},we=(e,s)=>e.id!==s.id&&e.asked>s.asked&&e.session===s.session&&e.command===s.command;function ke(){let{cards:e,settle:s}=Ae(),o=e.filter(({end:d})=>!d),[$,u]=k(null),[c,n]=k(null),r=c&&o.find(({row:d})=>we(d,c)),t=o.find(({row:d})=>d.id===$)??o.find(({row:d})=>!d.questions)??o[0],i=c?r:t,l=i?.row.id??null;T(()=>{l!==$&&!i?.row.questions&&u(l)},[l]);let f=d=>{u(d),n(null)},A=d=>{n(d),setTimeout(()=>n(p=>p===d?null:p),ge)},b=S(null),R=Ce(b,l),h=d=>{let p=b.current?.querySelector(`[data-card="${CSS.escape(d)}"]`);return p?.scrollIntoView({block:"nearest"}),R(p),p},m=S(!1);T(()=>{r&&(m.current=!0,f(r.row.id))},[r?.row.id]),N(()=>{m.current&&l!==null&&h(l),m.current=!1},[l]);let y=e.map(({row:d})=>d.id).join();T(()=>{b.current.classList.add("moved");let d=setTimeout(()=>b.current?.classList.remove("moved"),q);return()=>clearTimeout(d)},[y]);let w=S(new Map),C=d=>p=>{let v=w.current.get(l);if(v){if(!v.isSeen(p)){$e(h(l));return}m.current=!0,v[d]?.()}},x=d=>{let p=o.findIndex(({row:W})=>W.id===l),v=o[Math.max(0,Math.min(o.length-1,p+d))]?.row.id;v!==void 0&&(f(v),h(v)?.focus({preventScroll:!0}))};G({a:{label:"Allow once",run:C("once")},A:{label:"Always allow",run:C("always")},p:{label:"Preview first, if available",run:C("preview")},d:{label:"Deny: type a reason, then Enter",run:C("deny")},j:{label:"Next card",run:()=>x(1)},k:{label:"Previous card",run:()=>x(-1)}});let I=M.value===null||_.value===null,L=o.findIndex(({row:d})=>d.id===l);return a`
    <${X} title="Approvals" actions=${a`<${Se} /><${Ee} />`}>
      ${L>0&&a`<div class="newer-note"><button type="button" class="main" onClick=${()=>x(-L)}>${L} newer above</button></div>`}
      ${I&&a`<${Z} />`}
      ${!I&&!e.length&&a`<${Y} title="Nothing is waiting for you">
        Calls that need approval and questions from agents appear here while this page is open. Rules decide what needs
        approval: see the Settings page.
      <//>`}
      <div class="cards" ref=${b}>
        ${e.map(({row:d,end:p})=>{let v=d.questions?De:Ie,W=d.id===l;return a`<${v}
            key=${d.id}
            row=${d}
            end=${p}
            isCurrent=${W}
            onChoose=${()=>p||f(d.id)}
            onEnd=${me=>s(d.id,me)}
            onPreview=${()=>A(d)}
            actions=${w.current}
          />`})}
      </div>
    <//>
  `}function $e(e){e?.animate([{opacity:.4},{opacity:1}],q)}function Se(){return Q.value?a`<p class="hints muted">${[["a","allow once"],["A","always"],["d","deny"],["j","next"],["k","previous"]].map(([s,o])=>a`<span key=${s}><kbd>${s}</kbd> ${o}</span>`)}</p>`:null}function Ee(){let e=ce.value;return e==="blocked"?a`<span class="muted">The browser blocks notifications.</span>`:a`
    <label class="check">
      <input type="checkbox" checked=${e==="on"} onChange=${le} />Notify me in other tabs
    </label>
  `}function Ae(){let[e,s]=k({}),o=S(new Map),$=(t,i)=>{s(l=>l[t]?l:{...l,[t]:i}),setTimeout(()=>{o.current.delete(t),s(({[t]:l,...f})=>f)},ve)},u=D(()=>M.value&&_.value?[...M.value,..._.value]:[],[M.value,_.value]),c=new Set(u.map(({id:t})=>t));for(let t of u)e[t.id]||o.current.set(t.id,t);let n=S({});return N(()=>z(["approval","question"],t=>{for(let{id:i,status:l,answered_by:f}of t)l!=="pending"&&(n.current[i]=`${be[l]??l}${f?` by ${E(f,60)}`:""}`)}),[]),N(()=>{for(let t of o.current.keys())!c.has(t)&&!e[t]&&$(t,n.current[t]??"Answered elsewhere")},[u]),{cards:[...o.current.values()].map(t=>({row:t,end:e[t.id]})).sort((t,i)=>t.row.asked<i.row.asked?1:-1),settle:$}}function Ce(e,s){let o=S(null),$=S(null),u=()=>e.current.closest("main"),c=t=>t&&e.current.querySelector(`[data-card="${CSS.escape(t)}"]`),n=t=>o.current=t?{id:t.dataset.card,top:t.getBoundingClientRect().top}:null,r=()=>n(c($.current)??c(s));return T(()=>{let t=c(o.current?.id);t&&(u().scrollTop+=t.getBoundingClientRect().top-o.current.top),r()}),T(()=>{let t=u(),i=l=>{let f=l.target.closest?.("[data-card]");$.current=f&&e.current?.contains(f)?f.dataset.card:null,r()};return t.addEventListener("scroll",r,{passive:!0}),t.addEventListener("pointermove",i,{passive:!0}),()=>{t.removeEventListener("scroll",r),t.removeEventListener("pointermove",i)}},[s]),t=>{$.current=null,n(t)}}function xe(e){let s=S(null),o=S(1/0),[$,u]=k(!1);return T(()=>{if(!e)return;let n=[...s.current.querySelectorAll(".card-head, .card-answer")],r,t=()=>{let f=!document.hidden&&n.every(de);f?o.current===1/0&&(o.current=performance.now()):o.current=1/0,clearTimeout(r),r=f?setTimeout(()=>u(!0),o.current+q-performance.now()):void 0,f||u(!1)},i=new IntersectionObserver(t,{threshold:[0,.25,.5,.75,1]});for(let f of n)i.observe(f);let l=s.current.closest("main");l.addEventListener("scroll",t,{passive:!0}),document.addEventListener("visibilitychange",t);for(let f of["resize","scroll"])visualViewport.addEventListener(f,t);return()=>{clearTimeout(r);for(let f of["resize","scroll"])visualViewport.removeEventListener(f,t);i.disconnect(),l.removeEventListener("scroll",t),document.removeEventListener("visibilitychange",t),o.current=1/0,u(!1)}},[e]),{card:s,isSeen:({timeStamp:n})=>e&&n-o.current>=q&&[...s.current.querySelectorAll(".card-head, .card-answer")].every(de),isReady:$}}function de(e){let{top:s,bottom:o,left:$,right:u,height:c}=e.getBoundingClientRect(),n=e.closest("main").getBoundingClientRect(),{offsetTop:r,height:t}=visualViewport,i=s>=Math.max(n.top,r)-1&&o<=Math.min(n.bottom,r+t)+1;return!c||!i||$>=n.right||u<=n.left?!1:e.contains(document.elementFromPoint(($+u)/2,(s+o)/2))}function fe({row:e,name:s,title:o,end:$,isCurrent:u,isReady:c,cardRef:n,onChoose:r,children:t}){let i=e.workspace?e.workspace.split("/").filter(Boolean).at(-1):"";return a`
    <article
      ref=${n}
      class=${`card${u?" current":""}${c?" ready":""}${$?" leaving":""}`}
      aria-label=${s}
      aria-current=${u?"true":void 0}
      data-card=${e.id}
      tabindex="-1"
      onFocusIn=${r}
      onPointerDown=${r}
    >
      <header class="card-head">
        <h2>${o}</h2>
        <p class="card-who muted">
          ${e.client&&a`${E(e.client,60)}, `}${e.agent?"agent":"session"} <span class="mono">${E(e.session,60)}</span>
          ${i&&a` in <span class="mono" title=${H(e.workspace)}>${E(i,60)}</span>`}
        </p>
        <span class="card-time muted"><${re} at=${e.asked} /></span>
      </header>
      ${t}
      ${$&&a`<p class="card-end" role="status">${$}</p>`}
    </article>
  `}var pe={dangerous:"bad",caution:"warn",safe:"good"};function Ie({row:e,end:s,isCurrent:o,onChoose:$,onEnd:u,onPreview:c,actions:n}){let[r,t]=k(""),[i,l]=k(""),[f,A]=k(null),[b,R]=k(!1),h=S(null),m=te(),{card:y,isSeen:w,isReady:C}=xe(o&&!s&&!U.value),x=e.rules.length>0&&!m.omissions.value,I=async p=>{if(!(b||s||p==="always"&&!x)){R(!0),A(null);try{let v=p==="always"&&i?{for:i}:{};await j.post(F("/v1/approvals",e.id),{answer:p,...r?{reason:r}:{},...v}),p==="preview"&&c(),u(`${ue[p]} by you`)}catch(v){v.status===409?u(v.first?`${ue[v.first.answer]??"Answered"} by ${E(v.first.by,60)}`:"Expired"):A(v)}R(!1)}};N(()=>(n.set(e.id,{isSeen:w,once:()=>I("once"),always:()=>I("always"),preview:()=>e.preview&&I("preview"),deny:()=>h.current?.focus()}),()=>n.delete(e.id)));let L=p=>v=>{v.detail>1||(v.detail||!v.isTrusted||w(v)?I(p):(y.current.scrollIntoView({block:"nearest"}),$e(y.current)))},d=p=>{p.key!=="Enter"||p.isComposing||(p.preventDefault(),I("deny"))};return a`
    <${fe}
      row=${e}
      name=${E(e.tool,100)}
      title=${g(e.tool)}
      end=${s}
      isCurrent=${o}
      isReady=${C}
      cardRef=${y}
      onChoose=${$}
    >
      <div class="card-body" tabindex="0" role="group" aria-label="The call">
        <p class="card-reason">
          ${e.risk&&a`<span class=${`tag ${pe[e.risk]??""}`}>${E(e.risk,20)}</span> `}${g(e.reason)}
        </p>
        <${ee.Provider} value=${m}><${Le} row=${e} /><//>
      </div>
      ${e.rules.length>0&&a`<p class="card-rules" tabindex="0" role="group" aria-label="Rules">
        <span class="muted">“Always allow” stores:</span>${" "}
        ${e.rules.map(p=>a`<code key=${p}>${g(p)}</code> `)}
      </p>`}
      <${ne} review=${m} />
      <${V} error=${f} />
      <div class="card-answer" inert=${!!s}>
        <${B}
          label="Reason"
          placeholder="Optional, for the agent; Enter denies"
          maxlength="2000"
          value=${r}
          onInput=${t}
          inputRef=${h}
          onKeyDown=${d}
        />
        <div class="buttons">
          <button type="button" class="main" disabled=${b} onClick=${L("once")}>Allow once</button>
          <button type="button" disabled=${b||!x} title=${x?"":e.rules.length?"Show all of the call first":"Not available for this call"} onClick=${L("always")}>Always allow</button>
          ${x&&a`<${B} label="How long to always allow" hidden value=${i} onInput=${l} options=${ye} />`}
          ${e.preview&&a`<button type="button" disabled=${b} onClick=${L("preview")}>Preview first</button>`}
          <button type="button" class="danger" disabled=${b} onClick=${L("deny")}>Deny</button>
        </div>
      </div>
    <//>
  `}function Le({row:e}){let s=D(()=>ie(e.diff),[e.diff]),o=D(()=>Re(e),[e]);return a`
    ${e.command&&a`<${Pe} row=${e} />`}
    ${!Me(e)&&a`<${_e} files=${e.files} />`}
    ${e.diff&&!s&&a`<${se} text=${e.diff} label="Change" />`}
    ${s&&a`<${ae} view=${s} />`}
    ${Object.keys(o).length>0&&a`<${oe} value=${o} label="Arguments" />`}
  `}function Re({arguments:e,command:s,kind:o,diff:$,files:u}){let c=Object.entries(e).filter(([,n])=>n!==s||!s);return o!=="edit"||!$||!u.length||u.some(({missing:n})=>n)?Object.fromEntries(c):Object.fromEntries(c.map(([n,r])=>{let t=typeof r=="string"?r:JSON.stringify(r),i=t.length>Te||t.includes(`
`);return[n,i?`${t.length.toLocaleString()} characters; the diff shows what they change`:r]}))}var Te=200,Ne=200,he={created:"good",modified:"warn",deleted:"bad"},Me=({files:e,diff:s})=>!e.length||e.length===1&&s&&e[0].action in he&&!e[0].runs&&!e[0].missing;function _e({files:e}){let o=O().isWhole.value?e:e.slice(0,Ne);O(o.length<e.length);let $=new Map,u=n=>$.set(n,($.get(n)??0)+1);for(let{action:n}of e)u(n.split(" from ")[0]);for(let{runs:n}of e)n&&u("run later");for(let{missing:n}of e)n&&u("not shown");let c=[...$].map(([n,r])=>`${r.toLocaleString()} ${g(n)}`).join(", ");return a`
    <p class="muted">${J(e.length,"file")}${o.length<e.length?`, of which ${o.length} are listed`:""}: ${c}</p>
    <ul class="file-list" aria-label="Files">
      ${o.map(({path:n,action:r,runs:t,missing:i})=>a`
          <li key=${n}>
            <span class=${`tag ${he[r]??""}`}>${g(r)}</span> <span class="mono">${g(n)}</span>
            ${t&&a` <span class="tag warn">runs later, by ${g(t)}</span>`}
            ${i&&a` <span class="tag bad">not shown: ${g(i)}</span>`}
          </li>
        `)}
    </ul>
  `}var Oe=2e4;function Pe({row:{command:e,part:s,risk:o,risk_reason:$}}){let c=O().isWhole.value?e:e.slice(0,Oe);O(c.length<e.length);let n=s&&o!=="safe"?c.indexOf(s):-1;return a`
    <pre class="command" tabindex="0" role="group" aria-label="Command">${n<0?g(c):a`${g(c.slice(0,n))}<mark class="risky">${g(s)}</mark>${g(c.slice(n+s.length))}`}</pre>
    ${$&&a`<p class=${pe[o]??""}>${g($)}</p>`}
    ${c.length<e.length&&a`<p class="warn">The command has ${e.length.toLocaleString()} characters; only its start is shown.</p>`}
  `}var P="\0own";function De({row:e,end:s,isCurrent:o,onChoose:$,onEnd:u}){let[c,n]=k({}),[r,t]=k({}),[i,l]=k(null),f=({question:h,multi_select:m})=>{let y=c[h],w=r[h]?.trim()??"";return m?[...y??[]].map(C=>C===P?w:C).filter(Boolean):y===P?w:y??""},A=e.questions.filter(h=>!f(h).length),b=async h=>{if(h.preventDefault(),!s){if(A.length){l({message:`Not answered yet: ${E(A[0].question,200)}`});return}l(null);try{let m={answers:Object.fromEntries(e.questions.map(y=>[y.question,f(y)]))};await j.post(F("/v1/questions",e.id),m),u("Answered by you")}catch(m){m.status===409?u(m.first?.by?`Answered by ${E(m.first.by,60)}`:"No longer pending"):l(m)}}},R=(h,m,y)=>{if(!h.multi_select)n({...c,[h.question]:m});else{let w=new Set(c[h.question]??[]);y?w.add(m):w.delete(m),n({...c,[h.question]:w})}};return a`
    <${fe} row=${e} name="Question" title="Question" end=${s} isCurrent=${o} onChoose=${$}>
      <form onSubmit=${b} inert=${!!s}>
        ${e.questions.map(h=>a`
            <${Be}
              key=${h.question}
              question=${h}
              chosen=${c[h.question]}
              text=${r[h.question]??""}
              onChoose=${R}
              onText=${m=>{t({...r,[h.question]:m}),R(h,P,!0)}}
            />
          `)}
        <${V} error=${i} />
        <div class="buttons"><button type="submit" class="main">Answer</button></div>
      </form>
    <//>
  `}function Be({question:e,chosen:s,text:o,onChoose:$,onText:u}){let c=K(),n=e.multi_select?"checkbox":"radio",r=i=>e.multi_select?!!s?.has(i):s===i,t=i=>l=>$(e,i,l.currentTarget.checked);return a`
    <fieldset>
      <legend>${e.header&&a`<span class="tag">${E(e.header,40)}</span> `}${g(e.question)}</legend>
      ${e.options.map(({label:i,description:l},f)=>{let A=l?`${c}-${f}`:void 0;return a`
          <div key=${i} class="choice">
            <label class="check">
              <input type=${n} name=${c} checked=${r(i)} aria-describedby=${A} onChange=${t(i)} />
              ${g(i)}
            </label>
            ${l&&a`<p class="hint" id=${A}>${g(l)}</p>`}
          </div>
        `})}
      <div class="choice own">
        <label class="check">
          <input type=${n} name=${c} checked=${r(P)} onChange=${t(P)} />In your own words
        </label>
        <${B} label="Your own words" hidden value=${o} onInput=${u} maxlength="2000" />
      </div>
    </fieldset>
  `}export{ke as default};
