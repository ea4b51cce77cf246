import{A as o,k as t}from"./chunk-2H5QD3Y5.js";import"./chunk-PHU6BNSR.js";import"./chunk-OOJM4CTU.js";function r(){return t`<${o} title="Jobs"><//>`}export{r as default};
