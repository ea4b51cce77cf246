import{A as e,k as t}from"./chunk-2H5QD3Y5.js";import"./chunk-PHU6BNSR.js";import"./chunk-OOJM4CTU.js";function r(){return t`<${e} title="Changes"><//>`}export{r as default};
