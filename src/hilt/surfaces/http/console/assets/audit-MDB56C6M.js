import{D as r,l as t}from"./chunk-H5BVASL7.js";import"./chunk-PHU6BNSR.js";import"./chunk-OOJM4CTU.js";function i(){return t`<${r} title="Audit"><//>`}export{i as default};
