import{G as r,l as t}from"./chunk-FAB6A7RB.js";import"./chunk-6DFJ27FF.js";import"./chunk-OOJM4CTU.js";function i(){return t`<${r} title="Audit"><//>`}export{i as default};
