import{a as f}from"./chunk-PHO5LFNA.js";import{b as F}from"./chunk-HQXGF4V2.js";import"./chunk-MAMODEFP.js";import"./chunk-6V2ROGPT.js";import{c as A,e as S}from"./chunk-OXIS5CAQ.js";import{C as T,D as E,F as I,G as u,H as m,L as C,M,N,O as z,P as B,Q as O,c as b,g as w,l as e,o as R,p as v,q as D,s as x}from"./chunk-3TPHJNPE.js";import{b as c,c as k}from"./chunk-JDG66FB4.js";import"./chunk-OOJM4CTU.js";var L=100,j={created:"good",modified:"warn",deleted:"bad"},q=new Intl.DateTimeFormat(void 0,{weekday:"long",day:"numeric",month:"long",year:"numeric"});function H(){let o={on:["call"],when:t=>!!t.change},{rows:s,error:i,isLoading:a,hasMore:$,more:h,reload:n}=B("/v1/changes","changes",o),{rows:r,hold:p}=M(s),d=N(r,A.value.get("id")),g=w(()=>P(r),[r]);return e`
    <${E} title="Changes" fills>
      <${u} error=${i} retry=${n} />
      ${a&&e`<${m} />`}
      ${!a&&!r.length&&!i&&e`<${I} title="No changes yet">Every change that a tool makes to files is kept here, so that you can look at it and restore the files.<//>`}
      ${d&&e`<div class="beside">
        <div class="rows" ...${p}>
          ${g.map(([t,y])=>e`
              <section key=${t} aria-label=${t}>
                <h2 class="day">${t}</h2>
                <ul>
                  ${y.map(l=>e`
                      <li key=${l.id}>
                        <button type="button" class="row" aria-pressed=${l.id===d.id} onClick=${()=>S({id:l.id})}>
                          <span class="row-name">
                            <span class="mono">${c(l.files[0]?.path,80)}</span>
                            ${l.files.length>1&&e`<span class="muted"> and ${k(l.files.length-1,"more","more")}</span>`}
                          </span>
                          <span class="row-facts">
                            <span>${c(l.operation,40)}</span>
                            <span class="muted mono">${c(l.session,40)}</span>
                            <span class="muted"><${C} at=${l.time} /></span>
                          </span>
                        </button>
                      </li>
                    `)}
                </ul>
              </section>
            `)}
          ${$&&e`<button type="button" onClick=${h}>Show older changes</button>`}
        </div>
        <${Q} key=${d.id} change=${d} onRestored=${n} />
      </div>`}
    <//>
  `}function P(o){let s=new Map;for(let i of o){let a=q.format(new Date(i.time));s.has(a)||s.set(a,[]),s.get(a).push(i)}return[...s]}function Q({change:o,onRestored:s}){let[i,a]=b(!1),[$,h]=b(""),n=z(v("/v1/changes",o.id),{on:["call"],when:t=>!!t.change}),r=x.rows.findLast(t=>t.change===o.id),p=r?.envelope?.visualization,d=w(()=>F(n.data?.visualization),[n.data]),g=t=>{a(!1),h(t.files.length?`Restored ${t.files.map(y=>c(y,80)).join(", ")}.`:c(t.result,200)),s()};return e`
    <section class="change" aria-label=${`Change ${c(o.id,40)}`}>
      <header class="section-head">
        <h2>${c(o.operation,60)}</h2>
        <span class="muted"><${C} at=${o.time} /></span>
        ${r&&e`<a href=${`/activity?call=${encodeURIComponent(r.key)}`}>See the call</a>`}
        <button type="button" class="main push" onClick=${()=>a(!0)}>Restore</button>
      </header>
      ${$&&e`<p class="good" role="status">${$}</p>`}
      <ul class="file-list">
        ${o.files.slice(0,L).map(t=>e`
            <li key=${t.path}>
              <span class=${`tag ${j[t.action]??""}`}>${t.action}</span> <span class="mono">${c(t.path,300)}</span>
            </li>
          `)}
        ${o.files.length>L&&e`<li class="muted">and ${k(o.files.length-L,"more file")}</li>`}
      </ul>
      <${u} error=${n.error} retry=${n.reload} />
      ${p?e`<${f} view=${p} text=${r.envelope.result??""} />`:e`${n.isLoading&&e`<${m} />`}
            ${n.data&&e`<p class="muted">The files as they are now, compared with those before this change:</p>`}
            ${n.data&&e`<${f} view=${d} text=${n.data.diff} />`}`}
      ${i&&e`<${U} change=${o} preview=${n} onClose=${()=>a(!1)} onDone=${g} />`}
    </section>
  `}function U({change:o,preview:s,onClose:i,onDone:a}){let $=O(async()=>a(await R.post(v("/v1/changes",o.id,"restore"),{},D()))),h=e`
    <button type="button" onClick=${i}>Cancel</button>
    <button type="button" class="main" data-first disabled=${$.isRunning||!s.data} onClick=${$.run}>Restore</button>
  `;return e`
    <${T} title="Restore the files before this change" wide onClose=${i} footer=${h}>
      <p class="muted">This is what it would change now. A restore is a change of its own, so it can be restored too.</p>
      <${u} error=${$.error??s.error} retry=${s.reload} />
      ${s.isLoading&&e`<${m} />`}
      ${s.data&&e`<${f} view=${s.data.visualization} text=${s.data.diff||"Nothing: the files are as they were."} />`}
    <//>
  `}export{H as default};
