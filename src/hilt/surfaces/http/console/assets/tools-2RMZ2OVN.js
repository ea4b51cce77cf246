import{D as t,l as o}from"./chunk-NATK32PW.js";import"./chunk-6DFJ27FF.js";import"./chunk-OOJM4CTU.js";function r(){return o`<${t} title="Tools"><//>`}export{r as default};
