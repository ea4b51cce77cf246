import{H as A,L,M as k,e as w,f as x,h as v,r as f,u as O,w as C,x as T,y as I}from"./chunk-OTZEVIFT.js";import{d as b,e as S,g as y,n as r,r as g,t as B,z as E}from"./chunk-N2E7E6HP.js";import"./chunk-OOJM4CTU.js";var h=[["pending","Pending"],["in_progress","In progress"],["completed","Completed"]],K=50;function R(){let{rows:t,error:u,isLoading:o,reload:e}=L("/v1/tasks","tasks",{on:["task"],limit:1e3}),[d,$]=b(null),s=y(null),i=y(null),c=k(async(a,l)=>{s.current={id:a.id,status:l};try{await w.patch(x("/v1/tasks",a.id),{status:l},v())}catch(m){throw s.current=null,m}await e()});S(()=>{let{id:a,status:l}=s.current??{};t.some(m=>m.id===a&&m.status===l)&&(i.current.querySelector(`[data-task="${a}"]`)?.focus(),s.current=null)});let p=(a,l)=>l&&l!==a.status&&c.run(a,l),n=new Set(t.filter(a=>a.status!=="completed").map(a=>a.id));return r`
    <${O} title="Tasks" actions=${t.length>0&&r`<span class="muted">${B(n.size,"open task")}</span>`}>
      ${d===null&&r`<${j} reload=${e} />`}
      <${T} error=${u??c.error} retry=${e} />
      ${o&&r`<${I} />`}
      ${!o&&!u&&!t.length&&r`<${C} title="No tasks yet">Add one above. Agents share this board: they add tasks with the task tool, and claim the ones that are ready.<//>`}
      ${t.length>0&&r`<div class="board" ref=${i}>
        ${h.map(([a,l])=>r`
            <${q}
              key=${a}
              name=${l}
              status=${a}
              tasks=${M(t.filter(m=>m.status===a))}
              open=${n}
              moveTo=${p}
              onDrop=${m=>p(t.find(N=>String(N.id)===m)??{},a)}
              onEdit=${$}
            />
          `)}
      </div>`}
      ${d!==null&&r`<${P} task=${d} reload=${e} onClose=${()=>$(null)} />`}
    <//>
  `}function M(t){let u=t[0]?.status==="completed";return[...t].sort((o,e)=>u?e.updated<o.updated?-1:1:o.id-e.id)}function j({reload:t}){let[u,o]=b(""),e=y(null),d=k(async()=>{await w.post("/v1/tasks",{title:u.trim()},v()),o(""),await t()});return r`
    <form class="row-form" onSubmit=${async s=>{s.preventDefault(),u.trim()&&await d.run(),e.current?.focus()}}>
      <${f} label="Title" value=${u} onInput=${o} inputRef=${e} maxlength="200" placeholder="What needs to be done" data-filter="" />
      <button type="submit" class="main" disabled=${d.isRunning}>Add</button>
    </form>
    <${T} error=${d.error} />
  `}function q({name:t,status:u,tasks:o,open:e,moveTo:d,onDrop:$,onEdit:s}){let[i,c]=b(K),[p,n]=b(!1);return r`
    <section
      class=${`column${p?" over":""}`}
      aria-label=${t}
      onDragOver=${l=>(l.preventDefault(),n(!0))}
      onDragLeave=${l=>l.currentTarget.contains(l.relatedTarget)||n(!1)}
      onDrop=${l=>{l.preventDefault(),n(!1),$(l.dataTransfer.getData("text/plain"))}}
    >
      <h2>${t} <span class="muted">${o.length}</span></h2>
      <ul>
        ${o.slice(0,i).map(l=>r`<li key=${l.id}><${F} task=${l} status=${u} open=${e} moveTo=${d} onEdit=${s} /></li>`)}
      </ul>
      ${!o.length&&r`<p class="muted column-empty">No tasks</p>`}
      ${o.length>i&&r`<button type="button" onClick=${()=>c(i+200)}>Show more</button>`}
    </section>
  `}function F({task:t,status:u,open:o,moveTo:e,onEdit:d}){let $=h.findIndex(([n])=>n===u),[s,i]=[h[$-1],h[$+1]],c=u==="completed"?[]:t.blockedBy.filter(n=>o.has(n)),p=n=>{if(n.target!==n.currentTarget||n.ctrlKey||n.metaKey||n.altKey)return;let a={ArrowRight:()=>n.shiftKey?e(t,i?.[0]):D(n.currentTarget,1,0),ArrowLeft:()=>n.shiftKey?e(t,s?.[0]):D(n.currentTarget,-1,0),ArrowDown:()=>D(n.currentTarget,0,1),ArrowUp:()=>D(n.currentTarget,0,-1),Enter:()=>d(t)}[n.key];a&&(n.preventDefault(),a())};return r`
    <article
      class=${`task${c.length?" blocked":""}`}
      data-task=${t.id}
      tabindex="0"
      draggable="true"
      aria-label=${`Task ${t.id}: ${g(t.title)}`}
      onDragStart=${n=>n.dataTransfer.setData("text/plain",String(t.id))}
      onKeyDown=${p}
    >
      <p class="task-title">${g(t.title)}</p>
      ${t.description&&r`<p class="muted task-text">${g(t.description,160)}</p>`}
      <p class="task-facts">
        <span class="muted">#${t.id}</span>
        ${c.length>0&&r`<span class="tag warn">Blocked by ${c.map(n=>`#${n}`).join(", ")}</span>`}
        ${t.ready&&r`<span class="tag good">Ready</span>`}
        ${t.owner&&r`<span class="tag">${g(t.owner,40)}</span>`}
        <span class="muted"><${A} at=${t.updated} /></span>
      </p>
      <div class="task-buttons">
        ${s&&r`<button type="button" class="small" aria-label=${`Move to ${s[1]}`} onClick=${()=>e(t,s[0])}>←</button>`}
        ${i&&r`<button type="button" class="small" aria-label=${`Move to ${i[1]}`} onClick=${()=>e(t,i[0])}>→</button>`}
        <button type="button" class="small" onClick=${()=>d(t)}>Edit</button>
      </div>
    </article>
  `}function D(t,u,o){let e=t.closest(".column"),d=i=>[...i.querySelectorAll(".task")],$=d(e).indexOf(t);if(o){d(e)[$+o]?.focus();return}let s=[...e.parentElement.children];for(let i=s.indexOf(e)+u;s[i];i+=u){let c=d(s[i]);if(c.length){c[Math.min($,c.length-1)].focus();return}}}function P({task:t,reload:u,onClose:o}){let[e,d]=b({title:t.title,description:t.description,owner:t.owner,status:t.status,blockedBy:t.blockedBy.join(", ")}),$=c=>p=>d({...e,[c]:p}),s=k(async()=>{let c=e.blockedBy.split(/[\s,#]+/).filter(Boolean).map(Number),p={...e,title:e.title.trim(),blockedBy:c};if(c.some(n=>!Number.isSafeInteger(n)))throw Object.assign(new Error("Blocked by must be a list of task numbers."),{suggestion:"Separate them with commas, such as 2, 5."});p.status===t.status&&delete p.status,p.owner===t.owner&&delete p.owner,await w.patch(x("/v1/tasks",t.id),p,v()),await u(),o()}),i=c=>{c.preventDefault(),s.run()};return r`
    <${E} title=${`Edit task ${t.id}`} onClose=${o}>
      <form class="form" onSubmit=${i}>
        <${f} label="Title" value=${e.title} onInput=${$("title")} maxlength="200" required />
        <${f} label="Description" multiline value=${e.description} onInput=${$("description")} maxlength="8000" />
        <${f} label="Status" value=${e.status} onInput=${$("status")} options=${h} />
        <${f} label="Owner" value=${e.owner} onInput=${$("owner")} maxlength="100" />
        <${f} label="Blocked by" value=${e.blockedBy} onInput=${$("blockedBy")} hint="Numbers of the tasks to complete first" />
        <${T} error=${s.error} />
        <div class="buttons">
          <button type="submit" class="main" disabled=${s.isRunning}>Save</button>
          <button type="button" onClick=${o}>Cancel</button>
        </div>
      </form>
    <//>
  `}export{R as default};
