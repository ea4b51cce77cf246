import{j as t,y as o}from"./chunk-OQVW7CMG.js";function r(){return t`<${o} title="Jobs"><//>`}export{r as default};
