import{a as Y,b as R,c as Z}from"./chunk-D2SIM5BW.js";import{c as j}from"./chunk-XE6IHMAG.js";import{a as ee}from"./chunk-QHXDEMCZ.js";import"./chunk-MKXN7MWL.js";import"./chunk-ZJRP4W4X.js";import{c as G,e as H}from"./chunk-I2E4NN26.js";import{D as v,E as J,H as K,J as I,L as Q,N as F,O as U,P as X,c as $,d as M,f as w,g as y,l as t,u as W,v as c}from"./chunk-KLSJ4T3K.js";import{a as S,b as i,d as T,e as B}from"./chunk-3V634C7B.js";import"./chunk-OOJM4CTU.js";var de=34,ue=1500,$e=[["","Any outcome"],["ok","Succeeded"],["failed","Failed"],["denied","Denied"],["running","Running"]];function pe(){let e=c.version.value,[n,a]=$(""),[o,p]=$(""),[d,k]=$(""),[m,se]=$(""),[u,oe]=$(null),[g,N]=$(new Set),b=w(null),E=w(0),[P,D]=$(!1),A=w(0),f=u??c.rows,l=y(()=>{let s=n.trim().toLowerCase();return f.filter(h=>(!o||h.session===o)&&(!d||h.tool===d)&&(!m||R(h)===m)&&(!s||Z(h).includes(s))).reverse()},[f,u?0:e,n,o,d,m]),ae=y(()=>[...c.sessions].sort(),[c.sessions.size]),ie=y(()=>[...c.tools].sort(),[c.tools.size]),le=()=>Date.now()-E.current<ue||!!document.activeElement?.closest?.(".call-head"),V=()=>g.size>0||le();l.length&&(A.current===0||!P&&!V())&&(A.current=l[0].seq);let _=P?l.findIndex(s=>s.seq<=A.current):0,L=u?c.rows.length-u.length:_<0?l.length:_,re=s=>{let r=new Set(g);r.delete(s)||r.add(s),N(r),H({call:r.has(s)?String(s):null})},x=G.value.get("call");M(()=>{let s=x===null?-1:l.findIndex(r=>String(r.key)===x);s<0||g.has(l[s].key)||(N(new Set([...g,l[s].key])),b.current.toRow(s))},[x,l.length>0]);let O=s=>{let r=document.activeElement?.closest?.("[data-index]"),h=r?Number(r.dataset.index):-1,z=Math.max(0,Math.min(l.length-1,h+s));b.current?.toRow(z),requestAnimationFrame(()=>document.querySelector(`[data-index="${z}"] .call-head`)?.focus())},C=()=>oe(u?null:[...c.rows]);j({j:{label:"Next call",run:()=>O(1)},k:{label:"Previous call",run:()=>O(-1)},p:{label:"Pause or resume",run:C}});let ce=()=>{b.current.toTop(),D(!1)},q=n||o||d||m;return t`
    <${K}
      title="Activity"
      fills
      actions=${t`
        <${v} label="Filter" hidden placeholder="Filter" data-filter value=${n} onInput=${a} />
        <${v} label="Session" hidden value=${o} onInput=${p} options=${te("Any session",ae)} />
        <${v} label="Tool" hidden value=${d} onInput=${k} options=${te("Any tool",ie)} />
        <${v} label="Outcome" hidden value=${m} onInput=${se} options=${$e} />
        <button type="button" onClick=${C}>${u?"Resume":"Pause"}</button>
      `}
    >
      <div class="feed" onPointerMove=${()=>E.current=Date.now()}>
        <div class="feed-head" aria-hidden="true">
          <span>Time</span><span>Session</span><span>Tool</span><span>Argument</span><span>Outcome</span><span class="number">Duration</span>
        </div>
        ${l.length?t`<${J}
              rows=${l}
              keyOf=${s=>s.key}
              label="Calls"
              estimate=${de}
              isHeld=${V}
              handle=${b}
              onScroll=${s=>D(s.scrollTop>4)}
              renderRow=${s=>t`<${ge} call=${s} isOpen=${g.has(s.key)} onToggle=${re} />`}
            />`:t`<${he} isFiltered=${q} hasCalls=${f.length>0} />`}
        ${L>0&&t`<button type="button" class="newer main" onClick=${u?C:ce}>${T(L,"new call")}</button>`}
      </div>
      <p class="status-line" role="status">
        ${q?`${l.length.toLocaleString()} of ${T(f.length,"call")}`:T(f.length,"call")}${u?" \xB7 paused":""}
      </p>
    <//>
  `}function te(e,n){return[["",e],...n.map(a=>[a,i(a,60)])]}function he({isFiltered:e,hasCalls:n}){return e&&n?t`<${I} title="No call matches">Change the filter, the session, the tool or the outcome.<//>`:W.value==="connecting"?t`<${Q} />`:t`
    <${I} title="No calls yet">
      Calls of all your agents appear here while <code>hilt serve</code> is running. Connect an agent with${" "}
      <code>hilt mcp install</code>, or try a tool on the Tools page.
    <//>
  `}var me={running:"",ok:"good",denied:"warn",failed:"bad"};function ge({call:e,isOpen:n,onToggle:a}){let o=R(e),p=e.envelope?.meta?.exit_code,d=o==="ok"&&Number.isInteger(p)&&p!==0,k=d?`exit ${p}`:o==="failed"||o==="denied"?i(e.outcome,40).toLowerCase().replaceAll("_"," "):o;return t`
    <div class=${`call ${o}${n?" open":""}`}>
      <button type="button" class="call-head" aria-expanded=${n} onClick=${()=>a(e.key)}>
        <${X} at=${e.started??e.time} />
        <span class="call-session mono">${i(e.session,60)}</span>
        <span class="call-tool">${i(e.tool,60)}</span>
        <span class="call-argument mono">${i(Y(e),300)}</span>
        <span class="call-outcome"><span class=${`tag ${d?"warn":me[o]}`}>${k}</span></span>
        <span class="call-duration number">${B(e.ms)}</span>
      </button>
      ${n&&t`<${fe} call=${e} />`}
    </div>
  `}function fe({call:e}){let{envelope:n}=e,a=e.args!==void 0,o=t`<p class="muted">${a?"The call is still running.":"Not stored: the setting events.keep is false."}</p>`,p=[["View",()=>n?t`
              ${n.ok===!1&&t`<${ve} envelope=${n} />`}
              ${(n.ok!==!1||n.visualization)&&t`<${ee} view=${n.visualization} text=${n.result??""} content=${n.content} />`}
            `:o],["Arguments",()=>a?t`<${F} value=${e.args} label="Arguments" />`:o],["Envelope",()=>n?t`<${F} value=${n} label="Envelope" />`:o],["Why",()=>t`<${be} call=${e} />`]];return t`
    <div class="call-details">
      <${U} label=${`Details of ${i(e.tool,60)}`} tabs=${p} />
      ${e.change&&t`<p><a href=${`/changes?id=${encodeURIComponent(e.change)}`}>View and restore this change</a></p>`}
    </div>
  `}function ve({envelope:e}){return t`
    <div class="failure">
      <p>${S(String(e.error??"The call failed.").slice(0,1e4))}</p>
      ${e.suggestion&&t`<p class="muted">${S(String(e.suggestion).slice(0,2e3))}</p>`}
    </div>
  `}var ne={allow:"good",ask:"warn",deny:"bad"};function be({call:e}){if(e.type==="call_started")return t`<p class="muted">The call is still running.</p>`;let n=Array.isArray(e.votes)?e.votes:[];return t`
    <dl class="facts">
      <div><dt>Decision</dt><dd><span class=${`tag ${ne[e.verdict]??""}`}>${i(e.verdict,20)}</span> ${S(e.reason)}</dd></div>
      ${e.workspace&&t`<div><dt>Folder</dt><dd class="mono">${i(e.workspace,300)}</dd></div>`}
      ${e.approver&&t`<div><dt>Approved by</dt><dd>${i(e.approver,100)}</dd></div>`}
    </dl>
    ${n.length>0&&t`<table class="votes" aria-label="Votes">
      <thead><tr><th scope="col">Vote</th><th scope="col">Voter</th><th scope="col">Reason</th></tr></thead>
      <tbody>
        ${n.map((a,o)=>t`
            <tr key=${o}>
              <td><span class=${`tag ${ne[a.verdict]??""}`}>${i(a.verdict,20)}</span></td>
              <td>${i(a.voter,100)}</td>
              <td>${i(a.reason,1e3)}</td>
            </tr>
          `)}
      </tbody>
    </table>`}
    ${!n.length&&t`<p class="muted">There were no votes: nothing objected to the call.</p>`}
  `}export{pe as default};
