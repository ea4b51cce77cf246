import{a as H,b as Q}from"./chunk-GUQFA4L2.js";import{a as G}from"./chunk-B2JAEYEQ.js";import{a as F,c as P}from"./chunk-F3OIVHYH.js";import{D as U,E as V,F as R,G as Y,I as O,K as z,c as w,d as S,e as L,f as k,g as _,h as K,l as c,o as B,p as M,t as T,u as D,v as j,z as I}from"./chunk-H5BVASL7.js";import{a as A,b as h}from"./chunk-PHU6BNSR.js";import"./chunk-OOJM4CTU.js";var te=/^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/,W={"+":"added","-":"removed"," ":"context","":"context"};function X(e){if(!/^@@ -\d/m.test(e))return null;let s=[],o=null,u=null,r=[0,0],t=e.split(`
`);t.at(-1)===""&&t.pop();let i=n=>{o={type:"diff",path:n,hunks:[],additions:0,deletions:0},s.push(o),u=null},a=(n,d)=>{u={oldStart:n,newStart:d,old:n,new:d,changes:[]},o.hunks.push(u)};for(let n=0;n<t.length;n+=1){let d=t[n],$=te.exec(d);r[0]<=0&&r[1]<=0&&d.startsWith("--- ")&&t[n+1]?.startsWith("+++ ")?(i(J(t[n+1].slice(4))??J(d.slice(4))??""),n+=1):$&&r[0]<=0&&r[1]<=0?(o||i(""),a(Number($[1]),Number($[2])),r=se(d)):(o||i(""),u||a(1,1),oe(o,u,d,r))}return{type:"diffs",items:s}}function se(e){return["-","+"].map(s=>Number(new RegExp(`\\${s}\\d+(?:,(\\d+))?`).exec(e)[1]??1))}function oe(e,s,o,u){let r=o.slice(0,1),t=u[0]>0||u[1]>0,i=t?W[r]??"context":"context",a={type:i,content:t&&r in W?o.slice(1):o};if(!t||!(r in W)){s.changes.push(a);return}i!=="added"&&(a.oldLineNumber=s.old++,u[0]-=1),i!=="removed"&&(a.newLineNumber=s.new++,u[1]-=1),e.additions+=i==="added",e.deletions+=i==="removed",s.changes.push(a)}function J(e){let s=e.split("	")[0].replace(/^[ab]\//,"");return s==="/dev/null"?null:s}var ae=3500,re=[["","until revoked"],["1h","for 1 hour"],["8h","for 8 hours"],["7d","for 7 days"]],Z={once:"Allowed once",always:"Always allowed",deny:"Denied"},ce={approved:"Allowed",used:"Allowed",denied:"Denied",answered:"Answered",expired:"Expired",withdrawn:"Withdrawn"};function le(){let{cards:e,settle:s}=ue(),o=e.filter(({end:f})=>!f),[u,r]=w(null),t=(o.find(({row:f})=>f.id===u)??o[0])?.row.id??null;L(()=>{t!==u&&r(t)},[t]);let i=k(null);$e(i,t);let a=f=>{let l=i.current?.querySelector(`[data-card="${CSS.escape(f)}"]`);return l?.scrollIntoView({block:"nearest"}),l},n=k(!1);S(()=>{n.current&&t!==null&&a(t),n.current=!1},[t]);let d=k(new Map),$=f=>l=>{let p=d.current.get(t);!p||l.timeStamp<p.since||(n.current=!0,p[f]?.())},m=f=>{let l=o.findIndex(({row:y})=>y.id===t),p=o[Math.max(0,Math.min(o.length-1,l+f))]?.row.id;p!==void 0&&(r(p),a(p)?.focus({preventScroll:!0}))};P({a:{label:"Allow once",run:$("once")},A:{label:"Always allow",run:$("always")},d:{label:"Deny: type a reason, then Enter",run:$("deny")},j:{label:"Next card",run:()=>m(1)},k:{label:"Previous card",run:()=>m(-1)}});let b=T.value===null||D.value===null,x=o.findIndex(({row:f})=>f.id===t);return c`
    <${U} title="Approvals" actions=${c`<${ie} /><${de} />`}>
      ${x>0&&c`<div class="newer-note"><button type="button" class="main" onClick=${()=>m(-x)}>${x} newer above</button></div>`}
      ${b&&c`<${Y} />`}
      ${!b&&!e.length&&c`<${V} title="Nothing waits for you">
        Calls that need approval, and questions of agents, appear here while this page is open. What needs approval is
        set by rules: see <a href="/settings">Settings</a>.
      <//>`}
      <div class="cards" ref=${i}>
        ${e.map(({row:f,end:l})=>{let p=f.questions?he:pe,y=f.id===t;return c`<${p}
            key=${f.id}
            row=${f}
            end=${l}
            isCurrent=${y}
            onChoose=${()=>l||r(f.id)}
            onEnd=${v=>s(f.id,v)}
            actions=${d.current}
          />`})}
      </div>
    <//>
  `}function ie(){return F.value?c`<p class="hints muted">${[["a","allow once"],["A","always"],["d","deny"],["j","next"],["k","previous"]].map(([s,o])=>c`<span key=${s}><kbd>${s}</kbd> ${o}</span>`)}</p>`:null}function de(){let e=H.value;return e==="blocked"?c`<span class="muted">The browser blocks notifications.</span>`:c`
    <label class="check">
      <input type="checkbox" checked=${e==="on"} onChange=${Q} />Notify me in other tabs
    </label>
  `}function ue(){let[e,s]=w({}),o=k(new Map),u=(n,d)=>{s($=>$[n]?$:{...$,[n]:d}),setTimeout(()=>{o.current.delete(n),s(({[n]:$,...m})=>m)},ae)},r=_(()=>[...T.value??[],...D.value??[]],[T.value,D.value]),t=new Set(r.map(({id:n})=>n));for(let n of r)e[n.id]||o.current.set(n.id,n);let i=k({});return S(()=>j(["approval","question"],n=>{for(let{id:d,status:$,answered_by:m}of n)$!=="pending"&&(i.current[d]=`${ce[$]??$}${m?` by ${h(m,60)}`:""}`)}),[]),S(()=>{for(let n of o.current.keys())!t.has(n)&&!e[n]&&u(n,i.current[n]??"Answered elsewhere")},[r]),{cards:[...o.current.values()].map(n=>({row:n,end:e[n.id]})).sort((n,d)=>n.row.asked<d.row.asked?1:-1),settle:u}}function $e(e,s){let o=k(null),u=k(null),r=()=>e.current.closest("main"),t=a=>a&&e.current.querySelector(`[data-card="${CSS.escape(a)}"]`),i=()=>{let a=t(u.current)??t(s);o.current=a?{id:a.dataset.card,top:a.getBoundingClientRect().top}:null};L(()=>{let a=t(o.current?.id);a&&(r().scrollTop+=a.getBoundingClientRect().top-o.current.top),i()}),S(()=>{let a=r(),n=d=>{let $=d.target.closest?.("[data-card]");u.current=$&&e.current?.contains($)?$.dataset.card:null,i()};return a.addEventListener("scroll",i,{passive:!0}),a.addEventListener("pointermove",n,{passive:!0}),()=>{a.removeEventListener("scroll",i),a.removeEventListener("pointermove",n)}},[s])}function ee({row:e,name:s,title:o,end:u,isCurrent:r,onChoose:t,children:i}){let a=e.workspace?e.workspace.split("/").filter(Boolean).at(-1):"";return c`
    <article
      class=${`card${r?" current":""}${u?" leaving":""}`}
      aria-label=${s}
      aria-current=${r?"true":void 0}
      data-card=${e.id}
      tabindex="-1"
      onFocusIn=${t}
      onPointerDown=${t}
    >
      <header class="card-head">
        <h2>${o}</h2>
        <p class="card-who muted">
          ${e.client&&c`${h(e.client,60)}, `}${e.agent?"agent":"session"} <span class="mono">${h(e.session,60)}</span>
          ${a&&c` in <span class="mono" title=${A(e.workspace)}>${h(a,60)}</span>`}
        </p>
        <span class="card-time muted"><${z} at=${e.asked} /></span>
      </header>
      ${i}
      ${u&&c`<p class="card-end" role="status">${u}</p>`}
    </article>
  `}var ne={dangerous:"bad",caution:"warn",safe:"good"};function pe({row:e,end:s,isCurrent:o,onChoose:u,onEnd:r,actions:t}){let[i,a]=w(""),[n,d]=w(""),[$,m]=w(null),[b,x]=w(!1),f=k(null),l=e.rules.length>0,p=async g=>{if(!(b||s||g==="always"&&!l)){x(!0),m(null);try{let C=g==="always"&&n?{for:n}:{};await B.post(M("/v1/approvals",e.id),{answer:g,...i?{reason:i}:{},...C}),r(`${Z[g]} by you`)}catch(C){C.status===409?r(C.first?`${Z[C.first.answer]??"Answered"} by ${h(C.first.by,60)}`:"Expired"):m(C)}x(!1)}},y=k(performance.now());S(()=>(t.set(e.id,{since:y.current,once:()=>p("once"),always:()=>p("always"),deny:()=>f.current?.focus()}),()=>t.delete(e.id)));let v=g=>C=>C.detail<2&&p(g),N=g=>{g.key!=="Enter"||g.isComposing||(g.preventDefault(),p("deny"))};return c`
    <${ee} row=${e} name=${h(e.tool,100)} title=${h(e.tool,100)} end=${s} isCurrent=${o} onChoose=${u}>
      <p class="card-reason">
        ${e.risk&&c`<span class=${`tag ${ne[e.risk]??""}`}>${h(e.risk,20)}</span> `}${A(e.reason)}
      </p>
      <${fe} row=${e} />
      ${l&&c`<p class="card-rules">
        <span class="muted">“Always allow” stores:</span>${" "}
        ${e.rules.map(g=>c`<code key=${g}>${h(g,300)}</code> `)}
      </p>`}
      <${R} error=${$} />
      <div class="card-answer" inert=${!!s}>
        <${I} label="Reason" value=${i} onInput=${a} inputRef=${f} maxlength="2000" placeholder="For the agent, optional; Enter denies" onKeyDown=${N} />
        <div class="buttons">
          <button type="button" class="main" disabled=${b} onClick=${v("once")}>Allow once</button>
          <button type="button" disabled=${b||!l} title=${l?"":"Not offered for this call"} onClick=${v("always")}>Always allow</button>
          ${l&&c`<${I} label="How long to always allow" hidden value=${n} onInput=${d} options=${re} />`}
          <button type="button" class="danger" disabled=${b} onClick=${v("deny")}>Deny</button>
        </div>
      </div>
    <//>
  `}function fe({row:e}){let s=_(()=>X(e.diff),[e.diff]),o=e.command||s;return c`
    ${e.command&&c`<${me} row=${e} />`}
    ${e.diff&&!s&&c`<p class="mono">${h(e.diff,2e3)}</p>`}
    ${s&&c`<${G} view=${s} />`}
    ${o?c`<details><summary>Arguments</summary><${O} value=${e.arguments} label="Arguments" /></details>`:c`<${O} value=${e.arguments} label="Arguments" />`}
  `}var q=2e4;function me({row:{command:e,part:s,risk:o,risk_reason:u}}){let r=e.length>q?`${e.slice(0,q)}\u2026`:e,t=s&&o!=="safe"?r.indexOf(s):-1;return c`
    <pre class="command" tabindex="0" role="region" aria-label="Command">${t<0?A(r):c`${A(r.slice(0,t))}<mark class="risky">${A(s)}</mark>${A(r.slice(t+s.length))}`}</pre>
    ${u&&c`<p class=${ne[o]??""}>${h(u,500)}</p>`}
    ${e.length>q&&c`<p class="warn">The command has ${e.length.toLocaleString()} characters; only its start is shown.</p>`}
  `}var E="\0own";function he({row:e,end:s,isCurrent:o,onChoose:u,onEnd:r}){let[t,i]=w({}),[a,n]=w({}),[d,$]=w(null),m=({question:l,multi_select:p})=>{let y=t[l],v=a[l]?.trim()??"";return p?[...y??[]].map(N=>N===E?v:N).filter(Boolean):y===E?v:y??""},b=e.questions.filter(l=>!m(l).length),x=async l=>{if(l.preventDefault(),!s){if(b.length){$({message:`Not answered yet: ${h(b[0].question,200)}`});return}$(null);try{let p={answers:Object.fromEntries(e.questions.map(y=>[y.question,m(y)]))};await B.post(M("/v1/questions",e.id),p),r("Answered by you")}catch(p){p.status===409?r(p.first?.by?`Answered by ${h(p.first.by,60)}`:"No longer asked"):$(p)}}},f=(l,p,y)=>{if(!l.multi_select)i({...t,[l.question]:p});else{let v=new Set(t[l.question]??[]);y?v.add(p):v.delete(p),i({...t,[l.question]:v})}};return c`
    <${ee} row=${e} name="Question" title="Question" end=${s} isCurrent=${o} onChoose=${u}>
      <form onSubmit=${x} inert=${!!s}>
        ${e.questions.map(l=>c`
            <${ye}
              key=${l.question}
              question=${l}
              chosen=${t[l.question]}
              text=${a[l.question]??""}
              onChoose=${f}
              onText=${p=>{n({...a,[l.question]:p}),f(l,E,!0)}}
            />
          `)}
        <${R} error=${d} />
        <div class="buttons"><button type="submit" class="main">Answer</button></div>
      </form>
    <//>
  `}function ye({question:e,chosen:s,text:o,onChoose:u,onText:r}){let t=K(),i=e.multi_select?"checkbox":"radio",a=d=>e.multi_select?!!s?.has(d):s===d,n=d=>$=>u(e,d,$.currentTarget.checked);return c`
    <fieldset>
      <legend>${e.header&&c`<span class="tag">${h(e.header,40)}</span> `}${A(e.question)}</legend>
      ${e.options.map(({label:d,description:$},m)=>{let b=$?`${t}-${m}`:void 0;return c`
          <div key=${d} class="choice">
            <label class="check">
              <input type=${i} name=${t} checked=${a(d)} aria-describedby=${b} onChange=${n(d)} />
              ${A(d)}
            </label>
            ${$&&c`<p class="hint" id=${b}>${A($)}</p>`}
          </div>
        `})}
      <div class="choice own">
        <label class="check">
          <input type=${i} name=${t} checked=${a(E)} onChange=${n(E)} />In your own words
        </label>
        <${I} label="Your own words" hidden value=${o} onInput=${r} maxlength="2000" />
      </div>
    </fieldset>
  `}export{le as default};
