"use strict";
// What every page begins with: elements made of plain text, and the theme, set before anything is drawn, so that a dark
// page never flashes white.

/** el("p", { class: "note", onclick }, "text", child): text becomes text nodes only, so that nothing can be taken for markup. */
function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** The system's theme, until a button asks for the other. */
const theme = {
  system: matchMedia("(prefers-color-scheme: dark)"),
  chosen: null,
  listeners: [],
  get name() {
    return document.documentElement.dataset.theme;
  },
  apply() {
    document.documentElement.dataset.theme = this.chosen ?? (this.system.matches ? "dark" : "light");
    for (const listener of this.listeners) listener();
  },
  swap() {
    this.chosen = this.name === "dark" ? "light" : "dark";
    this.apply();
  },
};
theme.apply();
theme.system.addEventListener("change", () => theme.apply());
