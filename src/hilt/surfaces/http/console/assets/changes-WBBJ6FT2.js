import{a as f}from"./chunk-QHXDEMCZ.js";import{b as O}from"./chunk-HQXGF4V2.js";import"./chunk-MKXN7MWL.js";import"./chunk-ZJRP4W4X.js";import{c as x}from"./chunk-I2E4NN26.js";import{G as T,H as A,J as E,K as p,L as m,P as k,Q as M,R as N,S,T as z,U as B,c as b,g as v,l as e,q as R,r as w,t as D,v as I}from"./chunk-KLSJ4T3K.js";import{b as l,d as C}from"./chunk-3V634C7B.js";import"./chunk-OOJM4CTU.js";var L=100,F={created:"good",modified:"warn",deleted:"bad"},U=new Intl.DateTimeFormat(void 0,{weekday:"long",day:"numeric",month:"long",year:"numeric"});function V(){let s={on:["call"],when:h=>!!h.change},{rows:t,error:i,isLoading:n,hasMore:c,more:u,reload:$}=z("/v1/changes","changes",s),{rows:d,hold:g}=M(t),a=N(d,x.value.get("id")),y=v(()=>Y(d),[d]);return e`
    <${A} title="Changes" fills>
      <${p} error=${i} retry=${$} />
      ${n&&e`<${m} />`}
      ${!n&&!d.length&&!i&&e`<${E} title="No changes yet">Every change that a tool makes to files is recorded here. You can view it and restore the files.<//>`}
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
          ${c&&e`<button type="button" onClick=${u}>Show older changes</button>`}
        </div>
        <${j} key=${a.id} change=${a} onRestored=${$} />
      </div>`}
    <//>
  `}function Y(s){let t=new Map;for(let i of s){let n=U.format(new Date(i.time));t.has(n)||t.set(n,[]),t.get(n).push(i)}return[...t]}function j({change:s,onRestored:t}){let[i,n]=b(!1),[c,u]=b(""),$=I.rows.findLast(o=>o.change===s.id),d=$?.envelope?.visualization,g=d&&!i?null:w("/v1/changes",s.id),a=S(g,{on:["call"],when:o=>!!o.change}),y=v(()=>O(a.data?.visualization),[a.data]),h=o=>{n(!1),u(o.files.length?`Restored ${o.files.map(r=>l(r,80)).join(", ")}.`:l(o.result,200)),t()};return e`
    <section class="change" aria-label=${`Change ${l(s.id,40)}`}>
      <header class="section-head">
        <h2>${l(s.operation,60)}</h2>
        <span class="muted"><${k} at=${s.time} /></span>
        ${$&&e`<a href=${`/activity?call=${encodeURIComponent($.key)}`}>View the call</a>`}
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
      <${p} error=${a.error} retry=${a.reload} />
      ${d?e`<${f} view=${d} text=${$.envelope.result??""} />`:e`${a.isLoading&&e`<${m} />`}
            ${a.data&&e`<p class="muted">The current files, compared with those before this change:</p>
              <${f} view=${y} text=${a.data.diff} />`}`}
      ${i&&e`<${q} change=${s} preview=${a} onClose=${()=>n(!1)} onDone=${h} />`}
    </section>
  `}function q({change:s,preview:t,onClose:i,onDone:n}){let c=B(async()=>n(await R.post(w("/v1/changes",s.id,"restore"),{},D()))),u=e`
    <button type="button" onClick=${i}>Cancel</button>
    <button type="button" class="main" data-first disabled=${c.isRunning||!t.data} onClick=${c.run}>Restore</button>
  `;return e`
    <${T} title="Restore the files to before this change" wide onClose=${i} footer=${u}>
      <p class="muted">This is what the restore would change. It is recorded as a change, so you can undo it too.</p>
      <${p} error=${c.error??t.error} retry=${t.reload} />
      ${t.isLoading&&e`<${m} />`}
      ${t.data&&e`<${f} view=${t.data.visualization} text=${t.data.diff||"Nothing: the files have not changed since."} />`}
    <//>
  `}export{V as default};
