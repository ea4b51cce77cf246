import{D as r,l as t}from"./chunk-NATK32PW.js";import"./chunk-6DFJ27FF.js";import"./chunk-OOJM4CTU.js";function e(){return t`<${r} title="Metrics"><//>`}export{e as default};
