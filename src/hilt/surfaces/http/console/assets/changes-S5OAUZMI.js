import{a as f}from"./chunk-66O46X3H.js";import{b as F}from"./chunk-HQXGF4V2.js";import"./chunk-NY4JBLLB.js";import"./chunk-PRHSHAEU.js";import{c as A,e as S}from"./chunk-3KKKWTDR.js";import{F as T,G as E,I,J as u,K as m,O as C,P as M,Q as N,R as z,S as B,T as O,c as b,g as w,l as e,q as R,r as v,t as D,v as x}from"./chunk-U6OC2DCP.js";import{b as r,c as k}from"./chunk-JDG66FB4.js";import"./chunk-OOJM4CTU.js";var L=100,j={created:"good",modified:"warn",deleted:"bad"},q=new Intl.DateTimeFormat(void 0,{weekday:"long",day:"numeric",month:"long",year:"numeric"});function H(){let s={on:["call"],when:h=>!!h.change},{rows:t,error:i,isLoading:n,hasMore:c,more:p,reload:d}=B("/v1/changes","changes",s),{rows:$,hold:g}=M(t),a=N($,A.value.get("id")),y=w(()=>P($),[$]);return e`
    <${E} title="Changes" fills>
      <${u} error=${i} retry=${d} />
      ${n&&e`<${m} />`}
      ${!n&&!$.length&&!i&&e`<${I} title="No changes yet">Every change that a tool makes to files is kept here, so that you can look at it and restore the files.<//>`}
      ${a&&e`<div class="beside">
        <div class="rows" ...${g}>
          ${y.map(([h,o])=>e`
              <section key=${h} aria-label=${h}>
                <h2 class="day">${h}</h2>
                <ul>
                  ${o.map(l=>e`
                      <li key=${l.id}>
                        <button type="button" class="row" aria-pressed=${l.id===a.id} onClick=${()=>S({id:l.id})}>
                          <span class="row-name">
                            <span class="mono">${r(l.files[0]?.path,80)}</span>
                            ${l.files.length>1&&e`<span class="muted"> and ${k(l.files.length-1,"more","more")}</span>`}
                          </span>
                          <span class="row-facts">
                            <span>${r(l.operation,40)}</span>
                            <span class="muted mono">${r(l.session,40)}</span>
                            <span class="muted"><${C} at=${l.time} /></span>
                          </span>
                        </button>
                      </li>
                    `)}
                </ul>
              </section>
            `)}
          ${c&&e`<button type="button" onClick=${p}>Show older changes</button>`}
        </div>
        <${Q} key=${a.id} change=${a} onRestored=${d} />
      </div>`}
    <//>
  `}function P(s){let t=new Map;for(let i of s){let n=q.format(new Date(i.time));t.has(n)||t.set(n,[]),t.get(n).push(i)}return[...t]}function Q({change:s,onRestored:t}){let[i,n]=b(!1),[c,p]=b(""),d=x.rows.findLast(o=>o.change===s.id),$=d?.envelope?.visualization,g=$&&!i?null:v("/v1/changes",s.id),a=z(g,{on:["call"],when:o=>!!o.change}),y=w(()=>F(a.data?.visualization),[a.data]),h=o=>{n(!1),p(o.files.length?`Restored ${o.files.map(l=>r(l,80)).join(", ")}.`:r(o.result,200)),t()};return e`
    <section class="change" aria-label=${`Change ${r(s.id,40)}`}>
      <header class="section-head">
        <h2>${r(s.operation,60)}</h2>
        <span class="muted"><${C} at=${s.time} /></span>
        ${d&&e`<a href=${`/activity?call=${encodeURIComponent(d.key)}`}>See the call</a>`}
        <button type="button" class="main push" onClick=${()=>n(!0)}>Restore</button>
      </header>
      ${c&&e`<p class="good" role="status">${c}</p>`}
      <ul class="file-list">
        ${s.files.slice(0,L).map(o=>e`
            <li key=${o.path}>
              <span class=${`tag ${j[o.action]??""}`}>${o.action}</span> <span class="mono">${r(o.path,300)}</span>
            </li>
          `)}
        ${s.files.length>L&&e`<li class="muted">and ${k(s.files.length-L,"more file")}</li>`}
      </ul>
      <${u} error=${a.error} retry=${a.reload} />
      ${$?e`<${f} view=${$} text=${d.envelope.result??""} />`:e`${a.isLoading&&e`<${m} />`}
            ${a.data&&e`<p class="muted">The files as they are now, compared with those before this change:</p>
              <${f} view=${y} text=${a.data.diff} />`}`}
      ${i&&e`<${U} change=${s} preview=${a} onClose=${()=>n(!1)} onDone=${h} />`}
    </section>
  `}function U({change:s,preview:t,onClose:i,onDone:n}){let c=O(async()=>n(await R.post(v("/v1/changes",s.id,"restore"),{},D()))),p=e`
    <button type="button" onClick=${i}>Cancel</button>
    <button type="button" class="main" data-first disabled=${c.isRunning||!t.data} onClick=${c.run}>Restore</button>
  `;return e`
    <${T} title="Restore the files before this change" wide onClose=${i} footer=${p}>
      <p class="muted">This is what it would change now. A restore is a change of its own, so it can be restored too.</p>
      <${u} error=${c.error??t.error} retry=${t.reload} />
      ${t.isLoading&&e`<${m} />`}
      ${t.data&&e`<${f} view=${t.data.visualization} text=${t.data.diff||"Nothing: the files are as they were."} />`}
    <//>
  `}export{H as default};
