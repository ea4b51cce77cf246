import{D as o,l as t}from"./chunk-H5BVASL7.js";import"./chunk-PHU6BNSR.js";import"./chunk-OOJM4CTU.js";function r(){return t`<${o} title="Jobs"><//>`}export{r as default};
