import{C as f,F as O,G as C,I,J as k,K as A,O as N,S as L,T as v,c as m,d as B,f as S,l as r,q as y,r as x,t as w}from"./chunk-ZUDFSCJ6.js";import{b as g,c as E}from"./chunk-JDG66FB4.js";import"./chunk-OOJM4CTU.js";var h=[["pending","Pending"],["in_progress","In progress"],["completed","Completed"]],R=50;function M(){let{rows:t,error:i,isLoading:s,reload:e}=L("/v1/tasks","tasks",{on:["task"],limit:1e3}),[c,d]=m(null),[a,u]=m(null),l=S(null),$=v(async(o,p)=>{await y.patch(x("/v1/tasks",o.id),{status:p},w()),await e(),u({id:o.id})});B(()=>{a&&l.current?.querySelector(`[data-task="${a.id}"]`)?.focus()},[a]);let n=(o,p)=>p&&p!==o.status&&$.run(o,p),b=new Set(t.filter(o=>o.status!=="completed").map(o=>o.id));return r`
    <${C} title="Tasks" actions=${t.length>0&&r`<span class="muted">${E(b.size,"open task")}</span>`}>
      ${c===null&&r`<${q} reload=${e} />`}
      <${k} error=${i??$.error} retry=${e} />
      ${s&&r`<${A} />`}
      ${!s&&!i&&!t.length&&r`<${I} title="No tasks yet">Add one above. Agents share this board: they add tasks with the tool task, and claim the ones that are ready.<//>`}
      ${t.length>0&&r`<div class="board" ref=${l}>
        ${h.map(([o,p])=>r`
            <${F}
              key=${o}
              name=${p}
              status=${o}
              tasks=${j(t.filter(D=>D.status===o))}
              open=${b}
              moveTo=${n}
              onDrop=${D=>n(t.find(K=>String(K.id)===D)??{},o)}
              onEdit=${d}
            />
          `)}
      </div>`}
      ${c!==null&&r`<${U} task=${c} reload=${e} onClose=${()=>d(null)} />`}
    <//>
  `}function j(t){let i=t[0]?.status==="completed";return[...t].sort((s,e)=>i?e.updated<s.updated?-1:1:s.id-e.id)}function q({reload:t}){let[i,s]=m(""),e=S(null),c=v(async()=>{await y.post("/v1/tasks",{title:i.trim()},w()),s(""),await t()});return r`
    <form class="row-form" onSubmit=${async a=>{a.preventDefault(),i.trim()&&await c.run(),e.current.focus()}}>
      <${f} label="Title" value=${i} onInput=${s} inputRef=${e} maxlength="200" placeholder="What is to be done" data-filter="" />
      <button type="submit" class="main" disabled=${c.isRunning}>Add</button>
    </form>
    <${k} error=${c.error} />
  `}function F({name:t,status:i,tasks:s,open:e,moveTo:c,onDrop:d,onEdit:a}){let[u,l]=m(R),[$,n]=m(!1);return r`
    <section
      class=${`column${$?" over":""}`}
      aria-label=${t}
      onDragOver=${o=>(o.preventDefault(),n(!0))}
      onDragLeave=${o=>o.currentTarget.contains(o.relatedTarget)||n(!1)}
      onDrop=${o=>{o.preventDefault(),n(!1),d(o.dataTransfer.getData("text/plain"))}}
    >
      <h2>${t} <span class="muted">${s.length}</span></h2>
      <ul>
        ${s.slice(0,u).map(o=>r`<li key=${o.id}><${P} task=${o} status=${i} open=${e} moveTo=${c} onEdit=${a} /></li>`)}
      </ul>
      ${!s.length&&r`<p class="muted column-empty">Nothing here</p>`}
      ${s.length>u&&r`<button type="button" onClick=${()=>l(u+200)}>Show more</button>`}
    </section>
  `}function P({task:t,status:i,open:s,moveTo:e,onEdit:c}){let d=h.findIndex(([n])=>n===i),[a,u]=[h[d-1],h[d+1]],l=i==="completed"?[]:t.blockedBy.filter(n=>s.has(n)),$=n=>{if(n.target!==n.currentTarget||n.ctrlKey||n.metaKey||n.altKey)return;let b={ArrowRight:()=>n.shiftKey?e(t,u?.[0]):T(n.currentTarget,1,0),ArrowLeft:()=>n.shiftKey?e(t,a?.[0]):T(n.currentTarget,-1,0),ArrowDown:()=>T(n.currentTarget,0,1),ArrowUp:()=>T(n.currentTarget,0,-1),Enter:()=>c(t)}[n.key];b&&(n.preventDefault(),b())};return r`
    <article
      class=${`task${l.length?" blocked":""}`}
      data-task=${t.id}
      tabindex="0"
      draggable="true"
      aria-label=${`Task ${t.id}: ${g(t.title)}`}
      onDragStart=${n=>n.dataTransfer.setData("text/plain",String(t.id))}
      onKeyDown=${$}
    >
      <p class="task-title">${g(t.title)}</p>
      ${t.description&&r`<p class="muted task-text">${g(t.description,160)}</p>`}
      <p class="task-facts">
        <span class="muted">#${t.id}</span>
        ${l.length>0&&r`<span class="tag warn">Blocked by ${l.map(n=>`#${n}`).join(", ")}</span>`}
        ${t.ready&&r`<span class="tag good">Ready</span>`}
        ${t.owner&&r`<span class="tag">${g(t.owner,40)}</span>`}
        <span class="muted"><${N} at=${t.updated} /></span>
      </p>
      <div class="task-buttons">
        ${a&&r`<button type="button" class="small" aria-label=${`Move to ${a[1]}`} onClick=${()=>e(t,a[0])}>←</button>`}
        ${u&&r`<button type="button" class="small" aria-label=${`Move to ${u[1]}`} onClick=${()=>e(t,u[0])}>→</button>`}
        <button type="button" class="small" onClick=${()=>c(t)}>Edit</button>
      </div>
    </article>
  `}function T(t,i,s){let e=t.closest(".column"),c=u=>[...u.querySelectorAll(".task")],d=c(e).indexOf(t);if(s){c(e)[d+s]?.focus();return}let a=[...e.parentElement.children];for(let u=a.indexOf(e)+i;a[u];u+=i){let l=c(a[u]);if(l.length){l[Math.min(d,l.length-1)].focus();return}}}function U({task:t,reload:i,onClose:s}){let[e,c]=m({title:t.title,description:t.description,owner:t.owner,status:t.status,blockedBy:t.blockedBy.join(", ")}),d=l=>$=>c({...e,[l]:$}),a=v(async()=>{let l=e.blockedBy.split(/[\s,#]+/).filter(Boolean).map(Number),$={...e,title:e.title.trim(),blockedBy:l};if(l.some(n=>!Number.isSafeInteger(n)))throw Object.assign(new Error("Blocked by takes numbers of tasks."),{suggestion:"Separate them with commas, such as 2, 5."});$.status===t.status&&delete $.status,$.owner===t.owner&&delete $.owner,await y.patch(x("/v1/tasks",t.id),$,w()),await i(),s()}),u=l=>{l.preventDefault(),a.run()};return r`
    <${O} title=${`Edit task ${t.id}`} onClose=${s}>
      <form class="form" onSubmit=${u}>
        <${f} label="Title" value=${e.title} onInput=${d("title")} maxlength="200" required />
        <${f} label="Description" multiline value=${e.description} onInput=${d("description")} maxlength="8000" />
        <${f} label="Status" value=${e.status} onInput=${d("status")} options=${h} />
        <${f} label="Owner" value=${e.owner} onInput=${d("owner")} maxlength="100" />
        <${f} label="Blocked by" value=${e.blockedBy} onInput=${d("blockedBy")} hint="Numbers of the tasks to complete first" />
        <${k} error=${a.error} />
        <div class="buttons">
          <button type="submit" class="main" disabled=${a.isRunning}>Save</button>
          <button type="button" onClick=${s}>Cancel</button>
        </div>
      </form>
    <//>
  `}export{M as default};
