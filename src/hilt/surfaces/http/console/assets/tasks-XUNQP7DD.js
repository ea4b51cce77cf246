import{G as r,l as t}from"./chunk-FAB6A7RB.js";import"./chunk-6DFJ27FF.js";import"./chunk-OOJM4CTU.js";function o(){return t`<${r} title="Tasks"><//>`}export{o as default};
