import { html, useEffect, useMemo, useState } from "../html.js";
import { Dialog } from "../parts/dialog.js";

const TYPES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;
const PIXELS_MAX = 64_000_000; // of all images drawn together: a few kilobytes can be gigabytes of pixels

/** Return a function that calls back whether an image, which is in no document yet, may be drawn besides the others. */
export function pixelBudget() {
  let left = PIXELS_MAX;
  return (image, decided) => {
    image.onerror = () => decided(false);
    image.onload = () => {
      const pixels = image.naturalWidth * image.naturalHeight;
      const fits = pixels <= left;
      if (fits) left -= pixels;
      decided(fits);
    };
  };
}

/** The images of a result; a click shows them in full size. */
export function Images({ content }) {
  const images = (Array.isArray(content) ? content : []).filter((part) => part?.type === "image");
  const measure = useMemo(pixelBudget, [content]);
  return images.map((image, index) => html`<${Picture} key=${index} image=${image} number=${index + 1} measure=${measure} />`);
}

function Picture({ image, number, measure }) {
  const [isOpen, setOpen] = useState(false);
  const [fits, setFits] = useState(null);
  const type = image.mimeType ?? image.mime_type;
  const isValid = TYPES.has(type) && typeof image.data === "string" && BASE64.test(image.data);
  const source = isValid ? `data:${type};base64,${image.data}` : "";
  useEffect(() => {
    setFits(isValid ? null : false);
    if (!isValid) return;
    const probe = new Image();
    measure(probe, setFits);
    probe.src = source;
    return () => (probe.onload = probe.onerror = null);
  }, [source, measure]);
  if (fits === false) return html`<p class="muted">Image ${number} is incomplete or too large, or its type is not supported.</p>`;
  if (fits === null) return null;
  const picture = html`<img src=${source} alt=${`Image ${number} of the result`} />`;
  return html`
    <button type="button" class="thumbnail" aria-label=${`Zoom image ${number}`} onClick=${() => setOpen(true)}>${picture}</button>
    ${isOpen && html`<${Dialog} title=${`Image ${number}`} wide onClose=${() => setOpen(false)}><div class="zoomed">${picture}</div><//>`}
  `;
}
