import{C as O,D as C,F as I,G as v,H as A,L as N,P as L,Q as T,c as m,d as B,f as x,l as s,o as y,p as k,q as w,z as f}from"./chunk-BEXJLESD.js";import{b as g,c as E}from"./chunk-6DFJ27FF.js";import"./chunk-OOJM4CTU.js";var h=[["pending","Pending"],["in_progress","In progress"],["completed","Completed"]],R=50;function M(){let{rows:t,error:i,isLoading:r,reload:e}=L("/v1/tasks","tasks",{on:["task"],limit:1e3}),[c,d]=m(null),[a,u]=m(null),l=x(null),$=T(async(o,p)=>{await y.patch(k("/v1/tasks",o.id),{status:p},w()),await e(),u({id:o.id})});B(()=>{a&&l.current?.querySelector(`[data-task="${a.id}"]`)?.focus()},[a]);let n=(o,p)=>p&&p!==o.status&&$.run(o,p),b=new Set(t.filter(o=>o.status!=="completed").map(o=>o.id));return s`
    <${C} title="Tasks" actions=${t.length>0&&s`<span class="muted">${E(b.size,"open task")}</span>`}>
      ${c===null&&s`<${q} reload=${e} />`}
      <${v} error=${i??$.error} retry=${e} />
      ${r&&s`<${A} />`}
      ${!r&&!i&&!t.length&&s`<${I} title="No tasks yet">Add one above. Agents share this board: they add tasks with the tool task, and claim the ones that are ready.<//>`}
      ${t.length>0&&s`<div class="board" ref=${l}>
        ${h.map(([o,p])=>s`
            <${F}
              key=${o}
              name=${p}
              status=${o}
              tasks=${j(t.filter(S=>S.status===o))}
              open=${b}
              moveTo=${n}
              onDrop=${S=>n(t.find(K=>String(K.id)===S)??{},o)}
              onEdit=${d}
            />
          `)}
      </div>`}
      ${c!==null&&s`<${U} task=${c} reload=${e} onClose=${()=>d(null)} />`}
    <//>
  `}function j(t){let i=t[0]?.status==="completed";return[...t].sort((r,e)=>i?e.updated<r.updated?-1:1:r.id-e.id)}function q({reload:t}){let[i,r]=m(""),e=x(null),c=T(async()=>{await y.post("/v1/tasks",{title:i.trim()},w()),r(""),await t()});return s`
    <form class="row-form" onSubmit=${async a=>{a.preventDefault(),i.trim()&&await c.run(),e.current.focus()}}>
      <${f} label="Title" value=${i} onInput=${r} inputRef=${e} maxlength="200" placeholder="What is to be done" data-filter="" />
      <button type="submit" class="main" disabled=${c.isRunning}>Add</button>
    </form>
    <${v} error=${c.error} />
  `}function F({name:t,status:i,tasks:r,open:e,moveTo:c,onDrop:d,onEdit:a}){let[u,l]=m(R),[$,n]=m(!1);return s`
    <section
      class=${`column${$?" over":""}`}
      aria-label=${t}
      onDragOver=${o=>(o.preventDefault(),n(!0))}
      onDragLeave=${o=>o.currentTarget.contains(o.relatedTarget)||n(!1)}
      onDrop=${o=>{o.preventDefault(),n(!1),d(o.dataTransfer.getData("text/plain"))}}
    >
      <h2>${t} <span class="muted">${r.length}</span></h2>
      <ul>
        ${r.slice(0,u).map(o=>s`<li key=${o.id}><${P} task=${o} status=${i} open=${e} moveTo=${c} onEdit=${a} /></li>`)}
      </ul>
      ${!r.length&&s`<p class="muted column-empty">Nothing here</p>`}
      ${r.length>u&&s`<button type="button" onClick=${()=>l(u+200)}>Show more</button>`}
    </section>
  `}function P({task:t,status:i,open:r,moveTo:e,onEdit:c}){let d=h.findIndex(([n])=>n===i),[a,u]=[h[d-1],h[d+1]],l=i==="completed"?[]:t.blockedBy.filter(n=>r.has(n)),$=n=>{if(n.target!==n.currentTarget||n.ctrlKey||n.metaKey||n.altKey)return;let b={ArrowRight:()=>n.shiftKey?e(t,u?.[0]):D(n.currentTarget,1,0),ArrowLeft:()=>n.shiftKey?e(t,a?.[0]):D(n.currentTarget,-1,0),ArrowDown:()=>D(n.currentTarget,0,1),ArrowUp:()=>D(n.currentTarget,0,-1),Enter:()=>c(t)}[n.key];b&&(n.preventDefault(),b())};return s`
    <article
      class=${`card${l.length?" blocked":""}`}
      data-task=${t.id}
      tabindex="0"
      draggable="true"
      aria-label=${`Task ${t.id}: ${g(t.title)}`}
      onDragStart=${n=>n.dataTransfer.setData("text/plain",String(t.id))}
      onKeyDown=${$}
    >
      <p class="card-title">${g(t.title)}</p>
      ${t.description&&s`<p class="muted card-text">${g(t.description,160)}</p>`}
      <p class="card-facts">
        <span class="muted">#${t.id}</span>
        ${l.length>0&&s`<span class="tag warn">Blocked by ${l.map(n=>`#${n}`).join(", ")}</span>`}
        ${t.ready&&s`<span class="tag good">Ready</span>`}
        ${t.owner&&s`<span class="tag">${g(t.owner,40)}</span>`}
        <span class="muted"><${N} at=${t.updated} /></span>
      </p>
      <div class="card-buttons">
        ${a&&s`<button type="button" class="small" aria-label=${`Move to ${a[1]}`} onClick=${()=>e(t,a[0])}>←</button>`}
        ${u&&s`<button type="button" class="small" aria-label=${`Move to ${u[1]}`} onClick=${()=>e(t,u[0])}>→</button>`}
        <button type="button" class="small" onClick=${()=>c(t)}>Edit</button>
      </div>
    </article>
  `}function D(t,i,r){let e=t.closest(".column"),c=u=>[...u.querySelectorAll(".card")],d=c(e).indexOf(t);if(r){c(e)[d+r]?.focus();return}let a=[...e.parentElement.children];for(let u=a.indexOf(e)+i;a[u];u+=i){let l=c(a[u]);if(l.length){l[Math.min(d,l.length-1)].focus();return}}}function U({task:t,reload:i,onClose:r}){let[e,c]=m({title:t.title,description:t.description,owner:t.owner,status:t.status,blockedBy:t.blockedBy.join(", ")}),d=l=>$=>c({...e,[l]:$}),a=T(async()=>{let l=e.blockedBy.split(/[\s,#]+/).filter(Boolean).map(Number),$={...e,title:e.title.trim(),blockedBy:l};if(l.some(n=>!Number.isSafeInteger(n)))throw Object.assign(new Error("Blocked by takes numbers of tasks."),{suggestion:"Separate them with commas, such as 2, 5."});$.status===t.status&&delete $.status,$.owner===t.owner&&delete $.owner,await y.patch(k("/v1/tasks",t.id),$,w()),await i(),r()}),u=l=>{l.preventDefault(),a.run()};return s`
    <${O} title=${`Edit task ${t.id}`} onClose=${r}>
      <form class="form" onSubmit=${u}>
        <${f} label="Title" value=${e.title} onInput=${d("title")} maxlength="200" required />
        <${f} label="Description" multiline value=${e.description} onInput=${d("description")} maxlength="8000" />
        <${f} label="Status" value=${e.status} onInput=${d("status")} options=${h} />
        <${f} label="Owner" value=${e.owner} onInput=${d("owner")} maxlength="100" />
        <${f} label="Blocked by" value=${e.blockedBy} onInput=${d("blockedBy")} hint="Numbers of the tasks to complete first" />
        <${v} error=${a.error} />
        <div class="buttons">
          <button type="submit" class="main" disabled=${a.isRunning}>Save</button>
          <button type="button" onClick=${r}>Cancel</button>
        </div>
      </form>
    <//>
  `}export{M as default};
