import{F as N,a as ae,c as b,d as j,e as ue,f as E,h as fe,k as o,w as M,y as ce,z as he}from"./chunk-2H5QD3Y5.js";import{a as _,b as $,c as C}from"./chunk-PHU6BNSR.js";var je=400,R=2e3,Me=6e4;function de({view:t}){let{content:e,language:n,path:s,created:i,lineCount:r}=t,l=Number.isInteger(t.firstLine)?t.firstLine:1;return o`
    <div class="code">
      <div class="diff-head">
        <span class="mono">${$(typeof s=="string"?s:"",300)}</span>
        ${i===!0&&o`<span class="tag good">created</span>`}
        ${Number.isInteger(r)&&o`<span class="muted">${C(r,"line")}</span>`}
      </div>
      <${Ne} text=${e} language=${n} first=${l} marked=${t.highlightLines} />
    </div>
  `}function Ne({text:t,language:e,first:n=1,marked:s=[],label:i="Code"}){let[r,l]=b(je),[a,u]=b(null),f=E(()=>t.replace(/\n$/,"").split(`
`),[t]);j(()=>{if(u(null),typeof e!="string"||t.length>Me||f.some(m=>m.length>R))return;let p=!0;return import("./highlighting-QIF6XCGF.js").then(({highlighted:m})=>p&&u(m(f.join(`
`),e)),()=>{}),()=>p=!1},[t,e]);let c=new Set(Array.isArray(s)?s:[]);return o`
    <div class="lines source">
      <div class="lines-tools"><${M} text=${t} /></div>
      <pre tabindex="0" role="region" aria-label=${i}>${f.slice(0,r).map((p,m)=>o`
          <span key=${m} class=${`source-line${c.has(n+m)?" marked":""}`}>
            <span class="source-number" data-number=${n+m}></span>
            <span class="source-text">${a?.[m]?.map(Re)??_(p.length>R?`${p.slice(0,R)}\u2026 ${(p.length-R).toLocaleString()} more characters`:p)}${`
`}</span>
          </span>
        `)}</pre>
      ${f.length>r&&o`<button type="button" onClick=${()=>l(r*4)}>Show more of ${C(f.length,"line")}</button>`}
    </div>
  `}function Re({text:t,scope:e},n){return e?o`<span key=${n} class=${`syntax-${e}`}>${_(t)}</span>`:_(t)}var I=class{diff(e,n,s={}){let i;typeof s=="function"?(i=s,s={}):"callback"in s&&(i=s.callback);let r=this.castInput(e,s),l=this.castInput(n,s),a=this.removeEmpty(this.tokenize(r,s)),u=this.removeEmpty(this.tokenize(l,s));return this.diffWithOptionsObj(a,u,s,i)}diffWithOptionsObj(e,n,s,i){var r;let l=d=>{if(d=this.postProcess(d,s),i){setTimeout(function(){i(d)},0);return}else return d},a=n.length,u=e.length,f=1,c=a+u;s.maxEditLength!=null&&(c=Math.min(c,s.maxEditLength));let p=(r=s.timeout)!==null&&r!==void 0?r:1/0,m=Date.now()+p,g=[{oldPos:-1,lastComponent:void 0}],y=this.extractCommon(g[0],n,e,0,s);if(g[0].oldPos+1>=u&&y+1>=a)return l(this.buildValues(g[0].lastComponent,n,e));let O=-1/0,k=1/0,re=()=>{for(let d=Math.max(O,-f);d<=Math.min(k,f);d+=2){let w,A=g[d-1],W=g[d+1];A&&(g[d-1]=void 0);let G=!1;if(W){let oe=W.oldPos-d;G=W&&0<=oe&&oe<a}let le=A&&A.oldPos+1<u;if(!G&&!le){g[d]=void 0;continue}if(!le||G&&A.oldPos<W.oldPos?w=this.addToPath(W,!0,!1,0,s):w=this.addToPath(A,!1,!0,1,s),y=this.extractCommon(w,n,e,d,s),w.oldPos+1>=u&&y+1>=a)return l(this.buildValues(w.lastComponent,n,e))||!0;g[d]=w,w.oldPos+1>=u&&(k=Math.min(k,d-1)),y+1>=a&&(O=Math.max(O,d+1))}f++};if(i)(function d(){setTimeout(function(){if(f>c||Date.now()>m)return i(void 0);re()||d()},0)})();else for(;f<=c&&Date.now()<=m;){let d=re();if(d)return d}}addToPath(e,n,s,i,r){let l=e.lastComponent;return l&&!r.oneChangePerToken&&l.added===n&&l.removed===s?{oldPos:e.oldPos+i,lastComponent:{count:l.count+1,added:n,removed:s,previousComponent:l.previousComponent}}:{oldPos:e.oldPos+i,lastComponent:{count:1,added:n,removed:s,previousComponent:l}}}extractCommon(e,n,s,i,r){let l=n.length,a=s.length,u=e.oldPos,f=u-i,c=0;for(;f+1<l&&u+1<a&&this.equals(s[u+1],n[f+1],r);)f++,u++,c++,r.oneChangePerToken&&(e.lastComponent={count:1,previousComponent:e.lastComponent,added:!1,removed:!1});return c&&!r.oneChangePerToken&&(e.lastComponent={count:c,previousComponent:e.lastComponent,added:!1,removed:!1}),e.oldPos=u,f}equals(e,n,s){return s.comparator?s.comparator(e,n):e===n||!!s.ignoreCase&&e.toLowerCase()===n.toLowerCase()}removeEmpty(e){let n=[];for(let s=0;s<e.length;s++)e[s]&&n.push(e[s]);return n}castInput(e,n){return e}tokenize(e,n){return Array.from(e)}join(e){return e.join("")}postProcess(e,n){return e}get useLongestToken(){return!1}buildValues(e,n,s){let i=[],r;for(;e;)i.push(e),r=e.previousComponent,delete e.previousComponent,e=r;i.reverse();let l=i.length,a=0,u=0,f=0;for(;a<l;a++){let c=i[a];if(c.removed)c.value=this.join(s.slice(f,f+c.count)),f+=c.count;else{if(!c.added&&this.useLongestToken){let p=n.slice(u,u+c.count);p=p.map(function(m,g){let y=s[f+g];return y.length>m.length?y:m}),c.value=this.join(p)}else c.value=this.join(n.slice(u,u+c.count));u+=c.count,c.added||(f+=c.count)}}return i}};function H(t,e){let n;for(n=0;n<t.length&&n<e.length;n++)if(t[n]!=e[n])return t.slice(0,n);return t.slice(0,n)}function V(t,e){let n;if(!t||!e||t[t.length-1]!=e[e.length-1])return"";for(n=0;n<t.length&&n<e.length;n++)if(t[t.length-(n+1)]!=e[e.length-(n+1)])return t.slice(-n);return t.slice(-n)}function F(t,e,n){if(t.slice(0,e.length)!=e)throw Error(`string ${JSON.stringify(t)} doesn't start with prefix ${JSON.stringify(e)}; this is a bug`);return n+t.slice(e.length)}function B(t,e,n){if(!e)return t+n;if(t.slice(-e.length)!=e)throw Error(`string ${JSON.stringify(t)} doesn't end with suffix ${JSON.stringify(e)}; this is a bug`);return t.slice(0,-e.length)+n}function T(t,e){return F(t,e,"")}function D(t,e){return B(t,e,"")}function J(t,e){return e.slice(0,Fe(t,e))}function Fe(t,e){let n=0;t.length>e.length&&(n=t.length-e.length);let s=e.length;t.length<e.length&&(s=t.length);let i=Array(s),r=0;i[0]=0;for(let l=1;l<s;l++){for(e[l]==e[r]?i[l]=i[r]:i[l]=r;r>0&&e[l]!=e[r];)r=i[r];e[l]==e[r]&&r++}r=0;for(let l=n;l<t.length;l++){for(;r>0&&t[l]!=e[r];)r=i[r];t[l]==e[r]&&r++}return r}function Y(t,e){let n=[];for(let s of Array.from(e.segment(t))){let i=s.segment;n.length&&/\s/.test(n[n.length-1])&&/\s/.test(i)?n[n.length-1]+=i:n.push(i)}return n}function U(t,e){if(e)return P(t,e)[1];let n;for(n=t.length-1;n>=0&&t[n].match(/\s/);n--);return t.substring(n+1)}function L(t,e){if(e)return P(t,e)[0];let n=t.match(/^\s*/);return n?n[0]:""}function P(t,e){if(!e)return[L(t),U(t)];if(e.resolvedOptions().granularity!="word")throw new Error('The segmenter passed must have a granularity of "word"');let n=Y(t,e),s=n[0],i=n[n.length-1],r=/\s/.test(s)?s:"",l=/\s/.test(i)?i:"";return[r,l]}var q="a-zA-Z0-9_\\u{AD}\\u{C0}-\\u{D6}\\u{D8}-\\u{F6}\\u{F8}-\\u{2C6}\\u{2C8}-\\u{2D7}\\u{2DE}-\\u{2FF}\\u{1E00}-\\u{1EFF}",Be=new RegExp(`[${q}]+|\\s+|[^${q}]`,"ug"),Z=class extends I{equals(e,n,s){return s.ignoreCase&&(e=e.toLowerCase(),n=n.toLowerCase()),e.trim()===n.trim()}tokenize(e,n={}){let s;if(n.intlSegmenter){let l=n.intlSegmenter;if(l.resolvedOptions().granularity!="word")throw new Error('The segmenter passed must have a granularity of "word"');s=Y(e,l)}else s=e.match(Be)||[];let i=[],r=null;return s.forEach(l=>{/\s/.test(l)?r==null?i.push(l):i.push(i.pop()+l):r!=null&&/\s/.test(r)?i[i.length-1]==r?i.push(i.pop()+l):i.push(r+l):i.push(l),r=l}),i}join(e){return e.map((n,s)=>s==0?n:n.replace(/^\s+/,"")).join("")}postProcess(e,n){if(!e||n.oneChangePerToken)return e;let s=null,i=null,r=null;return e.forEach(l=>{l.added?i=l:l.removed?r=l:((i||r)&&me(s,r,i,l,n.intlSegmenter),s=l,i=null,r=null)}),(i||r)&&me(s,r,i,null,n.intlSegmenter),e}},Ue=new Z;function me(t,e,n,s,i){if(e&&n){let[r,l]=P(e.value,i),[a,u]=P(n.value,i);if(t){let f=H(r,a);t.value=B(t.value,a,f),e.value=T(e.value,f),n.value=T(n.value,f)}if(s){let f=V(l,u);s.value=F(s.value,u,f),e.value=D(e.value,f),n.value=D(n.value,f)}}else if(n){if(t){let r=L(n.value,i);n.value=n.value.substring(r.length)}if(s){let r=L(s.value,i);s.value=s.value.substring(r.length)}}else if(t&&s){let r=L(s.value,i),[l,a]=P(e.value,i),u=H(r,l);e.value=T(e.value,u);let f=V(T(r,u),a);e.value=D(e.value,f),s.value=F(s.value,r,f),t.value=B(t.value,r,r.slice(0,r.length-f.length))}else if(s){let r=L(s.value,i),l=U(e.value,i),a=J(l,r);e.value=D(e.value,a)}else if(t){let r=U(t.value,i),l=L(e.value,i),a=J(r,l);e.value=T(e.value,a)}}var Q=class extends I{tokenize(e){let n=new RegExp(`(\\r?\\n)|[${q}]+|[^\\S\\n\\r]+|[^${q}]`,"ug");return e.match(n)||[]}},pe=new Q;function K(t,e,n){return pe.diff(t,e,n)}var _e="hilt.diff",qe=300,ge=500,$e=2e3,ee=fe(localStorage.getItem(_e)==="split"?"split":"unified");function xe({view:t}){return o`<div class="diffs">${t.items.map((e,n)=>o`<${te} key=${n} view=${e} hasOthers=${t.items.length>8} />`)}</div>`}function te({view:t,hasOthers:e=!1}){let[n,s]=b(!e),[i,r]=b(qe),l=E(()=>t.hunks.map(m=>Xe(m.changes)),[t]),a=ee.value==="split",u=()=>{ee.value=a?"unified":"split",localStorage.setItem(_e,ee.value)},f=i,c=[];l.forEach((m,g)=>{if(f<=0)return;g&&c.push(o`<tr key=${`gap${g}`} class="gap"><td colspan=${a?4:3}><span aria-hidden="true">⋯</span></td></tr>`);let y=m.slice(0,f);f-=y.length,c.push(...y.flatMap((O,k)=>a?ze(O,`${g}.${k}`):Ge(O,`${g}.${k}`)))});let p=l.reduce((m,g)=>m+g.length,0);return o`
    <div class="diff">
      <div class="diff-head">
        <button type="button" class="quiet diff-name" aria-expanded=${n} onClick=${()=>s(!n)}>
          <span class="mono">${$(t.path,300)}</span>
        </button>
        <span class="good">+${t.additions??0}</span> <span class="bad">−${t.deletions??0}</span>
        <button type="button" class="small diff-layout" onClick=${u}>${a?"Unified":"Side by side"}</button>
      </div>
      ${n&&o`<div class="diff-scroll" tabindex="0" role="region" aria-label=${`Changes of ${$(t.path,300)}`}>
        <table class=${a?"split":"unified"}><tbody>${c}</tbody></table>
        ${!p&&o`<p class="muted">No lines to show.</p>`}
      </div>`}
      ${n&&p>i&&o`<button type="button" onClick=${()=>r(i*4)}>Show more of ${C(p,"line")}</button>`}
    </div>
  `}function Xe(t){let e=[],n=[],s=[],i=()=>{for(let r=0;r<Math.max(n.length,s.length);r+=1)e.push({old:n[r]??null,new:s[r]??null});n=[],s=[]};for(let r of t){let l={...r,content:_(r.content.slice(0,$e))};r.content.length>$e&&(l.content+="\u2026"),l.type==="removed"?(s.length&&i(),n.push(l)):l.type==="added"?s.push(l):(i(),e.push({old:l,new:l}))}return i(),e}function ye(t){let e=t.old?.content??"",n=t.new?.content??"";if(!t.old||!t.new||t.old===t.new||e.length>ge||n.length>ge)return[e,n];let s=K(e,n);if(!s.reduce((l,a)=>l+(a.added||a.removed?0:a.value.trim().length),0))return[e,n];let r=l=>s.filter(a=>a[l]||!a.added&&!a.removed).map((a,u)=>a[l]?o`<mark key=${u}>${a.value}</mark>`:a.value);return[r("removed"),r("added")]}function be(t,e,n,s){let i=t===null?"none":t.type==="removed"||t.type==="added"?t.type:"";return o`
    <td class=${`line-number ${i}`} data-number=${t?.[e]??""}></td>
    <td class=${`line ${i}`}><span class="hidden">${s}</span>${n}</td>
  `}function ze(t,e){let[n,s]=ye(t),i=t.old===t.new;return o`
    <tr key=${e}>
      ${be(t.old,"oldLineNumber",n,i||!t.old?"":"removed: ")}
      ${be(t.new,"newLineNumber",s,i||!t.new?"":"added: ")}
    </tr>
  `}function Ge(t,e){let[n,s]=ye(t),i=(r,l,a,u)=>o`
    <tr key=${`${e}${a}`} class=${a}>
      <td class=${`line-number ${a}`} data-number=${r.oldLineNumber??""}></td>
      <td class=${`line-number ${a}`} data-number=${r.newLineNumber??""}></td>
      <td class=${`line ${a}`}>${u&&o`<span class="hidden">${u}</span>`}${l}</td>
    </tr>
  `;return t.old===t.new?[i(t.old,n,"","")]:[t.old&&i(t.old,n,"removed","removed: "),t.new&&i(t.new,s,"added","added: ")].filter(Boolean)}var He=200,Ve={created:"good",modified:"warn",deleted:"bad"},Se={completed:["\u2713","done"],in_progress:["\u25D0","in progress"],pending:["\u25CB","to do"],cancelled:["\u2715","cancelled"]};function ve({view:t}){let e=Array.isArray(t.groups)?t.groups:[{label:"",files:t.files}],n=e.reduce((i,r)=>i+r.files.length,0),s=Number.isFinite(t.total)?t.total:n;return o`
    <div class="file-list">
      ${e.map((i,r)=>o`<${Je} key=${r} group=${i} />`)}
      <p class="muted">${s>n?`The first ${n.toLocaleString()} of ${C(s,"file")}.`:C(s,"file")}</p>
    </div>
  `}function Je({group:t}){let[e,n]=b(He);return o`
    ${t.label&&o`<p class="file-group">${$(t.label,100)}</p>`}
    <ul>
      ${t.files.slice(0,e).map((s,i)=>o`
          <li key=${i}>
            <span class="mono">${$(s.path,500)}${Number.isFinite(s.line)?`:${s.line}`:""}</span>
            ${typeof s.action=="string"&&o` <span class=${`tag ${Ve[s.action]??""}`}>${$(s.action,20)}</span>`}
            ${typeof s.content=="string"&&o` <span class="mono muted">${$(s.content,300)}</span>`}
          </li>
        `)}
    </ul>
    ${t.files.length>e&&o`<button type="button" onClick=${()=>n(e*5)}>Show more files</button>`}
  `}function Ce({view:t}){return o`
    <ul class="todo-list">
      ${t.items.slice(0,500).map((e,n)=>{let[s,i]=Se[e.status]??Se.pending;return o`
          <li key=${n} class=${e.status==="completed"||e.status==="cancelled"?"muted":""}>
            <span aria-hidden="true">${s}</span><span class="hidden">${i}:</span> ${$(e.content,1e3)}
            ${typeof e.priority=="string"&&o` <span class="tag">${$(e.priority,20)}</span>`}
          </li>
        `})}
    </ul>
  `}var Ye=new Set(["image/png","image/jpeg","image/gif","image/webp"]),Ze=/^[A-Za-z0-9+/]+={0,2}$/;function we({content:t}){return(Array.isArray(t)?t:[]).filter(n=>n?.type==="image").map((n,s)=>o`<${Qe} key=${s} image=${n} number=${s+1} />`)}function Qe({image:t,number:e}){let[n,s]=b(!1),i=t.mimeType??t.mime_type,r=Ye.has(i)&&typeof t.data=="string"&&Ze.test(t.data),[l,a]=b(!r);if(l)return o`<p class="muted">Image ${e} is not complete, or not of a known type.</p>`;let u=`data:${i};base64,${t.data}`,f=o`<img src=${u} alt=${`Image ${e} of the result`} onError=${()=>a(!0)} />`;return o`
    <button type="button" class="thumbnail" aria-label=${`Zoom image ${e}`} onClick=${()=>s(!0)}>${f}</button>
    ${n&&o`<${he} title=${`Image ${e}`} wide onClose=${()=>s(!1)}><div class="zoomed">${f}</div><//>`}
  `}function Ee({view:t}){let e=ue(null),[n,s]=b(!1);return j(()=>{let i=!0;return import("./rendering-7X7XPW4T.js").then(({rendered:r})=>{i&&(e.current.replaceChildren(r(t.content)),s(!0))},()=>{}),()=>i=!1},[t.content]),o`
    ${typeof t.sourceUrl=="string"&&o`<p class="muted mono">${$(t.sourceUrl,300)}</p>`}
    <div class="markdown" ref=${e}></div>
    ${!n&&o`<${N} text=${t.content} />`}
  `}var ne=function(t,e){return Object.defineProperty?Object.defineProperty(t,"raw",{value:e}):t.raw=e,t},h;(function(t){t[t.EOS=0]="EOS",t[t.Text=1]="Text",t[t.Incomplete=2]="Incomplete",t[t.ESC=3]="ESC",t[t.Unknown=4]="Unknown",t[t.SGR=5]="SGR",t[t.OSCURL=6]="OSCURL"})(h||(h={}));var X=class{constructor(){this.VERSION="6.0.6",this.setup_palettes(),this._use_classes=!1,this.bold=!1,this.faint=!1,this.italic=!1,this.underline=!1,this.fg=this.bg=null,this._buffer="",this._url_allowlist={http:1,https:1},this._escape_html=!0,this.boldStyle="font-weight:bold",this.faintStyle="opacity:0.7",this.italicStyle="font-style:italic",this.underlineStyle="text-decoration:underline"}set use_classes(e){this._use_classes=e}get use_classes(){return this._use_classes}set url_allowlist(e){this._url_allowlist=e}get url_allowlist(){return this._url_allowlist}set escape_html(e){this._escape_html=e}get escape_html(){return this._escape_html}set boldStyle(e){this._boldStyle=e}get boldStyle(){return this._boldStyle}set faintStyle(e){this._faintStyle=e}get faintStyle(){return this._faintStyle}set italicStyle(e){this._italicStyle=e}get italicStyle(){return this._italicStyle}set underlineStyle(e){this._underlineStyle=e}get underlineStyle(){return this._underlineStyle}setup_palettes(){this.ansi_colors=[[{rgb:[0,0,0],class_name:"ansi-black"},{rgb:[187,0,0],class_name:"ansi-red"},{rgb:[0,187,0],class_name:"ansi-green"},{rgb:[187,187,0],class_name:"ansi-yellow"},{rgb:[0,0,187],class_name:"ansi-blue"},{rgb:[187,0,187],class_name:"ansi-magenta"},{rgb:[0,187,187],class_name:"ansi-cyan"},{rgb:[255,255,255],class_name:"ansi-white"}],[{rgb:[85,85,85],class_name:"ansi-bright-black"},{rgb:[255,85,85],class_name:"ansi-bright-red"},{rgb:[0,255,0],class_name:"ansi-bright-green"},{rgb:[255,255,85],class_name:"ansi-bright-yellow"},{rgb:[85,85,255],class_name:"ansi-bright-blue"},{rgb:[255,85,255],class_name:"ansi-bright-magenta"},{rgb:[85,255,255],class_name:"ansi-bright-cyan"},{rgb:[255,255,255],class_name:"ansi-bright-white"}]],this.palette_256=[],this.ansi_colors.forEach(s=>{s.forEach(i=>{this.palette_256.push(i)})});let e=[0,95,135,175,215,255];for(let s=0;s<6;++s)for(let i=0;i<6;++i)for(let r=0;r<6;++r){let l={rgb:[e[s],e[i],e[r]],class_name:"truecolor"};this.palette_256.push(l)}let n=8;for(let s=0;s<24;++s,n+=10){let i={rgb:[n,n,n],class_name:"truecolor"};this.palette_256.push(i)}}escape_txt_for_html(e){return this._escape_html?e.replace(/[&<>"']/gm,n=>{if(n==="&")return"&amp;";if(n==="<")return"&lt;";if(n===">")return"&gt;";if(n==='"')return"&quot;";if(n==="'")return"&#x27;"}):e}append_buffer(e){var n=this._buffer+e;this._buffer=n}get_next_packet(){var e={kind:h.EOS,text:"",url:""},n=this._buffer.length;if(n==0)return e;var s=this._buffer.indexOf("\x1B");if(s==-1)return e.kind=h.Text,e.text=this._buffer,this._buffer="",e;if(s>0)return e.kind=h.Text,e.text=this._buffer.slice(0,s),this._buffer=this._buffer.slice(s),e;if(s==0){if(n<3)return e.kind=h.Incomplete,e;var i=this._buffer.charAt(1);if(i!="["&&i!="]"&&i!="(")return e.kind=h.ESC,e.text=this._buffer.slice(0,1),this._buffer=this._buffer.slice(1),e;if(i=="["){this._csi_regex||(this._csi_regex=Le(Oe||(Oe=ne([`
                        ^                           # beginning of line
                                                    #
                                                    # First attempt
                        (?:                         # legal sequence
                          \x1B[                      # CSI
                          ([<-?]?)              # private-mode char
                          ([d;]*)                    # any digits or semicolons
                          ([ -/]?               # an intermediate modifier
                          [@-~])                # the command
                        )
                        |                           # alternate (second attempt)
                        (?:                         # illegal sequence
                          \x1B[                      # CSI
                          [ -~]*                # anything legal
                          ([\0-:])              # anything illegal
                        )
                    `],[`
                        ^                           # beginning of line
                                                    #
                                                    # First attempt
                        (?:                         # legal sequence
                          \\x1b\\[                      # CSI
                          ([\\x3c-\\x3f]?)              # private-mode char
                          ([\\d;]*)                    # any digits or semicolons
                          ([\\x20-\\x2f]?               # an intermediate modifier
                          [\\x40-\\x7e])                # the command
                        )
                        |                           # alternate (second attempt)
                        (?:                         # illegal sequence
                          \\x1b\\[                      # CSI
                          [\\x20-\\x7e]*                # anything legal
                          ([\\x00-\\x1f:])              # anything illegal
                        )
                    `]))));let l=this._buffer.match(this._csi_regex);if(l===null)return e.kind=h.Incomplete,e;if(l[4])return e.kind=h.ESC,e.text=this._buffer.slice(0,1),this._buffer=this._buffer.slice(1),e;l[1]!=""||l[3]!="m"?e.kind=h.Unknown:e.kind=h.SGR,e.text=l[2];var r=l[0].length;return this._buffer=this._buffer.slice(r),e}else if(i=="]"){if(n<4)return e.kind=h.Incomplete,e;if(this._buffer.charAt(2)!="8"||this._buffer.charAt(3)!=";")return e.kind=h.ESC,e.text=this._buffer.slice(0,1),this._buffer=this._buffer.slice(1),e;this._osc_st||(this._osc_st=Ke(ke||(ke=ne([`
                        (?:                         # legal sequence
                          (\x1B\\)                    # ESC                           |                           # alternate
                          (\x07)                      # BEL (what xterm did)
                        )
                        |                           # alternate (second attempt)
                        (                           # illegal sequence
                          [\0-]                 # anything illegal
                          |                           # alternate
                          [\b-]                 # anything illegal
                          |                           # alternate
                          [-]                 # anything illegal
                        )
                    `],[`
                        (?:                         # legal sequence
                          (\\x1b\\\\)                    # ESC \\
                          |                           # alternate
                          (\\x07)                      # BEL (what xterm did)
                        )
                        |                           # alternate (second attempt)
                        (                           # illegal sequence
                          [\\x00-\\x06]                 # anything illegal
                          |                           # alternate
                          [\\x08-\\x1a]                 # anything illegal
                          |                           # alternate
                          [\\x1c-\\x1f]                 # anything illegal
                        )
                    `])))),this._osc_st.lastIndex=0;{let u=this._osc_st.exec(this._buffer);if(u===null)return e.kind=h.Incomplete,e;if(u[3])return e.kind=h.ESC,e.text=this._buffer.slice(0,1),this._buffer=this._buffer.slice(1),e}{let u=this._osc_st.exec(this._buffer);if(u===null)return e.kind=h.Incomplete,e;if(u[3])return e.kind=h.ESC,e.text=this._buffer.slice(0,1),this._buffer=this._buffer.slice(1),e}this._osc_regex||(this._osc_regex=Le(Ie||(Ie=ne([`
                        ^                           # beginning of line
                                                    #
                        \x1B]8;                    # OSC Hyperlink
                        [ -:<-~]*       # params (excluding ;)
                        ;                           # end of params
                        ([!-~]{0,512})        # URL capture
                        (?:                         # ST
                          (?:\x1B\\)                  # ESC                           |                           # alternate
                          (?:\x07)                    # BEL (what xterm did)
                        )
                        ([ -~]+)              # TEXT capture
                        \x1B]8;;                   # OSC Hyperlink End
                        (?:                         # ST
                          (?:\x1B\\)                  # ESC                           |                           # alternate
                          (?:\x07)                    # BEL (what xterm did)
                        )
                    `],[`
                        ^                           # beginning of line
                                                    #
                        \\x1b\\]8;                    # OSC Hyperlink
                        [\\x20-\\x3a\\x3c-\\x7e]*       # params (excluding ;)
                        ;                           # end of params
                        ([\\x21-\\x7e]{0,512})        # URL capture
                        (?:                         # ST
                          (?:\\x1b\\\\)                  # ESC \\
                          |                           # alternate
                          (?:\\x07)                    # BEL (what xterm did)
                        )
                        ([\\x20-\\x7e]+)              # TEXT capture
                        \\x1b\\]8;;                   # OSC Hyperlink End
                        (?:                         # ST
                          (?:\\x1b\\\\)                  # ESC \\
                          |                           # alternate
                          (?:\\x07)                    # BEL (what xterm did)
                        )
                    `]))));let l=this._buffer.match(this._osc_regex);if(l===null)return e.kind=h.ESC,e.text=this._buffer.slice(0,1),this._buffer=this._buffer.slice(1),e;e.kind=h.OSCURL,e.url=l[1],e.text=l[2];var r=l[0].length;return this._buffer=this._buffer.slice(r),e}else if(i=="(")return e.kind=h.Unknown,this._buffer=this._buffer.slice(3),e}}ansi_to_html(e){this.append_buffer(e);for(var n=[];;){var s=this.get_next_packet();if(s.kind==h.EOS||s.kind==h.Incomplete)break;s.kind==h.ESC||s.kind==h.Unknown||(s.kind==h.Text?n.push(this.transform_to_html(this.with_state(s))):s.kind==h.SGR?this.process_ansi(s):s.kind==h.OSCURL&&n.push(this.process_hyperlink(s)))}return n.join("")}with_state(e){return{bold:this.bold,faint:this.faint,italic:this.italic,underline:this.underline,fg:this.fg,bg:this.bg,text:e.text}}process_ansi(e){let n=e.text.split(";");for(;n.length>0;){let s=n.shift(),i=parseInt(s,10);if(isNaN(i)||i===0)this.fg=null,this.bg=null,this.bold=!1,this.faint=!1,this.italic=!1,this.underline=!1;else if(i===1)this.bold=!0;else if(i===2)this.faint=!0;else if(i===3)this.italic=!0;else if(i===4)this.underline=!0;else if(i===21)this.bold=!1;else if(i===22)this.faint=!1,this.bold=!1;else if(i===23)this.italic=!1;else if(i===24)this.underline=!1;else if(i===39)this.fg=null;else if(i===49)this.bg=null;else if(i>=30&&i<38)this.fg=this.ansi_colors[0][i-30];else if(i>=40&&i<48)this.bg=this.ansi_colors[0][i-40];else if(i>=90&&i<98)this.fg=this.ansi_colors[1][i-90];else if(i>=100&&i<108)this.bg=this.ansi_colors[1][i-100];else if((i===38||i===48)&&n.length>0){let r=i===38,l=n.shift();if(l==="5"&&n.length>0){let a=parseInt(n.shift(),10);a>=0&&a<=255&&(r?this.fg=this.palette_256[a]:this.bg=this.palette_256[a])}if(l==="2"&&n.length>2){let a=parseInt(n.shift(),10),u=parseInt(n.shift(),10),f=parseInt(n.shift(),10);if(a>=0&&a<=255&&u>=0&&u<=255&&f>=0&&f<=255){let c={rgb:[a,u,f],class_name:"truecolor"};r?this.fg=c:this.bg=c}}}}}transform_to_html(e){let n=e.text;if(n.length===0||(n=this.escape_txt_for_html(n),!e.bold&&!e.italic&&!e.faint&&!e.underline&&e.fg===null&&e.bg===null))return n;let s=[],i=[],r=e.fg,l=e.bg;e.bold&&s.push(this._boldStyle),e.faint&&s.push(this._faintStyle),e.italic&&s.push(this._italicStyle),e.underline&&s.push(this._underlineStyle),this._use_classes?(r&&(r.class_name!=="truecolor"?i.push(`${r.class_name}-fg`):s.push(`color:rgb(${r.rgb.join(",")})`)),l&&(l.class_name!=="truecolor"?i.push(`${l.class_name}-bg`):s.push(`background-color:rgb(${l.rgb.join(",")})`))):(r&&s.push(`color:rgb(${r.rgb.join(",")})`),l&&s.push(`background-color:rgb(${l.rgb})`));let a="",u="";return i.length&&(a=` class="${i.join(" ")}"`),s.length&&(u=` style="${s.join(";")}"`),`<span${u}${a}>${n}</span>`}process_hyperlink(e){let n=e.url.split(":");return n.length<1||!this._url_allowlist[n[0]]?"":`<a href="${this.escape_txt_for_html(e.url)}">${this.escape_txt_for_html(e.text)}</a>`}};function Le(t,...e){let n=t.raw[0],s=/^\s+|\s+\n|\s*#[\s\S]*?\n|\n/gm,i=n.replace(s,"");return new RegExp(i)}function Ke(t,...e){let n=t.raw[0],s=/^\s+|\s+\n|\s*#[\s\S]*?\n|\n/gm,i=n.replace(s,"");return new RegExp(i,"g")}var Oe,ke,Ie;var se=2e3,et=["black","red","green","yellow","blue","magenta","cyan","white"],tt=[[0,0,0],[187,0,0],[0,187,0],[187,187,0],[0,0,187],[187,0,187],[0,187,187],[255,255,255]],z=class extends X{#e=[];read(e){let n=e.length>se?` \u2026 ${(e.length-se).toLocaleString()} more characters`:"",s=e.replace(/\r+$/,"");return this.#e=[],this.ansi_to_html(s.slice(s.lastIndexOf("\r")+1,se+s.lastIndexOf("\r")+1)),n&&this.#e.push({text:n,name:"muted"}),this.#e}transform_to_html({text:e,fg:n,bg:s,bold:i,faint:r,italic:l,underline:a}){if(!e)return"";let u=[i&&"bold",r&&"faint",l&&"italic",a&&"underline"];return u.push(s?"ground":n&&`ansi-${nt(n.rgb)}`),this.#e.push({text:_(e),name:u.filter(Boolean).join(" ")}),""}process_hyperlink({text:e}){return this.#e.push({text:_(e),name:"underline"}),""}};function nt(t){let e=tt.map(n=>n.reduce((s,i,r)=>s+(i-t[r])**2,0));return et[e.indexOf(Math.min(...e))]}function Te(t){return t.map(({text:e,name:n},s)=>n?o`<span key=${s} class=${n}>${e}</span>`:e)}var st=400;function Ae({view:t}){let{command:e,stdout:n="",stderr:s="",exitCode:i}=t;return o`
    <div class="shell-output">
      ${typeof e=="string"&&o`<pre class="shell-command" tabindex="0" aria-label="Command"><span aria-hidden="true">$ </span>${_(e)}</pre>`}
      <${Pe} text=${n} label="Output" />
      ${s&&o`<p class="muted">Errors</p><${Pe} text=${s} label="Errors" />`}
      ${Number.isFinite(i)&&o`<p><span class=${`tag ${i===0?"good":"bad"}`}>exit ${i}</span></p>`}
    </div>
  `}function Pe({text:t,label:e}){let[n,s]=b(st),i=E(()=>t.replace(/\n$/,"").split(`
`),[t]),r=E(()=>{let l=new z;return i.slice(0,n).map(a=>[...Te(l.read(a)),`
`])},[i,n]);return t?o`
    <div class="lines">
      <div class="lines-tools"><${M} text=${t} /></div>
      <pre tabindex="0" role="region" aria-label=${e}>${r}</pre>
      ${i.length>n&&o`<button type="button" onClick=${()=>s(n*4)}>Show more of ${i.length.toLocaleString()} lines</button>`}
    </div>
  `:o`<p class="muted">No output.</p>`}var x=t=>typeof t=="string",S=t=>typeof t=="object"&&t!==null&&!Array.isArray(t),v=t=>e=>Array.isArray(e)&&e.every(t),We=t=>S(t)&&x(t.path)&&v(e=>S(e)&&v(n=>S(n)&&x(n.content))(e.changes))(t.hunks),De={diff:[We,t=>o`<${te} view=${t} />`],diffs:[t=>v(We)(t.items),t=>o`<${xe} view=${t} />`],code:[t=>x(t.content),t=>o`<${de} view=${t} />`],"file-list":[({groups:t,files:e})=>v(n=>S(n)&&x(n.path))(e??[])&&v(n=>S(n)&&v(s=>S(s)&&x(s.path))(n.files))(t??[])&&!!(t??e),t=>o`<${ve} view=${t} />`],table:[({columns:t,rows:e})=>v(n=>S(n)&&x(n.key))(t)&&v(S)(e),t=>o`<${lt} view=${t} />`],markdown:[t=>x(t.content),t=>o`<${Ee} view=${t} />`],"shell-output":[t=>x(t.stdout??"")&&x(t.stderr??""),t=>o`<${Ae} view=${t} />`],"todo-list":[({items:t})=>v(e=>S(e)&&x(e.content))(t),t=>o`<${Ce} view=${t} />`],none:[()=>!0,({message:t})=>o`<p class="view-none">${_(x(t)?t:"Nothing to show.")}</p>`]};function Kt({view:t,text:e="",content:n=[]}){let s=S(t)&&Object.hasOwn(De,t.type)?De[t.type]:null,i=s!==null&&it(s[0],t),r=o`<${N} text=${String(e)} label="Result" />`;return o`
    <div class="view">
      ${i?o`<${ie} instead=${r}><${rt} view=${t} draw=${s[1]} /><//>`:r}
      <${we} content=${n} />
    </div>
  `}function it(t,e){try{return t(e)}catch{return!1}}function rt({view:t,draw:e}){let n=x(t.title)&&t.title?$(t.title,300):"";return t.collapsed===!0?o`<details class="view-closed"><summary>${n||"Show"}</summary>${e(t)}</details>`:o`${n&&o`<p class="view-title">${n}</p>`}${e(t)}`}var ie=class extends ae{static getDerivedStateFromError(){return{hasFailed:!0}}render({children:e,instead:n},{hasFailed:s}){return s?n:e}};function lt({view:t}){let e=t.columns.map(({key:s,label:i})=>({key:s,label:$(x(i)?i:s,100),isNumber:t.rows.length>0&&t.rows.every(r=>r[s]===void 0||typeof r[s]=="number")})),n=Number.isFinite(t.totalRows)?t.totalRows:t.rows.length;return o`
    <${ce} columns=${e} rows=${t.rows} label="Table" />
    ${n>t.rows.length&&o`<p class="muted">The first ${t.rows.length.toLocaleString()} of ${n.toLocaleString()} rows.</p>`}
  `}export{Kt as a};
