import{j as t,y as r}from"./chunk-OQVW7CMG.js";function e(){return t`<${r} title="Metrics"><//>`}export{e as default};
