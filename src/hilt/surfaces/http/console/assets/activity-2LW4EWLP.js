import{A as i,k as t}from"./chunk-2H5QD3Y5.js";import"./chunk-PHU6BNSR.js";import"./chunk-OOJM4CTU.js";function r(){return t`<${i} title="Activity"><//>`}export{r as default};
