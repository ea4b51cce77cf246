import{j as t,y as r}from"./chunk-OQVW7CMG.js";function o(){return t`<${r} title="Tasks"><//>`}export{o as default};
