import{a}from"./chunk-TK6ZPLIW.js";import"./chunk-OOJM4CTU.js";export{a as highlighted};
