import{j as o,y as t}from"./chunk-OQVW7CMG.js";function r(){return o`<${t} title="Tools"><//>`}export{r as default};
