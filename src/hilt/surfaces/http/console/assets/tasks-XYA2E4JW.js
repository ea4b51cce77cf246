import{D as r,l as t}from"./chunk-H5BVASL7.js";import"./chunk-PHU6BNSR.js";import"./chunk-OOJM4CTU.js";function o(){return t`<${r} title="Tasks"><//>`}export{o as default};
