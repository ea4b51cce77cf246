import{a as Y,b as C,c as Z}from"./chunk-BCSU5DWP.js";import{c as j}from"./chunk-PJOPEJHK.js";import{a as ee}from"./chunk-PHO5LFNA.js";import"./chunk-MAMODEFP.js";import"./chunk-6V2ROGPT.js";import{c as G,e as H}from"./chunk-OXIS5CAQ.js";import{A as B,D as J,F as I,H as Q,J as R,K as U,L as X,c as $,d as W,f as y,g as w,l as t,r as z,s as f,z as v}from"./chunk-3TPHJNPE.js";import{a as S,b as r,c as k,d as K}from"./chunk-JDG66FB4.js";import"./chunk-OOJM4CTU.js";var de=34,ue=1500,$e=[["","Any outcome"],["ok","Succeeded"],["failed","Failed"],["denied","Denied"],["running","Running"]];function pe(){let e=f.version.value,[n,a]=$(""),[o,p]=$(""),[d,A]=$(""),[m,se]=$(""),[c,oe]=$(null),[g,N]=$(new Set),b=y(null),F=y(0),[D,E]=$(!1),P=y(0),u=c??f.rows,i=w(()=>{let s=n.trim().toLowerCase();return u.filter(h=>(!o||h.session===o)&&(!d||h.tool===d)&&(!m||C(h)===m)&&(!s||Z(h).includes(s))).reverse()},[u,c?0:e,n,o,d,m]),_=s=>[...new Set(u.map(l=>l[s]))].sort().slice(0,500),ae=w(()=>_("session"),[u,c?0:e]),ie=w(()=>_("tool"),[u,c?0:e]);!D&&i.length&&(P.current=i[0].seq);let O=D?i.findIndex(s=>s.seq<=P.current):0,V=c?f.rows.length-c.length:O<0?i.length:O,le=s=>{let l=new Set(g);l.delete(s)||l.add(s),N(l),H({call:l.has(s)?String(s):null})},T=G.value.get("call");W(()=>{let s=T===null?-1:i.findIndex(l=>String(l.key)===T);s<0||g.has(i[s].key)||(N(new Set([...g,i[s].key])),b.current.toRow(s))},[T,i.length>0]);let L=s=>{let l=document.activeElement?.closest?.("[data-index]"),h=l?Number(l.dataset.index):-1,M=Math.max(0,Math.min(i.length-1,h+s));b.current?.toRow(M),requestAnimationFrame(()=>document.querySelector(`[data-index="${M}"] .call-head`)?.focus())},x=()=>oe(c?null:[...f.rows]);j({j:{label:"Next call",run:()=>L(1)},k:{label:"Previous call",run:()=>L(-1)},p:{label:"Pause or resume",run:x}});let re=()=>g.size>0||Date.now()-F.current<ue||!!document.activeElement?.closest?.(".call-head"),ce=()=>{b.current.toTop(),E(!1)},q=n||o||d||m;return t`
    <${J}
      title="Activity"
      fills
      actions=${t`
        <${v} label="Filter" hidden placeholder="Filter" data-filter value=${n} onInput=${a} />
        <${v} label="Session" hidden value=${o} onInput=${p} options=${te("Any session",ae)} />
        <${v} label="Tool" hidden value=${d} onInput=${A} options=${te("Any tool",ie)} />
        <${v} label="Outcome" hidden value=${m} onInput=${se} options=${$e} />
        <button type="button" onClick=${x}>${c?"Resume":"Pause"}</button>
      `}
    >
      <div class="feed" onPointerMove=${()=>F.current=Date.now()}>
        <div class="feed-head" aria-hidden="true">
          <span>Time</span><span>Session</span><span>Tool</span><span>Argument</span><span>Outcome</span><span class="number">Duration</span>
        </div>
        ${i.length?t`<${B}
              rows=${i}
              keyOf=${s=>s.key}
              label="Calls"
              estimate=${de}
              isHeld=${re}
              handle=${b}
              onScroll=${s=>E(s.scrollTop>4)}
              renderRow=${s=>t`<${fe} call=${s} isOpen=${g.has(s.key)} onToggle=${le} />`}
            />`:t`<${he} isFiltered=${q} hasCalls=${u.length>0} />`}
        ${V>0&&t`<button type="button" class="newer main" onClick=${c?x:ce}>${k(V,"new call")}</button>`}
      </div>
      <p class="status-line" role="status">
        ${q?`${i.length.toLocaleString()} of ${k(u.length,"call")}`:k(u.length,"call")}${c?" \xB7 paused":""}
      </p>
    <//>
  `}function te(e,n){return[["",e],...n.map(a=>[a,r(a,60)])]}function he({isFiltered:e,hasCalls:n}){return e&&n?t`<${I} title="No call matches">Change the filter, the session, the tool or the outcome.<//>`:z.value==="connecting"?t`<${Q} />`:t`
    <${I} title="No calls yet">
      Calls of every agent of yours appear here while <code>hilt serve</code> runs. Connect one with${" "}
      <code>hilt mcp install</code>, or try a tool on the page <a href="/tools">Tools</a>.
    <//>
  `}var me={running:"running",ok:"ok",denied:"denied",failed:"failed"},ge={running:"",ok:"good",denied:"warn",failed:"bad"};function fe({call:e,isOpen:n,onToggle:a}){let o=C(e),p=e.envelope?.meta?.exit_code,d=o==="ok"&&Number.isInteger(p)&&p!==0,A=d?`exit ${p}`:o==="failed"||o==="denied"?r(e.outcome,40).replaceAll("_"," "):me[o];return t`
    <div class=${`call ${o}${n?" open":""}`}>
      <button type="button" class="call-head" aria-expanded=${n} onClick=${()=>a(e.key)}>
        <${X} at=${e.started??e.time} />
        <span class="call-session mono">${r(e.session,60)}</span>
        <span class="call-tool">${r(e.tool,60)}</span>
        <span class="call-argument mono">${r(Y(e),300)}</span>
        <span class="call-outcome"><span class=${`tag ${d?"warn":ge[o]}`}>${A}</span></span>
        <span class="call-duration number">${K(e.ms)}</span>
      </button>
      ${n&&t`<${ve} call=${e} />`}
    </div>
  `}function ve({call:e}){let{envelope:n}=e,a=e.args!==void 0,o=t`<p class="muted">${a?"The call is still running.":"Not kept: the setting events.keep is false."}</p>`,p=[["View",()=>n?t`
              ${n.ok===!1&&t`<${be} envelope=${n} />`}
              ${(n.ok!==!1||n.visualization)&&t`<${ee} view=${n.visualization} text=${n.result??""} content=${n.content} />`}
            `:o],["Arguments",()=>a?t`<${R} value=${e.args} label="Arguments" />`:o],["Envelope",()=>n?t`<${R} value=${n} label="Envelope" />`:o],["Why",()=>t`<${ye} call=${e} />`]];return t`
    <div class="call-details">
      <${U} label=${`Details of ${r(e.tool,60)}`} tabs=${p} />
      ${e.change&&t`<p><a href=${`/changes?id=${encodeURIComponent(e.change)}`}>See and restore this change</a></p>`}
    </div>
  `}function be({envelope:e}){return t`
    <div class="failure">
      <p>${S(String(e.error??"The call failed.").slice(0,1e4))}</p>
      ${e.suggestion&&t`<p class="muted">${S(String(e.suggestion).slice(0,2e3))}</p>`}
    </div>
  `}var ne={allow:"good",ask:"warn",deny:"bad"};function ye({call:e}){if(e.type==="call_started")return t`<p class="muted">The call is still running.</p>`;let n=Array.isArray(e.votes)?e.votes:[];return t`
    <dl class="facts">
      <div><dt>Decision</dt><dd><span class=${`tag ${ne[e.verdict]??""}`}>${r(e.verdict,20)}</span> ${S(e.reason)}</dd></div>
      ${e.approver&&t`<div><dt>Approved by</dt><dd>${r(e.approver,100)}</dd></div>`}
    </dl>
    ${n.length>0&&t`<table class="votes" aria-label="Votes">
      <thead><tr><th scope="col">Vote</th><th scope="col">Voter</th><th scope="col">Reason</th></tr></thead>
      <tbody>
        ${n.map((a,o)=>t`
            <tr key=${o}>
              <td><span class=${`tag ${ne[a.verdict]??""}`}>${r(a.verdict,20)}</span></td>
              <td>${r(a.voter,100)}</td>
              <td>${r(a.reason,1e3)}</td>
            </tr>
          `)}
      </tbody>
    </table>`}
    ${!n.length&&t`<p class="muted">Nothing objected, so there were no votes.</p>`}
  `}export{pe as default};
