// Pictures that runs drew on white paper, in the page's theme.

import { el } from "./dom.js";

/** Paper, letters, frames and what is masked: all between white and ink, greys with at most this much more blue. The
 * colours of weights are never equally red and green and so little blue. */
const MOST_BLUE = 10;
const DARK = { paper: [27, 30, 36], ink: [230, 232, 236] };

/** A picture; that of a map turns its paper dark with the page, and leaves the colours of its weights alone. */
export function picture(address, text, isMap, attributes = {}) {
  const image = el("img", { src: address, alt: text, ...attributes });
  if (!isMap || theme.name !== "dark") return image;
  const show = () => {
    if (image.dataset.dark) return;
    image.dataset.dark = "true";
    image.src = inDark(image);
  };
  image.addEventListener("load", show);
  return image;
}

function inDark(image) {
  const canvas = el("canvas", { width: image.naturalWidth, height: image.naturalHeight }), context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const pixels = context.getImageData(0, 0, canvas.width, canvas.height);
  darken(pixels.data);
  context.putImageData(pixels, 0, 0);
  return canvas.toDataURL("image/png");
}

/** Greys from white to ink become those from dark paper to light ink; other colours stay. */
export function darken(data) {
  for (let at = 0; at < data.length; at += 4) {
    const [red, green, blue] = [data[at], data[at + 1], data[at + 2]];
    if (red !== green || blue < red || blue - red > MOST_BLUE) continue;
    const share = 1 - red / 255;
    for (let part = 0; part < 3; part += 1) data[at + part] = DARK.paper[part] + share * (DARK.ink[part] - DARK.paper[part]);
  }
  return data;
}
