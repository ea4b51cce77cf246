import{c as v,e as a}from"./chunk-I2E4NN26.js";import{B as A,D as c,F as x,H as D,J as j,K as U,L as q,P as M,T as _,U as k,c as b,d as f,f as T,g as E,l as t,q as y,t as O,y as N}from"./chunk-KLSJ4T3K.js";import{a as d,b as $,d as C,e as I}from"./chunk-3V634C7B.js";import"./chunk-OOJM4CTU.js";var V=["text","tool","session","outcome","since"],B=200,J=2e5,X=[["","Any time"],["1h","Last hour"],["24h","Last 24 hours"],["7d","Last 7 days"],["30d","Last 30 days"]],H=[{key:"seq",label:"Row",isNumber:!0},{key:"time",label:"Time",cell:e=>t`<${M} at=${e.time} />`},{key:"tool",label:"Tool",cell:e=>t`<span class="mono nowrap">${$(e.tool,40)}</span>`},{key:"decision",label:"Decision",cell:e=>t`<span class=${`tag ${{deny:"bad",ask:"warn"}[e.decision]??""}`}>${d(e.decision)}</span>`},{key:"outcome",label:"Outcome",cell:e=>t`<span class=${`nowrap ${e.outcome==="ok"?"good":"bad"}`}>${$(e.outcome,60)}</span>`},{key:"reason",label:"Reason",cell:e=>t`<span class="roomy">${$(e.reason,160)}</span>`},{key:"session",label:"Session",cell:e=>t`<span class="mono">${$(e.session,40)}</span>`},{key:"approver",label:"Approver"},{key:"micros",label:"Duration",isNumber:!0,cell:e=>I(e.micros/1e3)},{key:"digest",label:"Digest",cell:e=>t`<span class="mono nowrap" title=${d(e.digest)}>${d(e.digest.slice(0,8))}</span>`}];function Q(){let e=E(()=>G(v.value),[v.value]),o=K(e),s={...o,...O()},{rows:l,error:i,isLoading:r,hasMore:u,more:p,reload:g}=_("/v1/audit","entries",{query:s,limit:200}),m=k(()=>y.get("/v1/audit/verify")),[w,S]=b(null),h=k(()=>Y(s)),L=Object.keys(o).length>0,R=l[0]?.seq,F=async()=>{S(null),S(await m.run()??null)},P=t`
    <button type="button" disabled=${m.isRunning} onClick=${F}>Verify</button>
    <button type="button" disabled=${h.isRunning} onClick=${()=>h.run()}>Export</button>
  `;return t`
    <${D} title="Audit" actions=${P}>
      <form class="filters" role="search" onSubmit=${n=>n.preventDefault()}>
        <${c} label="Search" value=${e.text??""} onInput=${n=>a({text:n})} placeholder="Tool, session, reason, approver or outcome" data-filter="" />
        <${c} label="Tool" value=${e.tool??""} onInput=${n=>a({tool:n})} placeholder="Any" />
        <${c} label="Session" value=${e.session??""} onInput=${n=>a({session:n})} placeholder="Any" />
        <${c} label="Outcome" value=${e.outcome??""} onInput=${n=>a({outcome:n})} placeholder="ok, or an error code" />
        <${c} label="Since" value=${e.since??""} onInput=${n=>a({since:n})} options=${X} />
      </form>
      <div role="status" class="verified">${m.isRunning?"Checking every row\u2026":w&&t`<${W} answer=${w} />`}</div>
      <${U} error=${i??m.error??h.error} retry=${g} />
      ${r&&t`<${q} />`}
      ${!r&&!i&&!l.length&&t`<${j} title=${L?"No call matches":"No calls yet"}>${L?"Change the search or the filters.":"Every call that hilt decides on is recorded here."}<//>`}
      <${z} key=${`${JSON.stringify(s)} ${R}`} newest=${R} listed=${s} reload=${g} />
      ${l.length>0&&t`<${x} label="Recorded calls" columns=${H} rows=${l} keyOf=${n=>n.id} tools=${!1} />`}
      ${u&&t`<div class="buttons"><button type="button" onClick=${p}>Show older calls</button></div>`}
    <//>
  `}function z({newest:e,listed:o,reload:s}){let[l,i]=b(!1);return f(()=>{let u=A(async()=>{let{entries:p}=await y.get("/v1/audit",{...o,limit:1});i(p.length>0&&p[0].seq!==e)});return N(["call"],u)},[]),l&&t`<div class="buttons"><button type="button" onClick=${async()=>{await s(),i(!1)}}>Load new calls</button></div>`}function G(e){return Object.fromEntries(V.filter(o=>e.get(o)).map(o=>[o,e.get(o)]))}function K(e){let[o,s]=b(e),l=T(null);return f(()=>(l.current=setTimeout(()=>s(e),B),()=>clearTimeout(l.current)),[e]),o}function W({answer:e}){return e.ok?t`<p class="good">The audit trail is intact: every row matches the one before it.</p>`:t`
    <div class="error-box">
      <p>The audit trail is broken in ${C(e.breaks.length,"place")}: rows were changed or removed.</p>
      <ul>${e.breaks.slice(0,20).map(({row:o,reason:s})=>t`<li key=${o}>Row ${o}: ${d(s)}</li>`)}</ul>
    </div>
  `}async function Y(e){let o=[],s;do{let r=await y.get("/v1/audit",{...e,limit:1e3,cursor:s});o.push(...r.entries.map(u=>`${JSON.stringify(u)}
`)),s=r.next}while(s&&o.length<J);let l=URL.createObjectURL(new Blob(o,{type:"application/jsonl"})),i=document.createElement("a");i.href=l,i.download=`hilt-audit-${new Date().toISOString().slice(0,10)}.jsonl`,i.click(),setTimeout(()=>URL.revokeObjectURL(l),6e4)}export{Q as default};
