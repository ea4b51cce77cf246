import{c as L}from"./chunk-C3EUQ6DP.js";import{a as N}from"./chunk-CAWJ5LRR.js";import"./chunk-42ZGUE6R.js";import"./chunk-CQVYPWIL.js";import{c as I,d as R}from"./chunk-RYPRQTRN.js";import{C as _,G as E,H as F,I as T,J as w,K as C,L as q,O as c,R as j,S as D,T as A,c as f,g as M,l as s,q as b,r as v,t as k}from"./chunk-ZUDFSCJ6.js";import{a as l,b as u,c as x,f as S,g as O}from"./chunk-JDG66FB4.js";import"./chunk-OOJM4CTU.js";var G={queued:"warn",running:"good",completed:"",failed:"bad",cancelled:"bad"},z=200;function H(){let{rows:t,error:n,isLoading:e,hasMore:d,more:$,reload:a}=D("/v1/agents","agents",{on:["agent"]}),o=I.value.get("id"),r=M(()=>J(t),[t]),p=i=>()=>{let g=r.findIndex(({agent:W})=>W.id===o),h=r[Math.min(r.length-1,Math.max(0,g+i))];h&&R(`/agents?id=${encodeURIComponent(h.agent.id)}`,{replace:!0})};L({j:{label:"Next agent",run:p(1)},k:{label:"Previous agent",run:p(-1)}});let m=t.filter(i=>i.status==="running"||i.status==="queued").length;return s`
    <${E} title="Agents" actions=${t.length>0&&s`<span class="muted">${x(m,"agent")} at work</span>`}>
      <${w} error=${n} retry=${a} />
      ${e&&s`<${C} />`}
      ${!e&&!n&&!t.length&&s`<${T} title="No agents yet">An agent appears here when a call of the tools agent or agent_spawn starts it.<//>`}
      ${t.length>0&&s`<div class="two-panes">
        <nav class="panel tree" aria-label="Agents">
          <ul>
            ${r.map(({agent:i,depth:g})=>s`<${Q} key=${i.id} agent=${i} depth=${g} isOpen=${i.id===o} />`)}
          </ul>
          ${d&&s`<button type="button" onClick=${$}>Show older agents</button>`}
        </nav>
        <div class="pane">
          ${o?s`<${X} key=${o} id=${o} reload=${a} />`:s`<${T} title="Choose an agent">Its transcript appears here. The keys j and k go through the list.<//>`}
        </div>
      </div>`}
    <//>
  `}function J(t){let n=new Set(t.map(a=>a.id)),e=new Map;for(let a of t){let o=n.has(a.parent)?a.parent:null;e.set(o,[...e.get(o)??[],a])}let d=[],$=(a,o)=>{for(let r of e.get(a)??[])d.push({agent:r,depth:o}),$(r.id,o+1)};return $(null,0),d}function K(t){return t.idle?"idle":t.status}function Q({agent:t,depth:n,isOpen:e}){return s`
    <li style=${{paddingLeft:`${Math.min(n,8)*14}px`}}>
      <a href=${`/agents?id=${encodeURIComponent(t.id)}`} aria-current=${e?"true":void 0}>
        <span class="tree-title">${u(t.title,120)||l(t.id)}</span>
        <span class="tree-facts">
          <span class=${`tag ${G[t.status]??""}`}>${K(t)}</span>
          <span>${u(t.agent,40)}</span>
          <span>depth ${t.depth}</span>
          <span>${V(t)}</span>
          ${t.cost!==null&&t.cost!==void 0&&s`<span>${S(t.cost)}</span>`}
        </span>
      </a>
    </li>
  `}function V({input_tokens:t,output_tokens:n}){return`${P(t)} in, ${P(n)} out`}function P(t){return new Intl.NumberFormat(void 0,{notation:"compact",maximumFractionDigits:1}).format(t)}function X({id:t,reload:n}){let{data:e,error:d,isLoading:$,reload:a}=j(v("/v1/agents",t),{on:["agent","call"]}),[o,r]=f(""),p=A(async()=>{await b.post(v("/v1/agents",t,"messages"),{text:o},k()),r(""),await a(),n()}),m=A(async()=>{await b.post(v("/v1/agents",t,"cancel"),{},k()),await a(),n()}),i=e&&!e.idle&&!["queued","running"].includes(e.status),g=h=>{h.preventDefault(),o.trim()&&p.run()};return s`
    <${w} error=${d} retry=${a} />
    ${$&&s`<${C} />`}
    ${e&&s`
      <section class="panel stack" aria-label="Agent">
        <header class="pane-head">
          <h2>${u(e.title,200)||l(e.id)}</h2>
          <button type="button" class="danger" disabled=${i||m.isRunning} onClick=${()=>m.run()}>Cancel</button>
        </header>
        <dl class="agent-facts">
          <div><dt>State</dt><dd><span class=${`tag ${G[e.status]??""}`}>${K(e)}</span>${e.error_code&&s` <span class="bad">${l(e.error_code)}</span>`}</dd></div>
          <div><dt>Kind</dt><dd>${u(e.agent,60)}</dd></div>
          <div><dt>Depth</dt><dd>${e.depth}</dd></div>
          <div><dt>Tokens</dt><dd>${V(e)}</dd></div>
          <div><dt>Cost</dt><dd>${e.cost===null||e.cost===void 0?"unknown":S(e.cost)}</dd></div>
          <div><dt>Started</dt><dd><${c} at=${e.created} /></dd></div>
          <div><dt>Changed</dt><dd><${c} at=${e.changed} /></dd></div>
          <div><dt>Id</dt><dd class="mono">${l(e.id)}</dd></div>
          <div><dt>Parent</dt><dd class="mono">${l(e.parent)}</dd></div>
        </dl>
        <form class="row-form" onSubmit=${g}>
          <${_}
            label="Message"
            value=${o}
            onInput=${r}
            disabled=${i}
            placeholder=${i?"The agent has ended":"What the agent should know or do"}
          />
          <button type="submit" class="main" disabled=${i||p.isRunning}>Send</button>
        </form>
        <${w} error=${p.error??m.error} />
      </section>
      <${Y} messages=${e.messages??[]} agent=${e} />
    `}
  `}function Y({messages:t,agent:n}){let[e,d]=f(z),$=t.slice(-e),a=t.length-$.length;return s`
    <${F} title="Transcript">
      ${a>0&&s`<button type="button" onClick=${()=>d(e*4)}>Show ${x(a,"earlier message")}</button>`}
      ${!t.length&&s`<${y} who="Task" text=${n.prompt??""} />`}
      ${$.map((o,r)=>s`<${Z} key=${a+r} record=${o} />`)}
      ${!t.length&&n.answer&&s`<${y} who="Answer" text=${n.answer} />`}
    <//>
  `}function Z({record:t}){let n=t.time?t.time*1e3:null;if(t.type==="user")return s`<${y} who="Task" at=${n} text=${U(t.content)} />`;if(t.type==="answer")return(t.parts??[]).map((e,d)=>e.call?s`<${B} key=${d} at=${n} summary=${`Call ${u(e.call,80)}`} text=${typeof e.args=="string"?e.args:O(e.args)} />`:e.text&&s`<${y} key=${d} who="Agent" at=${n} text=${e.text} />`);if(t.type==="result"){let e=t.outcome==="ok";return s`<${B} at=${n} isBad=${!e} summary=${`Result of ${u(t.tool,80)}${e?"":`: ${u(t.outcome,60)}`}`} text=${U(t.content)} />`}return t.type==="ended"?s`<p class="muted">Ended with status ${l(t.status)} ${t.error_code&&l(t.error_code)} <${c} at=${n} /></p>`:s`<p class="muted">From here on the model sees a shorter form of the messages above. <${c} at=${n} /></p>`}function U(t){return typeof t=="string"?t:(t??[]).map(n=>typeof n=="string"?n:`[${n?.image??"image"}]`).join(`
`)}function y({who:t,at:n,text:e}){return s`
    <article class="panel message">
      <p class="message-head"><strong>${t}</strong> <span class="muted"><${c} at=${n} /></span></p>
      <${N} view=${{type:"markdown",content:e}} text=${e} />
    </article>
  `}function B({summary:t,text:n,at:e,isBad:d}){let[$,a]=f(!1);return s`
    <details class="panel message" onToggle=${o=>a(o.currentTarget.open)}>
      <summary class=${d?"bad":""}>${t} <span class="muted"><${c} at=${e} /></span></summary>
      ${$&&s`<${q} text=${n} />`}
    </details>
  `}export{H as default};
