import{G as r,l as t}from"./chunk-FAB6A7RB.js";import"./chunk-6DFJ27FF.js";import"./chunk-OOJM4CTU.js";function e(){return t`<${r} title="Metrics"><//>`}export{e as default};
