import{a as X,b as F,c as Y}from"./chunk-RAME25B2.js";import{c as W}from"./chunk-NXPVCQAM.js";import{a as Z}from"./chunk-66O46X3H.js";import"./chunk-NY4JBLLB.js";import"./chunk-PRHSHAEU.js";import{c as j,e as G}from"./chunk-3KKKWTDR.js";import{C as v,D as K,G as B,I as C,K as J,M as I,N as Q,O as U,c as $,d as z,f as w,g as y,l as t,u as M,v as c}from"./chunk-U6OC2DCP.js";import{a as S,b as i,c as k,d as H}from"./chunk-JDG66FB4.js";import"./chunk-OOJM4CTU.js";var ce=34,de=1500,ue=[["","Any outcome"],["ok","Succeeded"],["failed","Failed"],["denied","Denied"],["running","Running"]];function $e(){let e=c.version.value,[s,a]=$(""),[o,p]=$(""),[d,A]=$(""),[m,se]=$(""),[u,ne]=$(null),[g,N]=$(new Set),b=w(null),R=w(0),[E,D]=$(!1),P=w(0),f=u??c.rows,l=y(()=>{let n=s.trim().toLowerCase();return f.filter(h=>(!o||h.session===o)&&(!d||h.tool===d)&&(!m||F(h)===m)&&(!n||Y(h).includes(n))).reverse()},[f,u?0:e,s,o,d,m]),oe=y(()=>[...c.sessions].sort(),[c.sessions.size]),ae=y(()=>[...c.tools].sort(),[c.tools.size]);!E&&l.length&&(P.current=l[0].seq);let _=E?l.findIndex(n=>n.seq<=P.current):0,L=u?c.rows.length-u.length:_<0?l.length:_,ie=n=>{let r=new Set(g);r.delete(n)||r.add(n),N(r),G({call:r.has(n)?String(n):null})},T=j.value.get("call");z(()=>{let n=T===null?-1:l.findIndex(r=>String(r.key)===T);n<0||g.has(l[n].key)||(N(new Set([...g,l[n].key])),b.current.toRow(n))},[T,l.length>0]);let V=n=>{let r=document.activeElement?.closest?.("[data-index]"),h=r?Number(r.dataset.index):-1,q=Math.max(0,Math.min(l.length-1,h+n));b.current?.toRow(q),requestAnimationFrame(()=>document.querySelector(`[data-index="${q}"] .call-head`)?.focus())},x=()=>ne(u?null:[...c.rows]);W({j:{label:"Next call",run:()=>V(1)},k:{label:"Previous call",run:()=>V(-1)},p:{label:"Pause or resume",run:x}});let le=()=>g.size>0||Date.now()-R.current<de||!!document.activeElement?.closest?.(".call-head"),re=()=>{b.current.toTop(),D(!1)},O=s||o||d||m;return t`
    <${B}
      title="Activity"
      fills
      actions=${t`
        <${v} label="Filter" hidden placeholder="Filter" data-filter value=${s} onInput=${a} />
        <${v} label="Session" hidden value=${o} onInput=${p} options=${ee("Any session",oe)} />
        <${v} label="Tool" hidden value=${d} onInput=${A} options=${ee("Any tool",ae)} />
        <${v} label="Outcome" hidden value=${m} onInput=${se} options=${ue} />
        <button type="button" onClick=${x}>${u?"Resume":"Pause"}</button>
      `}
    >
      <div class="feed" onPointerMove=${()=>R.current=Date.now()}>
        <div class="feed-head" aria-hidden="true">
          <span>Time</span><span>Session</span><span>Tool</span><span>Argument</span><span>Outcome</span><span class="number">Duration</span>
        </div>
        ${l.length?t`<${K}
              rows=${l}
              keyOf=${n=>n.key}
              label="Calls"
              estimate=${ce}
              isHeld=${le}
              handle=${b}
              onScroll=${n=>D(n.scrollTop>4)}
              renderRow=${n=>t`<${me} call=${n} isOpen=${g.has(n.key)} onToggle=${ie} />`}
            />`:t`<${pe} isFiltered=${O} hasCalls=${f.length>0} />`}
        ${L>0&&t`<button type="button" class="newer main" onClick=${u?x:re}>${k(L,"new call")}</button>`}
      </div>
      <p class="status-line" role="status">
        ${O?`${l.length.toLocaleString()} of ${k(f.length,"call")}`:k(f.length,"call")}${u?" \xB7 paused":""}
      </p>
    <//>
  `}function ee(e,s){return[["",e],...s.map(a=>[a,i(a,60)])]}function pe({isFiltered:e,hasCalls:s}){return e&&s?t`<${C} title="No call matches">Change the filter, the session, the tool or the outcome.<//>`:M.value==="connecting"?t`<${J} />`:t`
    <${C} title="No calls yet">
      Calls of every agent of yours appear here while <code>hilt serve</code> runs. Connect one with${" "}
      <code>hilt mcp install</code>, or try a tool on the page <a href="/tools">Tools</a>.
    <//>
  `}var he={running:"",ok:"good",denied:"warn",failed:"bad"};function me({call:e,isOpen:s,onToggle:a}){let o=F(e),p=e.envelope?.meta?.exit_code,d=o==="ok"&&Number.isInteger(p)&&p!==0,A=d?`exit ${p}`:o==="failed"||o==="denied"?i(e.outcome,40).toLowerCase().replaceAll("_"," "):o;return t`
    <div class=${`call ${o}${s?" open":""}`}>
      <button type="button" class="call-head" aria-expanded=${s} onClick=${()=>a(e.key)}>
        <${U} at=${e.started??e.time} />
        <span class="call-session mono">${i(e.session,60)}</span>
        <span class="call-tool">${i(e.tool,60)}</span>
        <span class="call-argument mono">${i(X(e),300)}</span>
        <span class="call-outcome"><span class=${`tag ${d?"warn":he[o]}`}>${A}</span></span>
        <span class="call-duration number">${H(e.ms)}</span>
      </button>
      ${s&&t`<${ge} call=${e} />`}
    </div>
  `}function ge({call:e}){let{envelope:s}=e,a=e.args!==void 0,o=t`<p class="muted">${a?"The call is still running.":"Not kept: the setting events.keep is false."}</p>`,p=[["View",()=>s?t`
              ${s.ok===!1&&t`<${fe} envelope=${s} />`}
              ${(s.ok!==!1||s.visualization)&&t`<${Z} view=${s.visualization} text=${s.result??""} content=${s.content} />`}
            `:o],["Arguments",()=>a?t`<${I} value=${e.args} label="Arguments" />`:o],["Envelope",()=>s?t`<${I} value=${s} label="Envelope" />`:o],["Why",()=>t`<${ve} call=${e} />`]];return t`
    <div class="call-details">
      <${Q} label=${`Details of ${i(e.tool,60)}`} tabs=${p} />
      ${e.change&&t`<p><a href=${`/changes?id=${encodeURIComponent(e.change)}`}>See and restore this change</a></p>`}
    </div>
  `}function fe({envelope:e}){return t`
    <div class="failure">
      <p>${S(String(e.error??"The call failed.").slice(0,1e4))}</p>
      ${e.suggestion&&t`<p class="muted">${S(String(e.suggestion).slice(0,2e3))}</p>`}
    </div>
  `}var te={allow:"good",ask:"warn",deny:"bad"};function ve({call:e}){if(e.type==="call_started")return t`<p class="muted">The call is still running.</p>`;let s=Array.isArray(e.votes)?e.votes:[];return t`
    <dl class="facts">
      <div><dt>Decision</dt><dd><span class=${`tag ${te[e.verdict]??""}`}>${i(e.verdict,20)}</span> ${S(e.reason)}</dd></div>
      ${e.workspace&&t`<div><dt>Folder</dt><dd class="mono">${i(e.workspace,300)}</dd></div>`}
      ${e.approver&&t`<div><dt>Approved by</dt><dd>${i(e.approver,100)}</dd></div>`}
    </dl>
    ${s.length>0&&t`<table class="votes" aria-label="Votes">
      <thead><tr><th scope="col">Vote</th><th scope="col">Voter</th><th scope="col">Reason</th></tr></thead>
      <tbody>
        ${s.map((a,o)=>t`
            <tr key=${o}>
              <td><span class=${`tag ${te[a.verdict]??""}`}>${i(a.verdict,20)}</span></td>
              <td>${i(a.voter,100)}</td>
              <td>${i(a.reason,1e3)}</td>
            </tr>
          `)}
      </tbody>
    </table>`}
    ${!s.length&&t`<p class="muted">Nothing objected, so there were no votes.</p>`}
  `}export{$e as default};
