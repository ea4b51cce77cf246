import{a as B,b as F,c as J}from"./chunk-AP3FNEBE.js";import{c as G}from"./chunk-IDSXIV7L.js";import{a as Z}from"./chunk-ZYFDT3ZF.js";import"./chunk-7MHHIP2K.js";import"./chunk-CGVARZRQ.js";import"./chunk-HOPPGRH4.js";import"./chunk-ATZ5GOGL.js";import{c as ee,e as te}from"./chunk-STYMQTOY.js";import{F as N,G as X,H as Y,i as j,j as c,r as v,s as K,u as Q,w as R,y as U}from"./chunk-OTZEVIFT.js";import{d as $,e as W,g as w,h as y,n as t,p as C,r as i,s as I,t as S,u as H}from"./chunk-N2E7E6HP.js";import"./chunk-OOJM4CTU.js";var ue=34,$e=1500,pe=[["","Any outcome"],["ok","Succeeded"],["failed","Failed"],["denied","Denied"],["running","Running"]];function he(){let e=c.version.value,[n,a]=$(""),[o,p]=$(""),[d,T]=$(""),[m,oe]=$(""),[u,ae]=$(null),[g,E]=$(new Set),b=w(null),P=w(0),[D,L]=$(!1),k=w(0),f=u??c.rows,l=y(()=>{let s=n.trim().toLowerCase();return f.filter(h=>(!o||h.session===o)&&(!d||h.tool===d)&&(!m||F(h)===m)&&(!s||J(h).includes(s))).reverse()},[f,u?0:e,n,o,d,m]),ie=y(()=>[...c.sessions].sort(),[c.sessions.size]),le=y(()=>[...c.tools].sort(),[c.tools.size]),re=()=>Date.now()-P.current<$e||!!document.activeElement?.closest?.(".call-head"),V=()=>g.size>0||re();l.length&&(k.current===0||!D&&!V())&&(k.current=l[0].seq);let _=D?l.findIndex(s=>s.seq<=k.current):0,O=u?c.rows.length-u.length:_<0?l.length:_,ce=s=>{let r=new Set(g);r.delete(s)||r.add(s),E(r),te({call:r.has(s)?String(s):null})},A=ee.value.get("call");W(()=>{let s=A===null?-1:l.findIndex(r=>String(r.key)===A);s<0||g.has(l[s].key)||(E(new Set([...g,l[s].key])),b.current.toRow(s))},[A,l.length>0]);let q=s=>{let r=document.activeElement?.closest?.("[data-index]"),h=r?Number(r.dataset.index):-1,M=Math.max(0,Math.min(l.length-1,h+s));b.current?.toRow(M),requestAnimationFrame(()=>document.querySelector(`[data-index="${M}"] .call-head`)?.focus())},x=()=>ae(u?null:[...c.rows]);G({j:{label:"Next call",run:()=>q(1)},k:{label:"Previous call",run:()=>q(-1)},p:{label:"Pause or resume",run:x}});let de=()=>{b.current.toTop(),L(!1)},z=n||o||d||m;return t`
    <${Q}
      title="Activity"
      fills
      actions=${t`
        <${v} label="Filter" hidden placeholder="Filter" data-filter value=${n} onInput=${a} />
        <${v} label="Session" hidden value=${o} onInput=${p} options=${ne("Any session",ie)} />
        <${v} label="Tool" hidden value=${d} onInput=${T} options=${ne("Any tool",le)} />
        <${v} label="Outcome" hidden value=${m} onInput=${oe} options=${pe} />
        <button type="button" onClick=${x}>${u?"Resume":"Pause"}</button>
      `}
    >
      <div class="feed" onPointerMove=${()=>P.current=Date.now()}>
        <div class="feed-head" aria-hidden="true">
          <span>Time</span><span>Session</span><span>Tool</span><span>Argument</span><span>Outcome</span><span class="number">Duration</span>
        </div>
        ${l.length?t`<${K}
              rows=${l}
              keyOf=${s=>s.key}
              label="Calls"
              estimate=${ue}
              isHeld=${V}
              handle=${b}
              onScroll=${s=>L(s.scrollTop>4)}
              renderRow=${s=>t`<${fe} call=${s} isOpen=${g.has(s.key)} onToggle=${ce} />`}
            />`:t`<${me} isFiltered=${z} hasCalls=${f.length>0} />`}
        ${O>0&&t`<button type="button" class="newer main" onClick=${u?x:de}>${S(O,"new call")}</button>`}
      </div>
      <p class="status-line" role="status">
        ${z?`${l.length.toLocaleString()} of ${S(f.length,"call")}`:S(f.length,"call")}${u?" \xB7 paused":""}
      </p>
    <//>
  `}function ne(e,n){return[["",e],...n.map(a=>[a,i(a,60)])]}function me({isFiltered:e,hasCalls:n}){return e&&n?t`<${R} title="No call matches">Change the filter, the session, the tool or the outcome.<//>`:j.value==="connecting"?t`<${U} />`:t`
    <${R} title="No calls yet">
      Calls of all your agents appear here while <code>hilt serve</code> is running. Connect an agent with${" "}
      <code>hilt mcp install</code>, or try a tool on the Tools page.
    <//>
  `}var ge={running:"",ok:"good",denied:"warn",failed:"bad"};function fe({call:e,isOpen:n,onToggle:a}){let o=F(e),p=e.envelope?.meta?.exit_code,d=o==="ok"&&Number.isInteger(p)&&p!==0,T=d?`exit ${p}`:o==="failed"||o==="denied"?i(e.outcome,40).toLowerCase().replaceAll("_"," "):o;return t`
    <div class=${`call ${o}${n?" open":""}`}>
      <button type="button" class="call-head" aria-expanded=${n} onClick=${()=>a(e.key)}>
        <${Y} at=${e.started??e.time} />
        <span class="call-session mono">${i(e.session,60)}</span>
        <span class="call-tool">${i(e.tool,60)}</span>
        <span class="call-argument mono">${i(B(e),300)}</span>
        <span class="call-outcome"><span class=${`tag ${d?"warn":ge[o]}`}>${T}</span></span>
        <span class="call-duration number">${H(e.ms)}</span>
      </button>
      ${n&&t`<${ve} call=${e} />`}
    </div>
  `}function ve({call:e}){let{envelope:n}=e,a=e.args!==void 0,o=t`<p class="muted">${a?"The call is still running.":e.cut?"Too large to be stored.":"Not stored: the setting events.keep is false."}</p>`,p=[["View",()=>n?t`
              ${n.ok===!1&&t`<${be} envelope=${n} />`}
              ${(n.ok!==!1||n.visualization)&&t`<${Z} view=${n.visualization} text=${n.result??""} content=${n.content} />`}
            `:o],["Arguments",()=>a?t`<${N} value=${e.args} label="Arguments" />`:o],["Envelope",()=>n?t`<${N} value=${n} label="Envelope" />`:o],["Why",()=>t`<${we} call=${e} />`]];return t`
    <div class="call-details">
      <${X} label=${`Details of ${i(e.tool,60)}`} tabs=${p} />
      ${e.change&&t`<p><a href=${`/changes?id=${encodeURIComponent(e.change)}`}>View and restore this change</a></p>`}
    </div>
  `}function be({envelope:e}){return t`
    <div class="failure">
      <p>${I(String(e.error??"The call failed."),C,1e4)}</p>
      ${e.suggestion&&t`<p class="muted">${I(String(e.suggestion))}</p>`}
    </div>
  `}var se={allow:"good",ask:"warn",deny:"bad"};function we({call:e}){if(e.type==="call_started")return t`<p class="muted">The call is still running.</p>`;let n=Array.isArray(e.votes)?e.votes:[];return t`
    <dl class="facts">
      <div><dt>Decision</dt><dd><span class=${`tag ${se[e.verdict]??""}`}>${i(e.verdict,20)}</span> ${C(e.reason)}</dd></div>
      ${e.workspace&&t`<div><dt>Folder</dt><dd class="mono">${i(e.workspace,300)}</dd></div>`}
      ${e.approver&&t`<div><dt>Approved by</dt><dd>${i(e.approver,100)}</dd></div>`}
    </dl>
    ${n.length>0&&t`<table class="votes" aria-label="Votes">
      <thead><tr><th scope="col">Vote</th><th scope="col">Voter</th><th scope="col">Reason</th></tr></thead>
      <tbody>
        ${n.map((a,o)=>t`
            <tr key=${o}>
              <td><span class=${`tag ${se[a.verdict]??""}`}>${i(a.verdict,20)}</span></td>
              <td>${i(a.voter,100)}</td>
              <td>${i(a.reason,1e3)}</td>
            </tr>
          `)}
      </tbody>
    </table>`}
    ${!n.length&&t`<p class="muted">There were no votes: nothing objected to the call.</p>`}
  `}export{he as default};
