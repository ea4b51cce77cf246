import{A as t,k as r}from"./chunk-2H5QD3Y5.js";import"./chunk-PHU6BNSR.js";import"./chunk-OOJM4CTU.js";function o(){return r`<${t} title="Approvals"><//>`}export{o as default};
