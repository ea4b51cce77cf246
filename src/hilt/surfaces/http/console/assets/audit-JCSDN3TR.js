import{D as r,l as t}from"./chunk-NATK32PW.js";import"./chunk-6DFJ27FF.js";import"./chunk-OOJM4CTU.js";function i(){return t`<${r} title="Audit"><//>`}export{i as default};
