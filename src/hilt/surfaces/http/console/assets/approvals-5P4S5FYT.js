import{j as r,y as t}from"./chunk-OQVW7CMG.js";function o(){return r`<${t} title="Approvals"><//>`}export{o as default};
