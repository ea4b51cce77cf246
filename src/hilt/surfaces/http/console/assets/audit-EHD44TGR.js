import{a as F}from"./chunk-7MHHIP2K.js";import{c as k,e as c}from"./chunk-STYMQTOY.js";import{H as M,L as _,M as v,e as y,h as O,m as N,p as A,r as a,t as x,u as D,w as j,x as U,y as q}from"./chunk-OTZEVIFT.js";import{d as b,e as h,g as T,h as E,n as t,p as d,r as $,t as C,u as I}from"./chunk-N2E7E6HP.js";import"./chunk-OOJM4CTU.js";var B=["text","tool","session","outcome","since"],J=200,X=2e5,H=[["","Any time"],["1h","Last hour"],["24h","Last 24 hours"],["7d","Last 7 days"],["30d","Last 30 days"]],Q=[{key:"seq",label:"Row",isNumber:!0},{key:"time",label:"Time",cell:e=>t`<${M} at=${e.time} />`},{key:"tool",label:"Tool",cell:e=>t`<span class="mono nowrap">${$(e.tool,40)}</span>`},{key:"decision",label:"Decision",cell:e=>t`<span class=${`tag ${{deny:"bad",ask:"warn"}[e.decision]??""}`}>${d(e.decision)}</span>`},{key:"outcome",label:"Outcome",cell:e=>t`<span class=${`nowrap ${e.outcome==="ok"?"good":"bad"}`}>${$(e.outcome,60)}</span>`},{key:"reason",label:"Reason",cell:e=>t`<span class="roomy">${$(e.reason,160)}</span>`},{key:"session",label:"Session",cell:e=>t`<span class="mono">${$(e.session,40)}</span>`},{key:"approver",label:"Approver"},{key:"micros",label:"Duration",isNumber:!0,cell:e=>I(e.micros/1e3)},{key:"digest",label:"Digest",cell:e=>t`<span class="mono nowrap" title=${d(e.digest)}>${d(e.digest.slice(0,8))}</span>`}];function z(){let e=E(()=>K(k.value),[k.value]),o=W(e),s={...o,...O()},{rows:l,error:i,isLoading:r,hasMore:u,more:p,reload:g}=_("/v1/audit","entries",{query:s,limit:200}),m=v(()=>y.get("/v1/audit/verify")),[w,R]=b(null),f=v(()=>Z(s)),S=Object.keys(o).length>0,L=l[0]?.seq,P=async()=>{R(null),R(await m.run()??null)},V=t`
    <button type="button" disabled=${m.isRunning} onClick=${P}>Verify</button>
    <button type="button" disabled=${f.isRunning} onClick=${()=>f.run()}>Export</button>
  `;return t`
    <${D} title="Audit" actions=${V}>
      <form class="filters" role="search" onSubmit=${n=>n.preventDefault()}>
        <${a} label="Search" value=${e.text??""} onInput=${n=>c({text:n})} placeholder="Tool, session, reason, approver or outcome" data-filter="" />
        <${a} label="Tool" value=${e.tool??""} onInput=${n=>c({tool:n})} placeholder="Any" />
        <${a} label="Session" value=${e.session??""} onInput=${n=>c({session:n})} placeholder="Any" />
        <${a} label="Outcome" value=${e.outcome??""} onInput=${n=>c({outcome:n})} placeholder="ok, or an error code" />
        <${a} label="Since" value=${e.since??""} onInput=${n=>c({since:n})} options=${H} />
      </form>
      <div role="status" class="verified">${m.isRunning?"Checking every row\u2026":w&&t`<${Y} answer=${w} />`}</div>
      <${U} error=${i??m.error??f.error} retry=${g} />
      ${r&&t`<${q} />`}
      ${!r&&!i&&!l.length&&t`<${j} title=${S?"No call matches":"No calls yet"}>${S?"Change the search or the filters.":"Every call that hilt decides on is recorded here."}<//>`}
      <${G} key=${`${JSON.stringify(s)} ${L}`} newest=${L} listed=${s} reload=${g} />
      ${l.length>0&&t`<${x} label="Recorded calls" columns=${Q} rows=${l} keyOf=${n=>n.id} tools=${!1} />`}
      ${u&&t`<div class="buttons"><button type="button" onClick=${p}>Show older calls</button></div>`}
    <//>
  `}function G({newest:e,listed:o,reload:s}){let[l,i]=b(!1);return h(()=>{let u=A(async()=>{let{entries:p}=await y.get("/v1/audit",{...o,limit:1});i(p.length>0&&p[0].seq!==e)});return N(["call"],u)},[]),l&&t`<div class="buttons"><button type="button" onClick=${async()=>{await s(),i(!1)}}>Load new calls</button></div>`}function K(e){return Object.fromEntries(B.filter(o=>e.get(o)).map(o=>[o,e.get(o)]))}function W(e){let[o,s]=b(e),l=T(null);return h(()=>(l.current=setTimeout(()=>s(e),J),()=>clearTimeout(l.current)),[e]),o}function Y({answer:e}){return e.ok?t`<p class="good">The audit trail is intact: every row matches the one before it.</p>`:t`
    <div class="error-box">
      <p>The audit trail is broken in ${C(e.breaks.length,"place")}: rows were changed or removed.</p>
      <${F} rows=${e.breaks} draw=${({row:o,reason:s})=>t`<li key=${o}>Row ${o}: ${d(s)}</li>`} />
    </div>
  `}async function Z(e){let o=[],s;do{let r=await y.get("/v1/audit",{...e,limit:1e3,cursor:s});o.push(...r.entries.map(u=>`${JSON.stringify(u)}
`)),s=r.next}while(s&&o.length<X);let l=URL.createObjectURL(new Blob(o,{type:"application/jsonl"})),i=document.createElement("a");i.href=l,i.download=`hilt-audit-${new Date().toISOString().slice(0,10)}.jsonl`,i.click(),setTimeout(()=>URL.revokeObjectURL(l),6e4)}export{z as default};
