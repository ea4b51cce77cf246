import{a as q,b as G}from"./chunk-ZJRP4W4X.js";import{c as M}from"./chunk-I2E4NN26.js";import{D as R,E as J,H as D,J as F,K as E,L as H,P as z,Q as B,R as K,T as X,U as _,c as m,d as I,f as w,g as j,l as i,q as S,r as k,t as C}from"./chunk-KLSJ4T3K.js";import{a as N,b as x,d as O,e as P,f as T}from"./chunk-3V634C7B.js";import"./chunk-OOJM4CTU.js";var et=400,nt=2e4,st=1<<20,V={running:"",completed:"good",stopped:"warn",failed:"bad",timeout:"bad",limit:"bad"};function at(){let{rows:t,error:n,isLoading:s,hasMore:o,more:u,reload:r}=X("/v1/jobs","jobs",{on:["job"]}),{rows:c,hold:y}=B(t),d=K(c,M.value.get("id"));return i`
    <${D} title="Jobs" fills>
      <${E} error=${n} retry=${r} />
      ${s&&i`<${H} />`}
      ${!s&&!c.length&&!n&&i`<${F} title="No jobs">
        A job is a command that runs in the background. Agents start one with <code>run_shell</code> and${" "}
        <code>run_in_background</code>.
      <//>`}
      ${d&&i`<div class="beside">
        <ul class="rows" aria-label="Jobs" ...${y}>
          ${c.map(e=>i`
              <li key=${e.id}>
                <a class="row" href=${`/jobs?id=${encodeURIComponent(e.id)}`} aria-current=${e.id===d.id?"true":void 0}>
                  <span class="row-name mono">${x(e.command,120)}</span>
                  <span class="row-facts">
                    <span class=${`tag ${V[e.status]??""}`}>${Q(e)}</span>
                    <span class="muted mono">${x(e.session,40)}</span>
                    <span class="muted"><${z} at=${e.started} /></span>
                  </span>
                </a>
              </li>
            `)}
          ${o&&i`<li><button type="button" onClick=${u}>Show older jobs</button></li>`}
        </ul>
        <${ot} key=${d.id} job=${d} onChange=${r} />
      </div>`}
    <//>
  `}function Q({status:t,exit_code:n}){return Number.isInteger(n)&&t!=="running"?`${t}, exit ${n}`:t}function ot({job:t,onChange:n}){let[s,o]=m(!1),[u,r]=m(!0),[c,y]=m(""),[d,e]=m(0),f=w(null),{lines:p,dropped:g,error:v,size:$}=lt(t,s),b=_(async()=>{await S.post(k("/v1/jobs",t.id,"stop"),{},C()),n()}),l=j(()=>{let a=c.trim().toLowerCase();return a?p.flatMap((h,tt)=>h.text.includes(a)?[tt]:[]):[]},[p,p.length,c]),W=l.length?l[d%l.length]:-1,Y=new Set(l),L=a=>{if(!l.length)return;let h=(d+a+l.length)%l.length;e(h),r(!1),f.current.toRow(l[h])},A=t.status==="running",Z=[t.reason,O(p.length+g,"line"),T($),t.cwd&&`in ${t.cwd}`].filter(Boolean);return i`
    <section class="job" aria-label=${`Job ${x(t.id,40)}`}>
      <pre class="command" tabindex="0" role="group" aria-label="Command">${N(t.command.slice(0,5e3))}</pre>
      <div class="job-tools">
        <span class=${`tag ${V[t.status]??""}`}>${Q(t)}</span>
        <span class="muted"><${rt} job=${t} /></span>
        <${R}
          label="Search"
          hidden
          placeholder="Search"
          data-filter
          value=${c}
          onInput=${a=>(y(a),e(0))}
          onKeyDown=${a=>a.key==="Enter"&&L(a.shiftKey?-1:1)}
        />
        ${c&&i`<span class="muted" role="status">${l.length?`${d%l.length+1} of ${l.length}`:"no match"}</span>
          <button type="button" class="small" onClick=${()=>L(-1)}>Previous</button>
          <button type="button" class="small" onClick=${()=>L(1)}>Next</button>`}
        <span class="job-buttons">
          ${!u&&i`<button type="button" onClick=${()=>r(!0)}>Follow</button>`}
          <button type="button" onClick=${()=>o(!s)}>${s?"Resume":"Pause"}</button>
          <button type="button" class="danger" disabled=${!A||b.isRunning} onClick=${b.run}>Stop</button>
        </span>
      </div>
      <${E} error=${v??b.error} />
      <div class="terminal">
        ${p.length?i`<${J}
              rows=${p}
              keyOf=${a=>a.number}
              label="Output"
              estimate=${19}
              sticks=${u}
              handle=${f}
              tabindex="0"
              onScroll=${a=>r(a.scrollTop+a.clientHeight>=a.scrollHeight-6)}
              renderRow=${(a,h)=>i`<div class=${`output-line${h===W?" current":Y.has(h)?" match":""}`}>${G(a.parts)}</div>`}
            />`:i`<p class="muted">${A?"No output yet.":"No output."}</p>`}
      </div>
      <p class="muted job-facts">${x(Z.join(" \xB7 "),400)}${g>0&&` \xB7 first ${O(g,"line")} omitted`}</p>
      ${A&&i`<${it} job=${t} />`}
    </section>
  `}function rt({job:t}){let[,n]=m(0);return I(()=>{if(t.status!=="running")return;let s=setInterval(()=>n(o=>o+1),1e3);return()=>clearInterval(s)},[t.status]),P(t.status==="running"?Date.now()-Date.parse(t.started):t.seconds*1e3)}function it({job:t}){let[n,s]=m(""),o=_(async()=>{await S.post(k("/v1/jobs",t.id,"input"),{text:`${n}
`},C()),s("")});return t.tty?i`
    <form class="job-input" onSubmit=${r=>{r.preventDefault(),o.run()}}>
      <${R} label="Send a line" hidden placeholder="A line for the job" value=${n} onInput=${s} />
      <button type="submit" disabled=${o.isRunning}>Send a line</button>
    </form>
    <${E} error=${o.error} />
  `:i`<p class="muted">This job was started without a terminal, so it accepts no input.</p>`}function lt(t,n){let[,s]=m(0),[o,u]=m(null),r=w(null);r.current??={after:0,ansi:new q,lines:[],partial:"",number:0,dropped:0,hasEnded:!1},I(()=>{let e=r.current;if(n||e.hasEnded)return;let f=new AbortController,p=null,g=async()=>{let v=et;try{let $=await S.get(k("/v1/jobs",t.id,"output"),{after:e.after,...C()},{signal:f.signal}),b=$.next>e.after;b&&ut(e,$.output),e.after=$.next,e.hasEnded=!b&&$.status!=="running",b&&(v=30),u(null),(b||e.hasEnded)&&s(l=>l+1)}catch($){if(f.signal.aborted)return;u($),v=3e3,$.status===404&&(e.hasEnded=!0)}!e.hasEnded&&!f.signal.aborted&&(p=setTimeout(g,v))};return g(),()=>{f.abort(),clearTimeout(p)}},[n,t.status]);let{lines:c,dropped:y,after:d}=r.current;return{lines:c,dropped:y,size:d,error:o}}function ut(t,n){t.hasOpen&&t.lines.pop();let s=(t.partial+n).split(`
`);t.partial=s.pop().slice(-st);let o=s.map(r=>U(t,r));if(t.hasOpen=t.partial!=="",t.hasOpen){let r={...t.ansi};o.push(U(t,t.partial)),Object.assign(t.ansi,r),t.number-=1}t.lines=[...t.lines,...o];let u=t.lines.length-nt;u>0&&(t.lines=t.lines.slice(u),t.dropped+=u)}function U(t,n){t.number+=1;let s=t.ansi.read(n);return{number:t.number,parts:s,text:s.map(o=>o.text).join("").toLowerCase()}}export{at as default};
