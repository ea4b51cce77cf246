import{D as e,l as t}from"./chunk-H5BVASL7.js";import"./chunk-PHU6BNSR.js";import"./chunk-OOJM4CTU.js";function r(){return t`<${e} title="Agents"><//>`}export{r as default};
