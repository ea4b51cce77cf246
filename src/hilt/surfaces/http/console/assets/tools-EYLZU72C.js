import{G as t,l as o}from"./chunk-FAB6A7RB.js";import"./chunk-6DFJ27FF.js";import"./chunk-OOJM4CTU.js";function r(){return o`<${t} title="Tools"><//>`}export{r as default};
