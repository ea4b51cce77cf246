import{j as t,y as e}from"./chunk-OQVW7CMG.js";function r(){return t`<${e} title="Changes"><//>`}export{r as default};
