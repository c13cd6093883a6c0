// Elements from plain text: nothing that a run is called can become markup.

export const { el } = globalThis; // of page_kit.js

export const byId = (id) => document.getElementById(id);

/** A select with these choices; `groups` by the part before the slash. */
export function select(choices, chosen, onChoice, attributes = {}) {
  const node = el("select", { ...attributes, onchange: () => onChoice(node.value) });
  for (const choice of choices) {
    const [value, text] = Array.isArray(choice) ? choice : [choice, choice];
    node.append(el("option", { value, selected: value === chosen }, text));
  }
  return node;
}

/** Buttons in a row, of which one is pressed. */
export function choices(all, chosen, onChoice, label) {
  const row = el("div", { class: "choices", role: "group", "aria-label": label });
  for (const [value, text] of all) {
    row.append(el("button", { type: "button", "aria-pressed": String(value === chosen), onclick: () => onChoice(value) }, text));
  }
  return row;
}

export function labelled(text, control) {
  return el("label", { class: "control" }, el("span", {}, text), control);
}

/** A name that gives way in its middle where room is short: ends tell seeds apart, and stay. */
export function shortened(text, tail = 14) {
  const at = text.length > tail + 6 ? text.length - tail : text.length;
  return el("span", { class: "shortened", title: text }, el("span", {}, text.slice(0, at)), el("span", {}, text.slice(at)));
}

/** Lines break between the parts of a name first. */
export const breakable = (text) => text.split(/(?<=[./_])/).flatMap((part) => [part, el("wbr")]);

/** The cell of a table of texts: a text without a letter is said to be one, and a number takes little room. */
export const textCell = (text) => el("td", { class: text === "" ? "note" : /^-?[\d.]+$/.test(text) ? "number" : null }, text === "" ? "(empty)" : text);

/** Only a real address of the web becomes a link. */
export function link(address, text) {
  return /^https?:\/\//i.test(address) ? el("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, text) : el("span", {}, address);
}

/** Fills a panel where what it is to show (`told`) changed; places scrolled to stay, and so does the focus of a button. */
export function refill(panel, content, nodes) {
  const text = JSON.stringify([document.documentElement.dataset.theme, content]);
  if (panel.drawnContent === text) return;
  const scrolled = () => [...panel.querySelectorAll(".scroll")];
  const scrolls = scrolled().map((node) => [node.scrollLeft, node.scrollTop]);
  const buttons = [...panel.querySelectorAll("button, select, input")], focused = buttons.indexOf(document.activeElement);
  panel.drawnContent = text;
  panel.replaceChildren(...nodes());
  scrolled().forEach((node, index) => { if (scrolls[index]) [node.scrollLeft, node.scrollTop] = scrolls[index]; });
  if (focused >= 0) panel.querySelectorAll("button, select, input")[focused]?.focus();
}
