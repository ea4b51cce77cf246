import{G as e,l as t}from"./chunk-FAB6A7RB.js";import"./chunk-6DFJ27FF.js";import"./chunk-OOJM4CTU.js";function r(){return t`<${e} title="Agents"><//>`}export{r as default};
