import{a as q,b as G}from"./chunk-ATZ5GOGL.js";import{c as U}from"./chunk-STYMQTOY.js";import{H as z,I as B,J as K,L as X,M as R,e as L,f as S,h as k,r as _,s as J,u as D,w as F,x as C,y as H}from"./chunk-OTZEVIFT.js";import{d as m,e as I,g as w,h as j,n as i,p as M,r as x,s as N,t as O,u as P,v as T}from"./chunk-N2E7E6HP.js";import"./chunk-OOJM4CTU.js";var nt=400,st=2e4,at=1<<20,Q={running:"",completed:"good",stopped:"warn",failed:"bad",timeout:"bad",limit:"bad"};function ot(){let{rows:t,error:n,isLoading:s,hasMore:o,more:u,reload:r}=X("/v1/jobs","jobs",{on:["job"]}),{rows:c,hold:y}=B(t),d=K(c,U.value.get("id"));return i`
    <${D} title="Jobs" fills>
      <${C} error=${n} retry=${r} />
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
                    <span class=${`tag ${Q[e.status]??""}`}>${W(e)}</span>
                    <span class="muted mono">${x(e.session,40)}</span>
                    <span class="muted"><${z} at=${e.started} /></span>
                  </span>
                </a>
              </li>
            `)}
          ${o&&i`<li><button type="button" onClick=${u}>Show older jobs</button></li>`}
        </ul>
        <${rt} key=${d.id} job=${d} onChange=${r} />
      </div>`}
    <//>
  `}function W({status:t,exit_code:n}){return Number.isInteger(n)&&t!=="running"?`${t}, exit ${n}`:t}function rt({job:t,onChange:n}){let[s,o]=m(!1),[u,r]=m(!0),[c,y]=m(""),[d,e]=m(0),f=w(null),{lines:p,dropped:g,error:v,size:$}=ut(t,s),b=R(async()=>{await L.post(S("/v1/jobs",t.id,"stop"),{},k()),n()}),l=j(()=>{let a=c.trim().toLowerCase();return a?p.flatMap((h,et)=>h.text.includes(a)?[et]:[]):[]},[p,p.length,c]),Y=l.length?l[d%l.length]:-1,Z=new Set(l),E=a=>{if(!l.length)return;let h=(d+a+l.length)%l.length;e(h),r(!1),f.current.toRow(l[h])},A=t.status==="running",tt=[t.reason,O(p.length+g,"line"),T($),t.cwd&&`in ${t.cwd}`].filter(Boolean);return i`
    <section class="job" aria-label=${`Job ${x(t.id,40)}`}>
      <pre class="command" tabindex="0" role="group" aria-label="Command">${N(t.command,M,2e4)}</pre>
      <div class="job-tools">
        <span class=${`tag ${Q[t.status]??""}`}>${W(t)}</span>
        <span class="muted"><${it} job=${t} /></span>
        <${_}
          label="Search"
          hidden
          placeholder="Search"
          data-filter
          value=${c}
          onInput=${a=>(y(a),e(0))}
          onKeyDown=${a=>a.key==="Enter"&&E(a.shiftKey?-1:1)}
        />
        ${c&&i`<span class="muted" role="status">${l.length?`${d%l.length+1} of ${l.length}`:"no match"}</span>
          <button type="button" class="small" onClick=${()=>E(-1)}>Previous</button>
          <button type="button" class="small" onClick=${()=>E(1)}>Next</button>`}
        <span class="job-buttons">
          ${!u&&i`<button type="button" onClick=${()=>r(!0)}>Follow</button>`}
          <button type="button" onClick=${()=>o(!s)}>${s?"Resume":"Pause"}</button>
          <button type="button" class="danger" disabled=${!A||b.isRunning} onClick=${b.run}>Stop</button>
        </span>
      </div>
      <${C} error=${v??b.error} />
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
              renderRow=${(a,h)=>i`<div class=${`output-line${h===Y?" current":Z.has(h)?" match":""}`}>${G(a.parts)}</div>`}
            />`:i`<p class="muted">${A?"No output yet.":"No output."}</p>`}
      </div>
      <p class="muted job-facts">${x(tt.join(" \xB7 "),400)}${g>0&&` \xB7 first ${O(g,"line")} omitted`}</p>
      ${A&&i`<${lt} job=${t} />`}
    </section>
  `}function it({job:t}){let[,n]=m(0);return I(()=>{if(t.status!=="running")return;let s=setInterval(()=>n(o=>o+1),1e3);return()=>clearInterval(s)},[t.status]),P(t.status==="running"?Date.now()-Date.parse(t.started):t.seconds*1e3)}function lt({job:t}){let[n,s]=m(""),o=R(async()=>{await L.post(S("/v1/jobs",t.id,"input"),{text:`${n}
`},k()),s("")});return t.tty?i`
    <form class="job-input" onSubmit=${r=>{r.preventDefault(),o.run()}}>
      <${_} label="Send a line" hidden placeholder="A line for the job" value=${n} onInput=${s} />
      <button type="submit" disabled=${o.isRunning}>Send a line</button>
    </form>
    <${C} error=${o.error} />
  `:i`<p class="muted">This job was started without a terminal, so it accepts no input.</p>`}function ut(t,n){let[,s]=m(0),[o,u]=m(null),r=w(null);r.current??={after:0,ansi:new q,lines:[],partial:"",number:0,dropped:0,hasEnded:!1},I(()=>{let e=r.current;if(n||e.hasEnded)return;let f=new AbortController,p=null,g=async()=>{let v=nt;try{let $=await L.get(S("/v1/jobs",t.id,"output"),{after:e.after,...k()},{signal:f.signal}),b=$.next>e.after;b&&ct(e,$.output),e.after=$.next,e.hasEnded=!b&&$.status!=="running",b&&(v=30),u(null),(b||e.hasEnded)&&s(l=>l+1)}catch($){if(f.signal.aborted)return;u($),v=3e3,$.status===404&&(e.hasEnded=!0)}!e.hasEnded&&!f.signal.aborted&&(p=setTimeout(g,v))};return g(),()=>{f.abort(),clearTimeout(p)}},[n,t.status]);let{lines:c,dropped:y,after:d}=r.current;return{lines:c,dropped:y,size:d,error:o}}function ct(t,n){t.hasOpen&&t.lines.pop();let s=(t.partial+n).split(`
`);t.partial=s.pop().slice(-at);let o=s.map(r=>V(t,r));if(t.hasOpen=t.partial!=="",t.hasOpen){let r={...t.ansi};o.push(V(t,t.partial)),Object.assign(t.ansi,r),t.number-=1}t.lines=[...t.lines,...o];let u=t.lines.length-st;u>0&&(t.lines=t.lines.slice(u),t.dropped+=u)}function V(t,n){t.number+=1;let s=t.ansi.read(n);return{number:t.number,parts:s,text:s.map(o=>o.text).join("").toLowerCase()}}export{ot as default};
