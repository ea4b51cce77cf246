import{a as v}from"./chunk-ZYFDT3ZF.js";import{a as P}from"./chunk-7MHHIP2K.js";import"./chunk-CGVARZRQ.js";import{b as U}from"./chunk-KZNXHTG3.js";import"./chunk-HOPPGRH4.js";import"./chunk-ATZ5GOGL.js";import{c as V}from"./chunk-STYMQTOY.js";import{A as z,C as I,H as k,I as B,J as M,K as A,L as F,M as J,e as C,f as g,h as R,j as S,u as D,w as O,x as w,y,z as x}from"./chunk-OTZEVIFT.js";import{d as p,e as N,h as b,n as t,p as L,r as d,t as T,z as E}from"./chunk-N2E7E6HP.js";import"./chunk-OOJM4CTU.js";var Y=300,j={created:"good",modified:"warn",deleted:"bad"},q=new Intl.DateTimeFormat(void 0,{weekday:"long",day:"numeric",month:"long",year:"numeric"});function H(){let s={on:["call"],when:m=>!!m.change},{rows:e,error:a,isLoading:n,hasMore:$,more:f,reload:l}=F("/v1/changes","changes",s),{rows:r,hold:u}=B(e),o=M(r,V.value.get("id")),h=b(()=>_(r),[r]);return t`
    <${D} title="Changes" fills>
      <${w} error=${a} retry=${l} />
      ${n&&t`<${y} />`}
      ${!n&&!r.length&&!a&&t`<${O} title="No changes yet">Every change that a tool makes to files is recorded here. You can view it and restore the files.<//>`}
      ${o&&t`<div class="beside">
        <div class="rows" ...${u}>
          ${h.map(([m,c])=>t`
              <section key=${m} aria-label=${m}>
                <h2 class="day">${m}</h2>
                <ul>
                  ${c.map(i=>t`
                      <li key=${i.id}>
                        <a class="row" href=${`/changes?id=${encodeURIComponent(i.id)}`} aria-current=${i.id===o.id?"true":void 0}>
                          <span class="row-name">
                            <span class="mono">${d(i.files[0]?.path,80)}</span>
                            ${i.files.length>1&&t`<span class="muted"> and ${T(i.files.length-1,"more","more")}</span>`}
                          </span>
                          <span class="row-facts">
                            <span>${d(i.operation,40)}</span>
                            <span class="muted mono">${d(i.session,40)}</span>
                            <span class="muted"><${k} at=${i.time} /></span>
                          </span>
                        </a>
                      </li>
                    `)}
                </ul>
              </section>
            `)}
          ${$&&t`<button type="button" onClick=${f}>Show older changes</button>`}
        </div>
        <${G} key=${o.id} change=${o} onRestored=${l} />
      </div>`}
    <//>
  `}function _(s){let e=new Map;for(let a of s){let n=q.format(new Date(a.time));e.has(n)||e.set(n,[]),e.get(n).push(a)}return[...e]}function G({change:s,onRestored:e}){let[a,n]=p(!1),[$,f]=p(""),l=S.rows.findLast(c=>c.change===s.id),r=l?.envelope?.visualization,u=r&&!a?null:g("/v1/changes",s.id),o=A(u,{on:["call"],when:c=>!!c.change}),h=b(()=>U(o.data?.visualization),[o.data]),m=c=>{n(!1),f(c.files.length?`Restored ${c.files.map(i=>d(i,80)).join(", ")}.`:d(c.result,200)),e()};return t`
    <section class="change" aria-label=${`Change ${d(s.id,40)}`}>
      <header class="section-head">
        <h2>${d(s.operation,60)}</h2>
        <span class="muted"><${k} at=${s.time} /></span>
        ${l&&t`<a href=${`/activity?call=${encodeURIComponent(l.key)}`}>View the call</a>`}
        <button type="button" class="main push" onClick=${()=>n(!0)}>Restore</button>
      </header>
      ${$&&t`<p class="good" role="status">${$}</p>`}
      <${P} rows=${s.files} draw=${K} name="file-list" noun="file" />
      <${w} error=${o.error} retry=${o.reload} />
      ${r?t`<${v} view=${r} text=${l.envelope.result??""} />`:t`${o.isLoading&&t`<${y} />`}
            ${o.data&&t`<p class="muted">The current files, compared with those before this change:</p>
              <${v} view=${h} text=${o.data.diff} />`}`}
      ${a&&t`<${Q} change=${s} preview=${o} onClose=${()=>n(!1)} onDone=${m} />`}
    </section>
  `}function K({path:s,action:e}){return t`<li key=${s}><span class=${`tag ${j[e]??""}`}>${e}</span> <span class="mono">${L(s)}</span></li>`}function Q({change:s,preview:e,onClose:a,onDone:n}){let $=z(),[f,l]=p(null);N(()=>{let h=setTimeout(()=>l(e.data),Y);return()=>clearTimeout(h)},[e.data]);let r=!!e.data&&f===e.data,u=J(async()=>{let h=await C.get(g("/v1/changes",s.id),R());if(JSON.stringify(h.visualization)!==JSON.stringify(e.data.visualization))throw e.reload(),new Error("The files have changed since this was shown. Nothing was restored; this is the new preview.");n(await C.post(g("/v1/changes",s.id,"restore"),{},R()))}),o=t`
    <button type="button" onClick=${a}>Cancel</button>
    <button type="button" class="main" data-first disabled=${u.isRunning||!r} onClick=${u.run}>Restore</button>
  `;return t`
    <${E} title="Restore the files to before this change" wide onClose=${a} footer=${o}>
      <p class="muted">This is what the restore would change. It is recorded as a change, so you can undo it too.</p>
      <${w} error=${u.error??e.error} retry=${e.reload} />
      ${e.isLoading&&t`<${y} />`}
      ${e.data&&t`<${x.Provider} value=${$}>
        <${I} review=${$} />
        <${v} view=${e.data.visualization} text=${e.data.diff||"Nothing: the files have not changed since."} />
      <//>`}
    <//>
  `}export{H as default};
