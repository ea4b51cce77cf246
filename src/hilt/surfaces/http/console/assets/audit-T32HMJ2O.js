import{j as t,y as r}from"./chunk-OQVW7CMG.js";function i(){return t`<${r} title="Audit"><//>`}export{i as default};
