import{c as v,e as a}from"./chunk-MJEKZYUK.js";import{C as c,E as A,G as C,I,J as x,K as D,O as j,S as U,T as g,c as p,d as y,f as T,g as E,l as o,q as f,t as h,y as O}from"./chunk-6XL624FB.js";import{a as u,b as d,d as k,e as N}from"./chunk-3V634C7B.js";import"./chunk-OOJM4CTU.js";var F=["text","tool","session","outcome","since"],P=200,V=2e5,B=[["","Any time"],["1h","Last hour"],["24h","Last 24 hours"],["7d","Last 7 days"],["30d","Last 30 days"]],J=[{key:"seq",label:"Row",isNumber:!0},{key:"time",label:"Time",cell:e=>o`<${j} at=${e.time} />`},{key:"tool",label:"Tool",cell:e=>o`<span class="mono nowrap">${d(e.tool,40)}</span>`},{key:"decision",label:"Decision",cell:e=>o`<span class=${`tag ${{deny:"bad",ask:"warn"}[e.decision]??""}`}>${u(e.decision)}</span>`},{key:"outcome",label:"Outcome",cell:e=>o`<span class=${`nowrap ${e.outcome==="ok"?"good":"bad"}`}>${d(e.outcome,60)}</span>`},{key:"reason",label:"Reason",cell:e=>o`<span class="roomy">${d(e.reason,160)}</span>`},{key:"session",label:"Session",cell:e=>o`<span class="mono">${d(e.session,40)}</span>`},{key:"approver",label:"Approver"},{key:"micros",label:"Duration",isNumber:!0,cell:e=>N(e.micros/1e3)},{key:"digest",label:"Digest",cell:e=>o`<span class="mono nowrap" title=${u(e.digest)}>${u(e.digest.slice(0,8))}</span>`}];function X(){let e=E(()=>z(v.value),[v.value]),t=G(e),{rows:n,error:l,isLoading:r,hasMore:i,more:m,reload:w}=U("/v1/audit","entries",{query:{...t,...h()},limit:200}),$=g(()=>f.get("/v1/audit/verify")),[S,L]=p(null),b=g(()=>K({...t,...h()})),R=Object.keys(t).length>0,M=`${JSON.stringify(t)} ${n[0]?.seq}`,q=async()=>{L(null),L(await $.run()??null)},_=o`
    <button type="button" disabled=${$.isRunning} onClick=${q}>Verify</button>
    <button type="button" disabled=${b.isRunning} onClick=${()=>b.run()}>Export</button>
  `;return o`
    <${C} title="Audit" actions=${_}>
      <form class="filters" role="search" onSubmit=${s=>s.preventDefault()}>
        <${c} label="Search" value=${e.text??""} onInput=${s=>a({text:s})} placeholder="Tool, session, reason, approver or outcome" data-filter="" />
        <${c} label="Tool" value=${e.tool??""} onInput=${s=>a({tool:s})} placeholder="Any" />
        <${c} label="Session" value=${e.session??""} onInput=${s=>a({session:s})} placeholder="Any" />
        <${c} label="Outcome" value=${e.outcome??""} onInput=${s=>a({outcome:s})} placeholder="ok, or an error code" />
        <${c} label="Since" value=${e.since??""} onInput=${s=>a({since:s})} options=${B} />
      </form>
      <div role="status" class="verified">${$.isRunning?"Checking every row\u2026":S&&o`<${H} answer=${S} />`}</div>
      <${x} error=${l??$.error??b.error} retry=${w} />
      ${r&&o`<${D} />`}
      ${!r&&!l&&!n.length&&o`<${I} title=${R?"No call matches":"No calls yet"}>${R?"Change the search or the filters.":"Every call that hilt decides on is recorded here."}<//>`}
      <${Q} key=${M} reload=${w} />
      ${n.length>0&&o`<${A} label="Recorded calls" columns=${J} rows=${n} keyOf=${s=>s.id} tools=${!1} />`}
      ${i&&o`<div class="buttons"><button type="button" onClick=${m}>Show older calls</button></div>`}
    <//>
  `}function Q({reload:e}){let[t,n]=p(0);y(()=>O(["call"],r=>n(i=>i+r.length)),[]);let l=async()=>{await e(),n(0)};return t>0&&o`<div class="buttons"><button type="button" onClick=${l}>Load ${k(t,"new call")}</button></div>`}function z(e){return Object.fromEntries(F.filter(t=>e.get(t)).map(t=>[t,e.get(t)]))}function G(e){let[t,n]=p(e),l=T(null);return y(()=>(l.current=setTimeout(()=>n(e),P),()=>clearTimeout(l.current)),[e]),t}function H({answer:e}){return e.ok?o`<p class="good">The audit trail is intact: every row matches the one before it.</p>`:o`
    <div class="error-box">
      <p>The audit trail is broken in ${k(e.breaks.length,"place")}: rows were changed or removed.</p>
      <ul>${e.breaks.slice(0,20).map(({row:t,reason:n})=>o`<li key=${t}>Row ${t}: ${u(n)}</li>`)}</ul>
    </div>
  `}async function K(e){let t=[],n;do{let i=await f.get("/v1/audit",{...e,limit:1e3,cursor:n});t.push(...i.entries.map(m=>`${JSON.stringify(m)}
`)),n=i.next}while(n&&t.length<V);let l=URL.createObjectURL(new Blob(t,{type:"application/jsonl"})),r=document.createElement("a");r.href=l,r.download=`hilt-audit-${new Date().toISOString().slice(0,10)}.jsonl`,r.click(),setTimeout(()=>URL.revokeObjectURL(l),6e4)}export{X as default};
