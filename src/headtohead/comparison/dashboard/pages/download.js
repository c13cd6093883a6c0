// What a chart or a table shows, as a file.

import { el } from "./dom.js";

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

/** An SVG that stands by itself: its colours are those of the page's theme now. */
export function svgOf(node) {
  const style = getComputedStyle(document.documentElement);
  const copy = node.cloneNode(true);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  for (const unseen of copy.querySelectorAll(".cursor, .stretch")) unseen.remove();
  return new XMLSerializer().serializeToString(copy).replace(/var\((--[\w-]+)\)/g, (_, name) => style.getPropertyValue(name).trim().replaceAll('"', "'"));
}
