import{a as me,b as G,c as ge}from"./chunk-AATU4EB7.js";import{a as $e,b as be}from"./chunk-B2JAEYEQ.js";import{c as ie,h as le,j as re}from"./chunk-F3OIVHYH.js";import{A as ae,B as ce,C as ue,D as fe,E as q,G as he,H as R,I as U,J as de,K as pe,a as se,c as p,d as T,f as I,g as w,l,r as ne,s as L,y as N,z as A}from"./chunk-H5BVASL7.js";import{a as m,b as c,c as x,d as oe}from"./chunk-PHU6BNSR.js";import"./chunk-OOJM4CTU.js";var Ge=400,F=2e3,Ve=6e4;function _e({view:t}){let{content:e,language:s,path:n,created:i,lineCount:r}=t,o=Number.isInteger(t.firstLine)?t.firstLine:1;return l`
    <div class="code">
      <div class="diff-head">
        <span class="mono">${c(typeof n=="string"?n:"",300)}</span>
        ${i===!0&&l`<span class="tag good">created</span>`}
        ${Number.isInteger(r)&&l`<span class="muted">${x(r,"line")}</span>`}
      </div>
      <${He} text=${e} language=${s} first=${o} marked=${t.highlightLines} />
    </div>
  `}function He({text:t,language:e,first:s=1,marked:n=[],label:i="Code"}){let[r,o]=p(Ge),[u,d]=p(null),h=w(()=>t.replace(/\n$/,"").split(`
`),[t]);T(()=>{if(d(null),typeof e!="string"||t.length>Ve||h.some(y=>y.length>F))return;let g=!0;return import("./highlighting-QIF6XCGF.js").then(({highlighted:y})=>g&&d(y(h.join(`
`),e)),()=>{}),()=>g=!1},[t,e]);let E=new Set(Array.isArray(n)?n:[]);return l`
    <div class="lines source">
      <div class="lines-tools"><${N} text=${t} /></div>
      <pre tabindex="0" role="region" aria-label=${i}>${h.slice(0,r).map((g,y)=>l`
          <span key=${y} class=${`source-line${E.has(s+y)?" marked":""}`}>
            <span class="source-number" data-number=${s+y}></span>
            <span class="source-text">${u?.[y]?.map(Xe)??m(g.length>F?`${g.slice(0,F)}\u2026 ${(g.length-F).toLocaleString()} more characters`:g)}${`
`}</span>
          </span>
        `)}</pre>
      ${h.length>r&&l`<button type="button" onClick=${()=>o(r*4)}>Show more of ${x(h.length,"line")}</button>`}
    </div>
  `}function Xe({text:t,scope:e},s){return e?l`<span key=${s} class=${`syntax-${e}`}>${m(t)}</span>`:m(t)}var ze=200,Pe={created:"good",modified:"warn",deleted:"bad"},ye={completed:["\u2713","done"],in_progress:["\u25D0","in progress"],pending:["\u25CB","to do"],cancelled:["\u2715","cancelled"]};function xe({view:t}){let e=Array.isArray(t.groups)?t.groups:[{label:"",files:t.files}],s=e.reduce((i,r)=>i+r.files.length,0),n=Number.isFinite(t.total)?t.total:s;return l`
    <div class="file-list">
      ${e.map((i,r)=>l`<${We} key=${r} group=${i} />`)}
      <p class="muted">${n>s?`The first ${s.toLocaleString()} of ${x(n,"file")}.`:x(n,"file")}</p>
    </div>
  `}function We({group:t}){let[e,s]=p(ze);return l`
    ${t.label&&l`<p class="file-group">${c(t.label,100)}</p>`}
    <ul>
      ${t.files.slice(0,e).map((n,i)=>l`
          <li key=${i}>
            <span class="mono">${c(n.path,500)}${Number.isFinite(n.line)?`:${n.line}`:""}</span>
            ${typeof n.action=="string"&&l` <span class=${`tag ${Pe[n.action]??""}`}>${c(n.action,20)}</span>`}
            ${typeof n.content=="string"&&l` <span class="mono muted">${c(n.content,300)}</span>`}
          </li>
        `)}
    </ul>
    ${t.files.length>e&&l`<button type="button" onClick=${()=>s(e*5)}>Show more files</button>`}
  `}function Se({view:t}){return l`
    <ul class="todo-list">
      ${t.items.slice(0,500).map((e,s)=>{let[n,i]=ye[e.status]??ye.pending;return l`
          <li key=${s} class=${e.status==="completed"||e.status==="cancelled"?"muted":""}>
            <span aria-hidden="true">${n}</span><span class="hidden">${i}:</span> ${c(e.content,1e3)}
            ${typeof e.priority=="string"&&l` <span class="tag">${c(e.priority,20)}</span>`}
          </li>
        `})}
    </ul>
  `}var Ye=new Set(["image/png","image/jpeg","image/gif","image/webp"]),Ze=/^[A-Za-z0-9+/]+={0,2}$/;function we({content:t}){return(Array.isArray(t)?t:[]).filter(s=>s?.type==="image").map((s,n)=>l`<${Je} key=${n} image=${s} number=${n+1} />`)}function Je({image:t,number:e}){let[s,n]=p(!1),i=t.mimeType??t.mime_type,r=Ye.has(i)&&typeof t.data=="string"&&Ze.test(t.data),[o,u]=p(!r);if(o)return l`<p class="muted">Image ${e} is not complete, or not of a known type.</p>`;let d=`data:${i};base64,${t.data}`,h=l`<img src=${d} alt=${`Image ${e} of the result`} onError=${()=>u(!0)} />`;return l`
    <button type="button" class="thumbnail" aria-label=${`Zoom image ${e}`} onClick=${()=>n(!0)}>${h}</button>
    ${s&&l`<${ue} title=${`Image ${e}`} wide onClose=${()=>n(!1)}><div class="zoomed">${h}</div><//>`}
  `}function ve({view:t}){let e=I(null),[s,n]=p(!1);return T(()=>{let i=!0;return import("./rendering-OB6O45PN.js").then(({rendered:r})=>{i&&(e.current.replaceChildren(r(t.content)),n(!0))},()=>{}),()=>i=!1},[t.content]),l`
    ${typeof t.sourceUrl=="string"&&l`<p class="muted mono">${c(t.sourceUrl,300)}</p>`}
    <div class="markdown" ref=${e}></div>
    ${!s&&l`<${R} text=${t.content} />`}
  `}var V=function(t,e){return Object.defineProperty?Object.defineProperty(t,"raw",{value:e}):t.raw=e,t},a;(function(t){t[t.EOS=0]="EOS",t[t.Text=1]="Text",t[t.Incomplete=2]="Incomplete",t[t.ESC=3]="ESC",t[t.Unknown=4]="Unknown",t[t.SGR=5]="SGR",t[t.OSCURL=6]="OSCURL"})(a||(a={}));var j=class{constructor(){this.VERSION="6.0.6",this.setup_palettes(),this._use_classes=!1,this.bold=!1,this.faint=!1,this.italic=!1,this.underline=!1,this.fg=this.bg=null,this._buffer="",this._url_allowlist={http:1,https:1},this._escape_html=!0,this.boldStyle="font-weight:bold",this.faintStyle="opacity:0.7",this.italicStyle="font-style:italic",this.underlineStyle="text-decoration:underline"}set use_classes(e){this._use_classes=e}get use_classes(){return this._use_classes}set url_allowlist(e){this._url_allowlist=e}get url_allowlist(){return this._url_allowlist}set escape_html(e){this._escape_html=e}get escape_html(){return this._escape_html}set boldStyle(e){this._boldStyle=e}get boldStyle(){return this._boldStyle}set faintStyle(e){this._faintStyle=e}get faintStyle(){return this._faintStyle}set italicStyle(e){this._italicStyle=e}get italicStyle(){return this._italicStyle}set underlineStyle(e){this._underlineStyle=e}get underlineStyle(){return this._underlineStyle}setup_palettes(){this.ansi_colors=[[{rgb:[0,0,0],class_name:"ansi-black"},{rgb:[187,0,0],class_name:"ansi-red"},{rgb:[0,187,0],class_name:"ansi-green"},{rgb:[187,187,0],class_name:"ansi-yellow"},{rgb:[0,0,187],class_name:"ansi-blue"},{rgb:[187,0,187],class_name:"ansi-magenta"},{rgb:[0,187,187],class_name:"ansi-cyan"},{rgb:[255,255,255],class_name:"ansi-white"}],[{rgb:[85,85,85],class_name:"ansi-bright-black"},{rgb:[255,85,85],class_name:"ansi-bright-red"},{rgb:[0,255,0],class_name:"ansi-bright-green"},{rgb:[255,255,85],class_name:"ansi-bright-yellow"},{rgb:[85,85,255],class_name:"ansi-bright-blue"},{rgb:[255,85,255],class_name:"ansi-bright-magenta"},{rgb:[85,255,255],class_name:"ansi-bright-cyan"},{rgb:[255,255,255],class_name:"ansi-bright-white"}]],this.palette_256=[],this.ansi_colors.forEach(n=>{n.forEach(i=>{this.palette_256.push(i)})});let e=[0,95,135,175,215,255];for(let n=0;n<6;++n)for(let i=0;i<6;++i)for(let r=0;r<6;++r){let o={rgb:[e[n],e[i],e[r]],class_name:"truecolor"};this.palette_256.push(o)}let s=8;for(let n=0;n<24;++n,s+=10){let i={rgb:[s,s,s],class_name:"truecolor"};this.palette_256.push(i)}}escape_txt_for_html(e){return this._escape_html?e.replace(/[&<>"']/gm,s=>{if(s==="&")return"&amp;";if(s==="<")return"&lt;";if(s===">")return"&gt;";if(s==='"')return"&quot;";if(s==="'")return"&#x27;"}):e}append_buffer(e){var s=this._buffer+e;this._buffer=s}get_next_packet(){var e={kind:a.EOS,text:"",url:""},s=this._buffer.length;if(s==0)return e;var n=this._buffer.indexOf("\x1B");if(n==-1)return e.kind=a.Text,e.text=this._buffer,this._buffer="",e;if(n>0)return e.kind=a.Text,e.text=this._buffer.slice(0,n),this._buffer=this._buffer.slice(n),e;if(n==0){if(s<3)return e.kind=a.Incomplete,e;var i=this._buffer.charAt(1);if(i!="["&&i!="]"&&i!="(")return e.kind=a.ESC,e.text=this._buffer.slice(0,1),this._buffer=this._buffer.slice(1),e;if(i=="["){this._csi_regex||(this._csi_regex=ke(Ee||(Ee=V([`
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
                    `]))));let o=this._buffer.match(this._csi_regex);if(o===null)return e.kind=a.Incomplete,e;if(o[4])return e.kind=a.ESC,e.text=this._buffer.slice(0,1),this._buffer=this._buffer.slice(1),e;o[1]!=""||o[3]!="m"?e.kind=a.Unknown:e.kind=a.SGR,e.text=o[2];var r=o[0].length;return this._buffer=this._buffer.slice(r),e}else if(i=="]"){if(s<4)return e.kind=a.Incomplete,e;if(this._buffer.charAt(2)!="8"||this._buffer.charAt(3)!=";")return e.kind=a.ESC,e.text=this._buffer.slice(0,1),this._buffer=this._buffer.slice(1),e;this._osc_st||(this._osc_st=Qe(Ce||(Ce=V([`
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
                    `])))),this._osc_st.lastIndex=0;{let d=this._osc_st.exec(this._buffer);if(d===null)return e.kind=a.Incomplete,e;if(d[3])return e.kind=a.ESC,e.text=this._buffer.slice(0,1),this._buffer=this._buffer.slice(1),e}{let d=this._osc_st.exec(this._buffer);if(d===null)return e.kind=a.Incomplete,e;if(d[3])return e.kind=a.ESC,e.text=this._buffer.slice(0,1),this._buffer=this._buffer.slice(1),e}this._osc_regex||(this._osc_regex=ke(Te||(Te=V([`
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
                    `]))));let o=this._buffer.match(this._osc_regex);if(o===null)return e.kind=a.ESC,e.text=this._buffer.slice(0,1),this._buffer=this._buffer.slice(1),e;e.kind=a.OSCURL,e.url=o[1],e.text=o[2];var r=o[0].length;return this._buffer=this._buffer.slice(r),e}else if(i=="(")return e.kind=a.Unknown,this._buffer=this._buffer.slice(3),e}}ansi_to_html(e){this.append_buffer(e);for(var s=[];;){var n=this.get_next_packet();if(n.kind==a.EOS||n.kind==a.Incomplete)break;n.kind==a.ESC||n.kind==a.Unknown||(n.kind==a.Text?s.push(this.transform_to_html(this.with_state(n))):n.kind==a.SGR?this.process_ansi(n):n.kind==a.OSCURL&&s.push(this.process_hyperlink(n)))}return s.join("")}with_state(e){return{bold:this.bold,faint:this.faint,italic:this.italic,underline:this.underline,fg:this.fg,bg:this.bg,text:e.text}}process_ansi(e){let s=e.text.split(";");for(;s.length>0;){let n=s.shift(),i=parseInt(n,10);if(isNaN(i)||i===0)this.fg=null,this.bg=null,this.bold=!1,this.faint=!1,this.italic=!1,this.underline=!1;else if(i===1)this.bold=!0;else if(i===2)this.faint=!0;else if(i===3)this.italic=!0;else if(i===4)this.underline=!0;else if(i===21)this.bold=!1;else if(i===22)this.faint=!1,this.bold=!1;else if(i===23)this.italic=!1;else if(i===24)this.underline=!1;else if(i===39)this.fg=null;else if(i===49)this.bg=null;else if(i>=30&&i<38)this.fg=this.ansi_colors[0][i-30];else if(i>=40&&i<48)this.bg=this.ansi_colors[0][i-40];else if(i>=90&&i<98)this.fg=this.ansi_colors[1][i-90];else if(i>=100&&i<108)this.bg=this.ansi_colors[1][i-100];else if((i===38||i===48)&&s.length>0){let r=i===38,o=s.shift();if(o==="5"&&s.length>0){let u=parseInt(s.shift(),10);u>=0&&u<=255&&(r?this.fg=this.palette_256[u]:this.bg=this.palette_256[u])}if(o==="2"&&s.length>2){let u=parseInt(s.shift(),10),d=parseInt(s.shift(),10),h=parseInt(s.shift(),10);if(u>=0&&u<=255&&d>=0&&d<=255&&h>=0&&h<=255){let E={rgb:[u,d,h],class_name:"truecolor"};r?this.fg=E:this.bg=E}}}}}transform_to_html(e){let s=e.text;if(s.length===0||(s=this.escape_txt_for_html(s),!e.bold&&!e.italic&&!e.faint&&!e.underline&&e.fg===null&&e.bg===null))return s;let n=[],i=[],r=e.fg,o=e.bg;e.bold&&n.push(this._boldStyle),e.faint&&n.push(this._faintStyle),e.italic&&n.push(this._italicStyle),e.underline&&n.push(this._underlineStyle),this._use_classes?(r&&(r.class_name!=="truecolor"?i.push(`${r.class_name}-fg`):n.push(`color:rgb(${r.rgb.join(",")})`)),o&&(o.class_name!=="truecolor"?i.push(`${o.class_name}-bg`):n.push(`background-color:rgb(${o.rgb.join(",")})`))):(r&&n.push(`color:rgb(${r.rgb.join(",")})`),o&&n.push(`background-color:rgb(${o.rgb})`));let u="",d="";return i.length&&(u=` class="${i.join(" ")}"`),n.length&&(d=` style="${n.join(";")}"`),`<span${d}${u}>${s}</span>`}process_hyperlink(e){let s=e.url.split(":");return s.length<1||!this._url_allowlist[s[0]]?"":`<a href="${this.escape_txt_for_html(e.url)}">${this.escape_txt_for_html(e.text)}</a>`}};function ke(t,...e){let s=t.raw[0],n=/^\s+|\s+\n|\s*#[\s\S]*?\n|\n/gm,i=s.replace(n,"");return new RegExp(i)}function Qe(t,...e){let s=t.raw[0],n=/^\s+|\s+\n|\s*#[\s\S]*?\n|\n/gm,i=s.replace(n,"");return new RegExp(i,"g")}var Ee,Ce,Te;var H=2e3,Ke=["black","red","green","yellow","blue","magenta","cyan","white"],et=[[0,0,0],[187,0,0],[0,187,0],[187,187,0],[0,0,187],[187,0,187],[0,187,187],[255,255,255]],M=class extends j{#e=[];read(e){let s=e.length>H?` \u2026 ${(e.length-H).toLocaleString()} more characters`:"",n=e.replace(/\r+$/,"");return this.#e=[],this.ansi_to_html(n.slice(n.lastIndexOf("\r")+1,H+n.lastIndexOf("\r")+1)),s&&this.#e.push({text:s,name:"muted"}),this.#e}transform_to_html({text:e,fg:s,bg:n,bold:i,faint:r,italic:o,underline:u}){if(!e)return"";let d=[i&&"bold",r&&"faint",o&&"italic",u&&"underline"];return d.push(n?"ground":s&&`ansi-${tt(s.rgb)}`),this.#e.push({text:m(e),name:d.filter(Boolean).join(" ")}),""}process_hyperlink({text:e}){return this.#e.push({text:m(e),name:"underline"}),""}};function tt(t){let e=et.map(s=>s.reduce((n,i,r)=>n+(i-t[r])**2,0));return Ke[e.indexOf(Math.min(...e))]}function Ie(t){return t.map(({text:e,name:s},n)=>s?l`<span key=${n} class=${s}>${e}</span>`:e)}var st=400;function Ae({view:t}){let{command:e,stdout:s="",stderr:n="",exitCode:i}=t;return l`
    <div class="shell-output">
      ${typeof e=="string"&&l`<pre class="shell-command" tabindex="0" aria-label="Command"><span aria-hidden="true">$ </span>${m(e)}</pre>`}
      <${Le} text=${s} label="Output" />
      ${n&&l`<p class="muted">Errors</p><${Le} text=${n} label="Errors" />`}
      ${Number.isFinite(i)&&l`<p><span class=${`tag ${i===0?"good":"bad"}`}>exit ${i}</span></p>`}
    </div>
  `}function Le({text:t,label:e}){let[s,n]=p(st),i=w(()=>t.replace(/\n$/,"").split(`
`),[t]),r=w(()=>{let o=new M;return i.slice(0,s).map(u=>[...Ie(o.read(u)),`
`])},[i,s]);return t?l`
    <div class="lines">
      <div class="lines-tools"><${N} text=${t} /></div>
      <pre tabindex="0" role="region" aria-label=${e}>${r}</pre>
      ${i.length>s&&l`<button type="button" onClick=${()=>n(s*4)}>Show more of ${i.length.toLocaleString()} lines</button>`}
    </div>
  `:l`<p class="muted">No output.</p>`}var $=t=>typeof t=="string",S=t=>typeof t=="object"&&t!==null&&!Array.isArray(t),v=t=>e=>Array.isArray(e)&&e.every(t),Oe=t=>S(t)&&$(t.path)&&v(e=>S(e)&&v(s=>S(s)&&$(s.content))(e.changes))(t.hunks),Ne={diff:[Oe,t=>l`<${be} view=${t} />`],diffs:[t=>v(Oe)(t.items),t=>l`<${$e} view=${t} />`],code:[t=>$(t.content),t=>l`<${_e} view=${t} />`],"file-list":[({groups:t,files:e})=>v(s=>S(s)&&$(s.path))(e??[])&&v(s=>S(s)&&v(n=>S(n)&&$(n.path))(s.files))(t??[])&&!!(t??e),t=>l`<${xe} view=${t} />`],table:[({columns:t,rows:e})=>v(s=>S(s)&&$(s.key))(t)&&v(S)(e),t=>l`<${lt} view=${t} />`],markdown:[t=>$(t.content),t=>l`<${ve} view=${t} />`],"shell-output":[t=>$(t.stdout??"")&&$(t.stderr??""),t=>l`<${Ae} view=${t} />`],"todo-list":[({items:t})=>v(e=>S(e)&&$(e.content))(t),t=>l`<${Se} view=${t} />`],none:[()=>!0,({message:t})=>l`<p class="view-none">${m($(t)?t:"Nothing to show.")}</p>`]};function Re({view:t,text:e="",content:s=[]}){let n=S(t)&&Object.hasOwn(Ne,t.type)?Ne[t.type]:null,i=n!==null&&nt(n[0],t),r=l`<${R} text=${String(e)} label="Result" />`;return l`
    <div class="view">
      ${i?l`<${X} instead=${r}><${it} view=${t} draw=${n[1]} /><//>`:r}
      <${we} content=${s} />
    </div>
  `}function nt(t,e){try{return t(e)}catch{return!1}}function it({view:t,draw:e}){let s=$(t.title)&&t.title?c(t.title,300):"";return t.collapsed===!0?l`<details class="view-closed"><summary>${s||"Show"}</summary>${e(t)}</details>`:l`${s&&l`<p class="view-title">${s}</p>`}${e(t)}`}var X=class extends se{static getDerivedStateFromError(){return{hasFailed:!0}}render({children:e,instead:s},{hasFailed:n}){return n?s:e}};function lt({view:t}){let e=t.columns.map(({key:n,label:i})=>({key:n,label:c($(i)?i:n,100),isNumber:t.rows.length>0&&t.rows.every(r=>r[n]===void 0||typeof r[n]=="number")})),s=Number.isFinite(t.totalRows)?t.totalRows:t.rows.length;return l`
    <${ce} columns=${e} rows=${t.rows} label="Table" />
    ${s>t.rows.length&&l`<p class="muted">The first ${t.rows.length.toLocaleString()} of ${s.toLocaleString()} rows.</p>`}
  `}var rt=34,ot=1500,at=[["","Any outcome"],["ok","Succeeded"],["failed","Failed"],["denied","Denied"],["running","Running"]];function ct(){let t=L.version.value,[e,s]=p(""),[n,i]=p(""),[r,o]=p(""),[u,d]=p(""),[h,E]=p(null),[g,y]=p(new Set),O=I(null),z=I(0),[P,W]=p(!1),Y=I(0),k=h??L.rows,b=w(()=>{let f=e.trim().toLowerCase();return k.filter(C=>(!n||C.session===n)&&(!r||C.tool===r)&&(!u||G(C)===u)&&(!f||ge(C).includes(f))).reverse()},[k,h?0:t,e,n,r,u]),Z=f=>[...new Set(k.map(_=>_[f]))].sort().slice(0,500),Me=w(()=>Z("session"),[k,h?0:t]),Be=w(()=>Z("tool"),[k,h?0:t]);!P&&b.length&&(Y.current=b[0].seq);let J=P?b.findIndex(f=>f.seq<=Y.current):0,Q=h?L.rows.length-h.length:J<0?b.length:J,De=f=>{let _=new Set(g);_.delete(f)||_.add(f),y(_),re({call:_.has(f)?String(f):null})},B=le.value.get("call");T(()=>{let f=B===null?-1:b.findIndex(_=>String(_.key)===B);f<0||g.has(b[f].key)||(y(new Set([...g,b[f].key])),O.current.toRow(f))},[B,b.length>0]);let K=f=>{let _=document.activeElement?.closest?.("[data-index]"),C=_?Number(_.dataset.index):-1,te=Math.max(0,Math.min(b.length-1,C+f));O.current?.toRow(te),requestAnimationFrame(()=>document.querySelector(`[data-index="${te}"] .call-head`)?.focus())},D=()=>E(h?null:[...L.rows]);ie({j:{label:"Next call",run:()=>K(1)},k:{label:"Previous call",run:()=>K(-1)},p:{label:"Pause or resume",run:D}});let qe=()=>g.size>0||Date.now()-z.current<ot||!!document.activeElement?.closest?.(".call-head"),Ue=()=>{O.current.toTop(),W(!1)},ee=e||n||r||u;return l`
    <${fe}
      title="Activity"
      fills
      actions=${l`
        <${A} label="Filter" hidden placeholder="Filter" data-filter value=${e} onInput=${s} />
        <${A} label="Session" hidden value=${n} onInput=${i} options=${Fe("Any session",Me)} />
        <${A} label="Tool" hidden value=${r} onInput=${o} options=${Fe("Any tool",Be)} />
        <${A} label="Outcome" hidden value=${u} onInput=${d} options=${at} />
        <button type="button" onClick=${D}>${h?"Resume":"Pause"}</button>
      `}
    >
      <div class="feed" onPointerMove=${()=>z.current=Date.now()}>
        <div class="feed-head" aria-hidden="true">
          <span>Time</span><span>Session</span><span>Tool</span><span>Argument</span><span>Outcome</span><span class="number">Duration</span>
        </div>
        ${b.length?l`<${ae}
              rows=${b}
              keyOf=${f=>f.key}
              label="Calls"
              estimate=${rt}
              isHeld=${qe}
              handle=${O}
              onScroll=${f=>W(f.scrollTop>4)}
              renderRow=${f=>l`<${dt} call=${f} isOpen=${g.has(f.key)} onToggle=${De} />`}
            />`:l`<${ut} isFiltered=${ee} hasCalls=${k.length>0} />`}
        ${Q>0&&l`<button type="button" class="newer main" onClick=${h?D:Ue}>${x(Q,"new call")}</button>`}
      </div>
      <p class="status-line" role="status">
        ${ee?`${b.length.toLocaleString()} of ${x(k.length,"call")}`:x(k.length,"call")}${h?" \xB7 paused":""}
      </p>
    <//>
  `}function Fe(t,e){return[["",t],...e.map(s=>[s,c(s,60)])]}function ut({isFiltered:t,hasCalls:e}){return t&&e?l`<${q} title="No call matches">Change the filter, the session, the tool or the outcome.<//>`:ne.value==="connecting"?l`<${he} />`:l`
    <${q} title="No calls yet">
      Calls of every agent of yours appear here while <code>hilt serve</code> runs. Connect one with${" "}
      <code>hilt mcp install</code>, or try a tool on the page <a href="/tools">Tools</a>.
    <//>
  `}var ft={running:"running",ok:"ok",denied:"denied",failed:"failed"},ht={running:"",ok:"good",denied:"warn",failed:"bad"};function dt({call:t,isOpen:e,onToggle:s}){let n=G(t),i=t.envelope?.meta?.exit_code,r=n==="ok"&&Number.isInteger(i)&&i!==0,o=r?`exit ${i}`:n==="failed"||n==="denied"?c(t.outcome,40).replaceAll("_"," "):ft[n];return l`
    <div class=${`call ${n}${e?" open":""}`}>
      <button type="button" class="call-head" aria-expanded=${e} onClick=${()=>s(t.key)}>
        <${pe} at=${t.started??t.time} />
        <span class="call-session mono">${c(t.session,60)}</span>
        <span class="call-tool">${c(t.tool,60)}</span>
        <span class="call-argument mono">${c(me(t),300)}</span>
        <span class="call-outcome"><span class=${`tag ${r?"warn":ht[n]}`}>${o}</span></span>
        <span class="call-duration number">${oe(t.ms)}</span>
      </button>
      ${e&&l`<${pt} call=${t} />`}
    </div>
  `}function pt({call:t}){let{envelope:e}=t,s=t.args!==void 0,n=l`<p class="muted">${s?"The call is still running.":"Not kept: the setting events.keep is false."}</p>`,i=[["View",()=>e?l`
              ${e.ok===!1&&l`<${mt} envelope=${e} />`}
              ${(e.ok!==!1||e.visualization)&&l`<${Re} view=${e.visualization} text=${e.result??""} content=${e.content} />`}
            `:n],["Arguments",()=>s?l`<${U} value=${t.args} label="Arguments" />`:n],["Envelope",()=>e?l`<${U} value=${e} label="Envelope" />`:n],["Why",()=>l`<${gt} call=${t} />`]];return l`
    <div class="call-details">
      <${de} label=${`Details of ${c(t.tool,60)}`} tabs=${i} />
      ${t.change&&l`<p><a href=${`/changes?id=${encodeURIComponent(t.change)}`}>See and restore this change</a></p>`}
    </div>
  `}function mt({envelope:t}){return l`
    <div class="failure">
      <p>${m(String(t.error??"The call failed.").slice(0,1e4))}</p>
      ${t.suggestion&&l`<p class="muted">${m(String(t.suggestion).slice(0,2e3))}</p>`}
    </div>
  `}var je={allow:"good",ask:"warn",deny:"bad"};function gt({call:t}){if(t.type==="call_started")return l`<p class="muted">The call is still running.</p>`;let e=Array.isArray(t.votes)?t.votes:[];return l`
    <dl class="facts">
      <div><dt>Decision</dt><dd><span class=${`tag ${je[t.verdict]??""}`}>${c(t.verdict,20)}</span> ${m(t.reason)}</dd></div>
      ${t.approver&&l`<div><dt>Approved by</dt><dd>${c(t.approver,100)}</dd></div>`}
    </dl>
    ${e.length>0&&l`<table class="votes" aria-label="Votes">
      <thead><tr><th scope="col">Vote</th><th scope="col">Voter</th><th scope="col">Reason</th></tr></thead>
      <tbody>
        ${e.map((s,n)=>l`
            <tr key=${n}>
              <td><span class=${`tag ${je[s.verdict]??""}`}>${c(s.verdict,20)}</span></td>
              <td>${c(s.voter,100)}</td>
              <td>${c(s.reason,1e3)}</td>
            </tr>
          `)}
      </tbody>
    </table>`}
    ${!e.length&&l`<p class="muted">Nothing objected, so there were no votes.</p>`}
  `}export{ct as default};
