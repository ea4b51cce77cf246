import{j as t,y as i}from"./chunk-OQVW7CMG.js";function r(){return t`<${i} title="Activity"><//>`}export{r as default};
