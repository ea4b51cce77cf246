import{c as R}from"./chunk-IDSXIV7L.js";import{a as N}from"./chunk-ZYFDT3ZF.js";import"./chunk-7MHHIP2K.js";import"./chunk-CGVARZRQ.js";import"./chunk-HOPPGRH4.js";import"./chunk-ATZ5GOGL.js";import{c as U,d as B}from"./chunk-STYMQTOY.js";import{E as P,H as c,K as j,L as D,M as L,e as k,f as v,h as x,m as I,r as _,u as F,v as q,w as A,x as w,y as C}from"./chunk-OTZEVIFT.js";import{d as h,e as M,h as E,n as s,p as l,r as u,t as S,w as T,x as O}from"./chunk-N2E7E6HP.js";import"./chunk-OOJM4CTU.js";var W={queued:"warn",running:"good",completed:"",failed:"bad",cancelled:"bad"},J=200;function Q(){let{rows:t,error:n,isLoading:e,hasMore:d,more:$,reload:a}=D("/v1/agents","agents",{on:["agent"]}),o=U.value.get("id"),r=E(()=>X(t),[t]),p=i=>()=>{let f=r.findIndex(({agent:b})=>b.id===o),m=r[Math.min(r.length-1,Math.max(0,f+i))];m&&B(`/agents?id=${encodeURIComponent(m.agent.id)}`,{replace:!0})};R({j:{label:"Next agent",run:p(1)},k:{label:"Previous agent",run:p(-1)}});let g=t.filter(i=>i.status==="running"||i.status==="queued").length;return s`
    <${F} title="Agents" actions=${t.length>0&&s`<span class="muted">${S(g,"agent")} at work</span>`}>
      <${w} error=${n} retry=${a} />
      ${e&&s`<${C} />`}
      ${!e&&!n&&!t.length&&s`<${A} title="No agents yet">Agents appear here when a call of agent or agent_spawn starts them.<//>`}
      ${t.length>0&&s`<div class="two-panes">
        <nav class="panel tree" aria-label="Agents">
          <ul>
            ${r.map(({agent:i,depth:f})=>s`<${Y} key=${i.id} agent=${i} depth=${f} isOpen=${i.id===o} />`)}
          </ul>
          ${d&&s`<button type="button" onClick=${$}>Show older agents</button>`}
        </nav>
        <div class="pane">
          ${o?s`<${Z} key=${o} id=${o} reload=${a} />`:s`<${A} title="Select an agent">Its transcript appears here. Press j and k to move through the list.<//>`}
        </div>
      </div>`}
    <//>
  `}function X(t){let n=new Set(t.map(a=>a.id)),e=new Map;for(let a of t){let o=n.has(a.parent)?a.parent:null;e.set(o,[...e.get(o)??[],a])}let d=[],$=(a,o)=>{for(let r of e.get(a)??[])d.push({agent:r,depth:o}),$(r.id,o+1)};return $(null,0),d}function z(t){return t.idle?"idle":t.status}function Y({agent:t,depth:n,isOpen:e}){return s`
    <li style=${{paddingLeft:`${Math.min(n,8)*14}px`}}>
      <a href=${`/agents?id=${encodeURIComponent(t.id)}`} aria-current=${e?"true":void 0}>
        <span class="tree-title">${u(t.title,120)||l(t.id)}</span>
        <span class="tree-facts">
          <span class=${`tag ${W[t.status]??""}`}>${z(t)}</span>
          <span>${u(t.agent,40)}</span>
          <span>depth ${t.depth}</span>
          <span>${H(t)}</span>
          ${t.cost!==null&&t.cost!==void 0&&s`<span>${T(t.cost)}</span>`}
        </span>
      </a>
    </li>
  `}function H({input_tokens:t,output_tokens:n}){return`${G(t)} in, ${G(n)} out`}function G(t){return new Intl.NumberFormat(void 0,{notation:"compact",maximumFractionDigits:1}).format(t)}function Z({id:t,reload:n}){let{data:e,error:d,isLoading:$,reload:a}=j(v("/v1/agents",t),{on:["agent"]});M(()=>I(["call"],m=>m.some(b=>b.session===t)&&a()),[t]);let[o,r]=h(""),p=L(async()=>{await k.post(v("/v1/agents",t,"messages"),{text:o},x()),r(""),await a(),n()}),g=L(async()=>{await k.post(v("/v1/agents",t,"cancel"),{},x()),await a(),n()}),i=e&&!e.idle&&!["queued","running"].includes(e.status),f=m=>{m.preventDefault(),o.trim()&&p.run()};return s`
    <${w} error=${d} retry=${a} />
    ${$&&s`<${C} />`}
    ${e&&s`
      <section class="panel stack" aria-label="Agent">
        <header class="pane-head">
          <h2>${u(e.title,200)||l(e.id)}</h2>
          <button type="button" class="danger" disabled=${i||g.isRunning} onClick=${()=>g.run()}>Cancel</button>
        </header>
        <dl class="agent-facts">
          <div><dt>State</dt><dd><span class=${`tag ${W[e.status]??""}`}>${z(e)}</span>${e.error_code&&s` <span class="bad">${l(e.error_code)}</span>`}</dd></div>
          <div><dt>Kind</dt><dd>${u(e.agent,60)}</dd></div>
          <div><dt>Depth</dt><dd>${e.depth}</dd></div>
          <div><dt>Tokens</dt><dd>${H(e)}</dd></div>
          <div><dt>Cost</dt><dd>${e.cost===null||e.cost===void 0?"unknown":T(e.cost)}</dd></div>
          <div><dt>Started</dt><dd><${c} at=${e.created} /></dd></div>
          <div><dt>Changed</dt><dd><${c} at=${e.changed} /></dd></div>
          <div><dt>Id</dt><dd class="mono">${l(e.id)}</dd></div>
          <div><dt>Parent</dt><dd class="mono">${l(e.parent)}</dd></div>
        </dl>
        <form class="row-form" onSubmit=${f}>
          <${_}
            label="Message"
            value=${o}
            onInput=${r}
            disabled=${i}
            placeholder=${i?"The agent has ended":"What the agent should know or do"}
          />
          <button type="submit" class="main" disabled=${i||p.isRunning}>Send</button>
        </form>
        <${w} error=${p.error??g.error} />
      </section>
      <${tt} messages=${e.messages??[]} agent=${e} />
    `}
  `}function tt({messages:t,agent:n}){let[e,d]=h(J),$=t.slice(-e),a=t.length-$.length;return s`
    <${q} title="Transcript">
      ${a>0&&s`<button type="button" onClick=${()=>d(e*4)}>Show ${S(a,"earlier message")}</button>`}
      ${!t.length&&s`<${y} who="Task" text=${n.prompt??""} />`}
      ${$.map((o,r)=>s`<${et} key=${a+r} record=${o} />`)}
      ${!t.length&&n.answer&&s`<${y} who="Answer" text=${n.answer} />`}
    <//>
  `}function et({record:t}){let n=t.time?t.time*1e3:null;if(t.type==="user")return s`<${y} who="Task" at=${n} text=${K(t.content)} />`;if(t.type==="answer")return(t.parts??[]).map((e,d)=>e.call?s`<${V} key=${d} at=${n} summary=${`Call ${u(e.call,80)}`} text=${typeof e.args=="string"?e.args:O(e.args)} />`:e.text&&s`<${y} key=${d} who="Agent" at=${n} text=${e.text} />`);if(t.type==="result"){let e=t.outcome==="ok";return s`<${V} at=${n} isBad=${!e} summary=${`Result of ${u(t.tool,80)}${e?"":`: ${u(t.outcome,60)}`}`} text=${K(t.content)} />`}return t.type==="ended"?s`<p class="muted">Ended with status ${l(t.status)} ${t.error_code&&l(t.error_code)} <${c} at=${n} /></p>`:s`<p class="muted">From here on, the model sees a compacted form of the messages above. <${c} at=${n} /></p>`}function K(t){return typeof t=="string"?t:(t??[]).map(n=>typeof n=="string"?n:`[${n?.image??"image"}]`).join(`
`)}function y({who:t,at:n,text:e}){return s`
    <article class="panel message">
      <p class="message-head"><strong>${t}</strong> <span class="muted"><${c} at=${n} /></span></p>
      <${N} view=${{type:"markdown",content:e}} text=${e} />
    </article>
  `}function V({summary:t,text:n,at:e,isBad:d}){let[$,a]=h(!1);return s`
    <details class="panel message" onToggle=${o=>a(o.currentTarget.open)}>
      <summary class=${d?"bad":""}>${t} <span class="muted"><${c} at=${e} /></span></summary>
      ${$&&s`<${P} text=${n} />`}
    </details>
  `}export{Q as default};
