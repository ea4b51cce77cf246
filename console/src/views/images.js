import { html, useState } from "../html.js";
import { Dialog } from "../parts/dialog.js";

const TYPES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

/** The images of a result; a click shows them in full size. */
export function Images({ content }) {
  const images = (Array.isArray(content) ? content : []).filter((part) => part?.type === "image");
  return images.map((image, index) => html`<${Image} key=${index} image=${image} number=${index + 1} />`);
}

function Image({ image, number }) {
  const [isOpen, setOpen] = useState(false);
  const type = image.mimeType ?? image.mime_type;
  const isValid = TYPES.has(type) && typeof image.data === "string" && BASE64.test(image.data);
  const [isBroken, setBroken] = useState(!isValid);
  if (isBroken) return html`<p class="muted">Image ${number} is incomplete, or its type is not supported.</p>`;
  const source = `data:${type};base64,${image.data}`;
  const picture = html`<img src=${source} alt=${`Image ${number} of the result`} onError=${() => setBroken(true)} />`;
  return html`
    <button type="button" class="thumbnail" aria-label=${`Zoom image ${number}`} onClick=${() => setOpen(true)}>${picture}</button>
    ${isOpen && html`<${Dialog} title=${`Image ${number}`} wide onClose=${() => setOpen(false)}><div class="zoomed">${picture}</div><//>`}
  `;
}
