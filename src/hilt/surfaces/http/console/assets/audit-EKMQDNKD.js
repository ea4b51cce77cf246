import{c as f,e as r}from"./chunk-RYPRQTRN.js";import{C as a,E as O,G as A,I as x,J as I,K as C,O as N,S as j,T as v,c as b,d as R,f as S,g as L,l as t,q as y,t as h}from"./chunk-ZUDFSCJ6.js";import{a as c,b as u,c as T,d as E}from"./chunk-JDG66FB4.js";import"./chunk-OOJM4CTU.js";var P=["text","tool","session","outcome","since"],_=200,q=2e5,F=[["","Any time"],["1h","Last hour"],["24h","Last 24 hours"],["7d","Last 7 days"],["30d","Last 30 days"]],V=[{key:"seq",label:"Row",isNumber:!0},{key:"time",label:"Time",cell:e=>t`<${N} at=${e.time} />`},{key:"tool",label:"Tool",cell:e=>t`<span class="mono nowrap">${u(e.tool,40)}</span>`},{key:"decision",label:"Decision",cell:e=>t`<span class=${`tag ${{deny:"bad",ask:"warn"}[e.decision]??""}`}>${c(e.decision)}</span>`},{key:"outcome",label:"Outcome",cell:e=>t`<span class=${`nowrap ${e.outcome==="ok"?"good":"bad"}`}>${u(e.outcome,60)}</span>`},{key:"reason",label:"Reason",cell:e=>t`<span class="roomy">${u(e.reason,160)}</span>`},{key:"session",label:"Session",cell:e=>t`<span class="mono">${u(e.session,40)}</span>`},{key:"approver",label:"Approver"},{key:"micros",label:"Duration",isNumber:!0,cell:e=>E(e.micros/1e3)},{key:"digest",label:"Digest",cell:e=>t`<span class="mono nowrap" title=${c(e.digest)}>${c(e.digest.slice(0,8))}</span>`}];function B(){let e=L(()=>X(f.value),[f.value]),o=J(e),{rows:n,error:l,isLoading:i,hasMore:d,more:p,reload:D}=j("/v1/audit","entries",{query:{...o,...h()},on:["call"],limit:200}),$=v(()=>y.get("/v1/audit/verify")),[k,g]=b(null),m=v(()=>z({...o,...h()})),w=Object.keys(o).length>0,U=async()=>{g(null),g(await $.run()??null)},M=t`
    <button type="button" disabled=${$.isRunning} onClick=${U}>Verify</button>
    <button type="button" disabled=${m.isRunning} onClick=${()=>m.run()}>Export</button>
  `;return t`
    <${A} title="Audit" actions=${M}>
      <form class="filters" role="search" onSubmit=${s=>s.preventDefault()}>
        <${a} label="Search" value=${e.text??""} onInput=${s=>r({text:s})} placeholder="Tool, session, reason, approver or outcome" data-filter="" />
        <${a} label="Tool" value=${e.tool??""} onInput=${s=>r({tool:s})} placeholder="Any" />
        <${a} label="Session" value=${e.session??""} onInput=${s=>r({session:s})} placeholder="Any" />
        <${a} label="Outcome" value=${e.outcome??""} onInput=${s=>r({outcome:s})} placeholder="ok, or an error code" />
        <${a} label="Since" value=${e.since??""} onInput=${s=>r({since:s})} options=${F} />
      </form>
      <div role="status" class="verified">${$.isRunning?"Checking every row\u2026":k&&t`<${Q} answer=${k} />`}</div>
      <${I} error=${l??$.error??m.error} retry=${D} />
      ${i&&t`<${C} />`}
      ${!i&&!l&&!n.length&&t`<${x} title=${w?"No call matches":"No calls yet"}>${w?"Change the search or the filters.":"Every call that hilt decides on is recorded here."}<//>`}
      ${n.length>0&&t`<${O} label="Recorded calls" columns=${V} rows=${n} keyOf=${s=>s.id} tools=${!1} />`}
      ${d&&t`<div class="buttons"><button type="button" onClick=${p}>Show older calls</button></div>`}
    <//>
  `}function X(e){return Object.fromEntries(P.filter(o=>e.get(o)).map(o=>[o,e.get(o)]))}function J(e){let[o,n]=b(e),l=S(null);return R(()=>(l.current=setTimeout(()=>n(e),_),()=>clearTimeout(l.current)),[e]),o}function Q({answer:e}){return e.ok?t`<p class="good">The audit trail is intact: every row fits the one before it.</p>`:t`
    <div class="error-box">
      <p>The audit trail is broken in ${T(e.breaks.length,"place")}: rows were changed or removed.</p>
      <ul>${e.breaks.slice(0,20).map(({row:o,reason:n})=>t`<li key=${o}>Row ${o}: ${c(n)}</li>`)}</ul>
    </div>
  `}async function z(e){let o=[],n;do{let d=await y.get("/v1/audit",{...e,limit:1e3,cursor:n});o.push(...d.entries.map(p=>`${JSON.stringify(p)}
`)),n=d.next}while(n&&o.length<q);let l=URL.createObjectURL(new Blob(o,{type:"application/jsonl"})),i=document.createElement("a");i.href=l,i.download=`hilt-audit-${new Date().toISOString().slice(0,10)}.jsonl`,i.click(),setTimeout(()=>URL.revokeObjectURL(l),6e4)}export{B as default};
