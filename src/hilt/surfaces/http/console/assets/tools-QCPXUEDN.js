import{D as t,l as o}from"./chunk-H5BVASL7.js";import"./chunk-PHU6BNSR.js";import"./chunk-OOJM4CTU.js";function r(){return o`<${t} title="Tools"><//>`}export{r as default};
