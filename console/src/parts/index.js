/** The components of pages. */
export { Copy } from "./copy.js";
export { DataTable } from "./data-table.js";
export { Dialog } from "./dialog.js";
export { Empty, ErrorBox, Loading, Page, Section } from "./page.js";
export { Field } from "./field.js";
export { Json } from "./json.js";
export { Lines } from "./lines.js";
export { Omissions, Review, useNewReview, useReview } from "./review.js";
export { Tabs } from "./tabs.js";
export { Time } from "./time.js";
export { VirtualList } from "./virtual-list.js";
export { useChosen, useHeld } from "./holding.js";
export { useAction, useList, useLoad } from "./loading.js";
