import{D as e,l as t}from"./chunk-NATK32PW.js";import"./chunk-6DFJ27FF.js";import"./chunk-OOJM4CTU.js";function r(){return t`<${e} title="Settings"><//>`}export{r as default};
