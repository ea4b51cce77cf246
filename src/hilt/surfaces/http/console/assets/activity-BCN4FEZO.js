import{a as Y,b as N,c as Z}from"./chunk-PDK3GT7C.js";import{c as j}from"./chunk-2HEYMLI7.js";import{a as ee}from"./chunk-FMLBX3LJ.js";import"./chunk-EMKNZY2K.js";import"./chunk-VYSUAU4J.js";import{c as G,e as H}from"./chunk-KWNQ5HX6.js";import{C as v,D as B,G as J,I,K as Q,M as F,N as U,O as X,c as $,d as M,f as w,g as y,l as t,u as W,v as c}from"./chunk-Y7Q4PVQ2.js";import{a as S,b as i,d as k,e as K}from"./chunk-LAGCCF5Y.js";import"./chunk-OOJM4CTU.js";var de=34,ue=1500,$e=[["","Any outcome"],["ok","Succeeded"],["failed","Failed"],["denied","Denied"],["running","Running"]];function pe(){let e=c.version.value,[s,a]=$(""),[o,p]=$(""),[d,A]=$(""),[m,ne]=$(""),[u,oe]=$(null),[g,R]=$(new Set),b=w(null),E=w(0),[P,D]=$(!1),T=w(0),f=u??c.rows,l=y(()=>{let n=s.trim().toLowerCase();return f.filter(h=>(!o||h.session===o)&&(!d||h.tool===d)&&(!m||N(h)===m)&&(!n||Z(h).includes(n))).reverse()},[f,u?0:e,s,o,d,m]),ae=y(()=>[...c.sessions].sort(),[c.sessions.size]),ie=y(()=>[...c.tools].sort(),[c.tools.size]),le=()=>Date.now()-E.current<ue||!!document.activeElement?.closest?.(".call-head"),_=()=>g.size>0||le();l.length&&(T.current===0||!P&&!_())&&(T.current=l[0].seq);let L=P?l.findIndex(n=>n.seq<=T.current):0,V=u?c.rows.length-u.length:L<0?l.length:L,re=n=>{let r=new Set(g);r.delete(n)||r.add(n),R(r),H({call:r.has(n)?String(n):null})},x=G.value.get("call");M(()=>{let n=x===null?-1:l.findIndex(r=>String(r.key)===x);n<0||g.has(l[n].key)||(R(new Set([...g,l[n].key])),b.current.toRow(n))},[x,l.length>0]);let O=n=>{let r=document.activeElement?.closest?.("[data-index]"),h=r?Number(r.dataset.index):-1,z=Math.max(0,Math.min(l.length-1,h+n));b.current?.toRow(z),requestAnimationFrame(()=>document.querySelector(`[data-index="${z}"] .call-head`)?.focus())},C=()=>oe(u?null:[...c.rows]);j({j:{label:"Next call",run:()=>O(1)},k:{label:"Previous call",run:()=>O(-1)},p:{label:"Pause or resume",run:C}});let ce=()=>{b.current.toTop(),D(!1)},q=s||o||d||m;return t`
    <${J}
      title="Activity"
      fills
      actions=${t`
        <${v} label="Filter" hidden placeholder="Filter" data-filter value=${s} onInput=${a} />
        <${v} label="Session" hidden value=${o} onInput=${p} options=${te("Any session",ae)} />
        <${v} label="Tool" hidden value=${d} onInput=${A} options=${te("Any tool",ie)} />
        <${v} label="Outcome" hidden value=${m} onInput=${ne} options=${$e} />
        <button type="button" onClick=${C}>${u?"Resume":"Pause"}</button>
      `}
    >
      <div class="feed" onPointerMove=${()=>E.current=Date.now()}>
        <div class="feed-head" aria-hidden="true">
          <span>Time</span><span>Session</span><span>Tool</span><span>Argument</span><span>Outcome</span><span class="number">Duration</span>
        </div>
        ${l.length?t`<${B}
              rows=${l}
              keyOf=${n=>n.key}
              label="Calls"
              estimate=${de}
              isHeld=${_}
              handle=${b}
              onScroll=${n=>D(n.scrollTop>4)}
              renderRow=${n=>t`<${ge} call=${n} isOpen=${g.has(n.key)} onToggle=${re} />`}
            />`:t`<${he} isFiltered=${q} hasCalls=${f.length>0} />`}
        ${V>0&&t`<button type="button" class="newer main" onClick=${u?C:ce}>${k(V,"new call")}</button>`}
      </div>
      <p class="status-line" role="status">
        ${q?`${l.length.toLocaleString()} of ${k(f.length,"call")}`:k(f.length,"call")}${u?" \xB7 paused":""}
      </p>
    <//>
  `}function te(e,s){return[["",e],...s.map(a=>[a,i(a,60)])]}function he({isFiltered:e,hasCalls:s}){return e&&s?t`<${I} title="No call matches">Change the filter, the session, the tool or the outcome.<//>`:W.value==="connecting"?t`<${Q} />`:t`
    <${I} title="No calls yet">
      Calls of every agent of yours appear here while <code>hilt serve</code> runs. Connect one with${" "}
      <code>hilt mcp install</code>, or try a tool on the page Tools.
    <//>
  `}var me={running:"",ok:"good",denied:"warn",failed:"bad"};function ge({call:e,isOpen:s,onToggle:a}){let o=N(e),p=e.envelope?.meta?.exit_code,d=o==="ok"&&Number.isInteger(p)&&p!==0,A=d?`exit ${p}`:o==="failed"||o==="denied"?i(e.outcome,40).toLowerCase().replaceAll("_"," "):o;return t`
    <div class=${`call ${o}${s?" open":""}`}>
      <button type="button" class="call-head" aria-expanded=${s} onClick=${()=>a(e.key)}>
        <${X} at=${e.started??e.time} />
        <span class="call-session mono">${i(e.session,60)}</span>
        <span class="call-tool">${i(e.tool,60)}</span>
        <span class="call-argument mono">${i(Y(e),300)}</span>
        <span class="call-outcome"><span class=${`tag ${d?"warn":me[o]}`}>${A}</span></span>
        <span class="call-duration number">${K(e.ms)}</span>
      </button>
      ${s&&t`<${fe} call=${e} />`}
    </div>
  `}function fe({call:e}){let{envelope:s}=e,a=e.args!==void 0,o=t`<p class="muted">${a?"The call is still running.":"Not kept: the setting events.keep is false."}</p>`,p=[["View",()=>s?t`
              ${s.ok===!1&&t`<${ve} envelope=${s} />`}
              ${(s.ok!==!1||s.visualization)&&t`<${ee} view=${s.visualization} text=${s.result??""} content=${s.content} />`}
            `:o],["Arguments",()=>a?t`<${F} value=${e.args} label="Arguments" />`:o],["Envelope",()=>s?t`<${F} value=${s} label="Envelope" />`:o],["Why",()=>t`<${be} call=${e} />`]];return t`
    <div class="call-details">
      <${U} label=${`Details of ${i(e.tool,60)}`} tabs=${p} />
      ${e.change&&t`<p><a href=${`/changes?id=${encodeURIComponent(e.change)}`}>See and restore this change</a></p>`}
    </div>
  `}function ve({envelope:e}){return t`
    <div class="failure">
      <p>${S(String(e.error??"The call failed.").slice(0,1e4))}</p>
      ${e.suggestion&&t`<p class="muted">${S(String(e.suggestion).slice(0,2e3))}</p>`}
    </div>
  `}var se={allow:"good",ask:"warn",deny:"bad"};function be({call:e}){if(e.type==="call_started")return t`<p class="muted">The call is still running.</p>`;let s=Array.isArray(e.votes)?e.votes:[];return t`
    <dl class="facts">
      <div><dt>Decision</dt><dd><span class=${`tag ${se[e.verdict]??""}`}>${i(e.verdict,20)}</span> ${S(e.reason)}</dd></div>
      ${e.workspace&&t`<div><dt>Folder</dt><dd class="mono">${i(e.workspace,300)}</dd></div>`}
      ${e.approver&&t`<div><dt>Approved by</dt><dd>${i(e.approver,100)}</dd></div>`}
    </dl>
    ${s.length>0&&t`<table class="votes" aria-label="Votes">
      <thead><tr><th scope="col">Vote</th><th scope="col">Voter</th><th scope="col">Reason</th></tr></thead>
      <tbody>
        ${s.map((a,o)=>t`
            <tr key=${o}>
              <td><span class=${`tag ${se[a.verdict]??""}`}>${i(a.verdict,20)}</span></td>
              <td>${i(a.voter,100)}</td>
              <td>${i(a.reason,1e3)}</td>
            </tr>
          `)}
      </tbody>
    </table>`}
    ${!s.length&&t`<p class="muted">Nothing objected, so there were no votes.</p>`}
  `}export{pe as default};
