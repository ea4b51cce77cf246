import{c as v,e as a}from"./chunk-KWNQ5HX6.js";import{C as c,E as A,G as C,I as x,J as I,K as j,O as D,S as U,T as g,c as p,d as y,f as T,g as E,l as o,q as f,t as h,y as O}from"./chunk-Y7Q4PVQ2.js";import{a as u,b as d,d as k,e as N}from"./chunk-LAGCCF5Y.js";import"./chunk-OOJM4CTU.js";var _=["text","tool","session","outcome","since"],F=200,V=2e5,B=[["","Any time"],["1h","Last hour"],["24h","Last 24 hours"],["7d","Last 7 days"],["30d","Last 30 days"]],J=[{key:"seq",label:"Row",isNumber:!0},{key:"time",label:"Time",cell:e=>o`<${D} at=${e.time} />`},{key:"tool",label:"Tool",cell:e=>o`<span class="mono nowrap">${d(e.tool,40)}</span>`},{key:"decision",label:"Decision",cell:e=>o`<span class=${`tag ${{deny:"bad",ask:"warn"}[e.decision]??""}`}>${u(e.decision)}</span>`},{key:"outcome",label:"Outcome",cell:e=>o`<span class=${`nowrap ${e.outcome==="ok"?"good":"bad"}`}>${d(e.outcome,60)}</span>`},{key:"reason",label:"Reason",cell:e=>o`<span class="roomy">${d(e.reason,160)}</span>`},{key:"session",label:"Session",cell:e=>o`<span class="mono">${d(e.session,40)}</span>`},{key:"approver",label:"Approver"},{key:"micros",label:"Duration",isNumber:!0,cell:e=>N(e.micros/1e3)},{key:"digest",label:"Digest",cell:e=>o`<span class="mono nowrap" title=${u(e.digest)}>${u(e.digest.slice(0,8))}</span>`}];function X(){let e=E(()=>z(v.value),[v.value]),t=G(e),{rows:s,error:l,isLoading:i,hasMore:r,more:m,reload:w}=U("/v1/audit","entries",{query:{...t,...h()},limit:200}),$=g(()=>f.get("/v1/audit/verify")),[S,L]=p(null),b=g(()=>K({...t,...h()})),R=Object.keys(t).length>0,M=`${JSON.stringify(t)} ${s[0]?.seq}`,P=async()=>{L(null),L(await $.run()??null)},q=o`
    <button type="button" disabled=${$.isRunning} onClick=${P}>Verify</button>
    <button type="button" disabled=${b.isRunning} onClick=${()=>b.run()}>Export</button>
  `;return o`
    <${C} title="Audit" actions=${q}>
      <form class="filters" role="search" onSubmit=${n=>n.preventDefault()}>
        <${c} label="Search" value=${e.text??""} onInput=${n=>a({text:n})} placeholder="Tool, session, reason, approver or outcome" data-filter="" />
        <${c} label="Tool" value=${e.tool??""} onInput=${n=>a({tool:n})} placeholder="Any" />
        <${c} label="Session" value=${e.session??""} onInput=${n=>a({session:n})} placeholder="Any" />
        <${c} label="Outcome" value=${e.outcome??""} onInput=${n=>a({outcome:n})} placeholder="ok, or an error code" />
        <${c} label="Since" value=${e.since??""} onInput=${n=>a({since:n})} options=${B} />
      </form>
      <div role="status" class="verified">${$.isRunning?"Checking every row\u2026":S&&o`<${H} answer=${S} />`}</div>
      <${I} error=${l??$.error??b.error} retry=${w} />
      ${i&&o`<${j} />`}
      ${!i&&!l&&!s.length&&o`<${x} title=${R?"No call matches":"No calls yet"}>${R?"Change the search or the filters.":"Every call that hilt decides on is recorded here."}<//>`}
      <${Q} key=${M} reload=${w} />
      ${s.length>0&&o`<${A} label="Recorded calls" columns=${J} rows=${s} keyOf=${n=>n.id} tools=${!1} />`}
      ${r&&o`<div class="buttons"><button type="button" onClick=${m}>Show older calls</button></div>`}
    <//>
  `}function Q({reload:e}){let[t,s]=p(0);y(()=>O(["call"],i=>s(r=>r+i.length)),[]);let l=async()=>{await e(),s(0)};return t>0&&o`<div class="buttons"><button type="button" onClick=${l}>Load ${k(t,"new call")}</button></div>`}function z(e){return Object.fromEntries(_.filter(t=>e.get(t)).map(t=>[t,e.get(t)]))}function G(e){let[t,s]=p(e),l=T(null);return y(()=>(l.current=setTimeout(()=>s(e),F),()=>clearTimeout(l.current)),[e]),t}function H({answer:e}){return e.ok?o`<p class="good">The audit trail is intact: every row fits the one before it.</p>`:o`
    <div class="error-box">
      <p>The audit trail is broken in ${k(e.breaks.length,"place")}: rows were changed or removed.</p>
      <ul>${e.breaks.slice(0,20).map(({row:t,reason:s})=>o`<li key=${t}>Row ${t}: ${u(s)}</li>`)}</ul>
    </div>
  `}async function K(e){let t=[],s;do{let r=await f.get("/v1/audit",{...e,limit:1e3,cursor:s});t.push(...r.entries.map(m=>`${JSON.stringify(m)}
`)),s=r.next}while(s&&t.length<V);let l=URL.createObjectURL(new Blob(t,{type:"application/jsonl"})),i=document.createElement("a");i.href=l,i.download=`hilt-audit-${new Date().toISOString().slice(0,10)}.jsonl`,i.click(),setTimeout(()=>URL.revokeObjectURL(l),6e4)}export{X as default};
