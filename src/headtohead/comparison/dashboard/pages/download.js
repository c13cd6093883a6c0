// What a chart or a table shows, as a file.

import { el } from "./dom.js";
import { DASHES, svg } from "./plot.js";

const [HEAD, ROW, LETTER, BEFORE_NAME, BETWEEN] = [24, 18, 6.8, 28, 16]; // pixels of an SVG's title and legend

export function save(name, text, kind) {
  const address = URL.createObjectURL(new Blob([text], { type: kind }));
  el("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

/** Rows as a file that spreadsheets read; a text that one of them would take for a formula is quoted by a sign. */
export function csvOf(rows) {
  const cell = (value) => {
    const text = String(value ?? "");
    const safe = typeof value === "string" && /^[=+@\t\r]|^-(?!\d)/.test(text) ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return `${rows.map((row) => row.map(cell).join(",")).join("\n")}\n`;
}

/** Where each name of a legend stands: its row and its left end, in rows of this width. */
export function inRows(names, width) {
  let [row, left] = [0, 0];
  return names.map((name) => {
    const wide = BEFORE_NAME + LETTER * name.length + BETWEEN;
    if (left > 0 && left + wide > width) [row, left] = [row + 1, 0];
    const place = { row, left };
    left += wide;
    return place;
  });
}

/** An SVG that stands by itself: with title and legend, in the colours of the page's theme now. */
export function svgOf(node, title, groups) {
  const style = getComputedStyle(document.documentElement);
  const copy = node.cloneNode(true), [width, height] = ["width", "height"].map((name) => Number(node.getAttribute(name)));
  for (const unseen of copy.querySelectorAll(".cursor, .stretch")) unseen.remove();
  const places = inRows(groups.map(({ label }) => label), width - 2 * BETWEEN);
  const whole = height + HEAD + ROW * ((places.at(-1)?.row ?? -1) + 1);
  const names = groups.flatMap(({ label, colour, dash }, index) => {
    const [x, y] = [BETWEEN + places[index].left, height + HEAD + ROW * places[index].row + 8];
    return [
      svg("line", { x1: x, x2: x + 20, y1: y, y2: y, stroke: colour, "stroke-width": 2.6, ...(DASHES[dash] ? { "stroke-dasharray": DASHES[dash] } : {}) }),
      svg("text", { x: x + BEFORE_NAME, y: y + 4, fill: "var(--ink)", "font-size": 12 }, label),
    ];
  });
  copy.replaceChildren(svg("text", { x: BETWEEN, y: 16, fill: "var(--ink)", "font-size": 13, "font-weight": 600 }, title), svg("g", { transform: `translate(0 ${HEAD})` }, ...copy.childNodes), ...names);
  for (const [name, value] of Object.entries({ xmlns: "http://www.w3.org/2000/svg", height: whole, viewBox: `0 0 ${width} ${whole}` })) copy.setAttribute(name, value);
  return new XMLSerializer().serializeToString(copy).replace(/var\((--[\w-]+)\)/g, (_, name) => style.getPropertyValue(name).trim().replaceAll('"', "'"));
}
