import{a as f}from"./chunk-FMLBX3LJ.js";import{b as O}from"./chunk-HQXGF4V2.js";import"./chunk-EMKNZY2K.js";import"./chunk-VYSUAU4J.js";import{c as A}from"./chunk-KWNQ5HX6.js";import{F as I,G as S,I as T,J as u,K as m,O as k,P as E,Q as M,R as N,S as z,T as B,c as b,g as w,l as e,q as R,r as v,t as D,v as x}from"./chunk-Y7Q4PVQ2.js";import{b as l,d as C}from"./chunk-LAGCCF5Y.js";import"./chunk-OOJM4CTU.js";var L=100,F={created:"good",modified:"warn",deleted:"bad"},U=new Intl.DateTimeFormat(void 0,{weekday:"long",day:"numeric",month:"long",year:"numeric"});function j(){let s={on:["call"],when:h=>!!h.change},{rows:t,error:i,isLoading:n,hasMore:c,more:p,reload:d}=z("/v1/changes","changes",s),{rows:$,hold:g}=E(t),a=M($,A.value.get("id")),y=w(()=>q($),[$]);return e`
    <${S} title="Changes" fills>
      <${u} error=${i} retry=${d} />
      ${n&&e`<${m} />`}
      ${!n&&!$.length&&!i&&e`<${T} title="No changes yet">Every change that a tool makes to files is kept here, so that you can look at it and restore the files.<//>`}
      ${a&&e`<div class="beside">
        <div class="rows" ...${g}>
          ${y.map(([h,o])=>e`
              <section key=${h} aria-label=${h}>
                <h2 class="day">${h}</h2>
                <ul>
                  ${o.map(r=>e`
                      <li key=${r.id}>
                        <a class="row" href=${`/changes?id=${encodeURIComponent(r.id)}`} aria-current=${r.id===a.id?"true":void 0}>
                          <span class="row-name">
                            <span class="mono">${l(r.files[0]?.path,80)}</span>
                            ${r.files.length>1&&e`<span class="muted"> and ${C(r.files.length-1,"more","more")}</span>`}
                          </span>
                          <span class="row-facts">
                            <span>${l(r.operation,40)}</span>
                            <span class="muted mono">${l(r.session,40)}</span>
                            <span class="muted"><${k} at=${r.time} /></span>
                          </span>
                        </a>
                      </li>
                    `)}
                </ul>
              </section>
            `)}
          ${c&&e`<button type="button" onClick=${p}>Show older changes</button>`}
        </div>
        <${H} key=${a.id} change=${a} onRestored=${d} />
      </div>`}
    <//>
  `}function q(s){let t=new Map;for(let i of s){let n=U.format(new Date(i.time));t.has(n)||t.set(n,[]),t.get(n).push(i)}return[...t]}function H({change:s,onRestored:t}){let[i,n]=b(!1),[c,p]=b(""),d=x.rows.findLast(o=>o.change===s.id),$=d?.envelope?.visualization,g=$&&!i?null:v("/v1/changes",s.id),a=N(g,{on:["call"],when:o=>!!o.change}),y=w(()=>O(a.data?.visualization),[a.data]),h=o=>{n(!1),p(o.files.length?`Restored ${o.files.map(r=>l(r,80)).join(", ")}.`:l(o.result,200)),t()};return e`
    <section class="change" aria-label=${`Change ${l(s.id,40)}`}>
      <header class="section-head">
        <h2>${l(s.operation,60)}</h2>
        <span class="muted"><${k} at=${s.time} /></span>
        ${d&&e`<a href=${`/activity?call=${encodeURIComponent(d.key)}`}>See the call</a>`}
        <button type="button" class="main push" onClick=${()=>n(!0)}>Restore</button>
      </header>
      ${c&&e`<p class="good" role="status">${c}</p>`}
      <ul class="file-list">
        ${s.files.slice(0,L).map(o=>e`
            <li key=${o.path}>
              <span class=${`tag ${F[o.action]??""}`}>${o.action}</span> <span class="mono">${l(o.path,300)}</span>
            </li>
          `)}
        ${s.files.length>L&&e`<li class="muted">and ${C(s.files.length-L,"more file")}</li>`}
      </ul>
      <${u} error=${a.error} retry=${a.reload} />
      ${$?e`<${f} view=${$} text=${d.envelope.result??""} />`:e`${a.isLoading&&e`<${m} />`}
            ${a.data&&e`<p class="muted">The files as they are now, compared with those before this change:</p>
              <${f} view=${y} text=${a.data.diff} />`}`}
      ${i&&e`<${P} change=${s} preview=${a} onClose=${()=>n(!1)} onDone=${h} />`}
    </section>
  `}function P({change:s,preview:t,onClose:i,onDone:n}){let c=B(async()=>n(await R.post(v("/v1/changes",s.id,"restore"),{},D()))),p=e`
    <button type="button" onClick=${i}>Cancel</button>
    <button type="button" class="main" data-first disabled=${c.isRunning||!t.data} onClick=${c.run}>Restore</button>
  `;return e`
    <${I} title="Restore the files before this change" wide onClose=${i} footer=${p}>
      <p class="muted">This is what it would change now. A restore is a change of its own, so it can be restored too.</p>
      <${u} error=${c.error??t.error} retry=${t.reload} />
      ${t.isLoading&&e`<${m} />`}
      ${t.data&&e`<${f} view=${t.data.visualization} text=${t.data.diff||"Nothing: the files are as they were."} />`}
    <//>
  `}export{j as default};
