// One colour for each group of the selected runs, kept as long as the group is selected.

const COLOURS = 8;
const DASHES = ["solid", "dash", "dot", "dashdot"];
let slots = new Map();
let field = null;

/** Gives every group of `labels` a place of its own; those that went make room. */
export function assign(by, labels) {
  if (by !== field) { slots = new Map(); field = by; }
  const groups = new Set(labels);
  for (const label of slots.keys()) if (!groups.has(label)) slots.delete(label);
  for (const label of groups) {
    if (slots.has(label)) continue;
    const taken = new Set(slots.values());
    let free = 0;
    while (taken.has(free)) free += 1;
    slots.set(label, free);
  }
}

/** {colour, dash} of a group; null where it is not selected. */
export function styleOf(label) {
  const slot = slots.get(label);
  if (slot === undefined) return null;
  return { colour: token(`--arm-${slot % COLOURS}`), dash: DASHES[Math.floor(slot / COLOURS) % DASHES.length] };
}

export function token(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export function faint(colour, opacity) {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return `rgba(${r},${g},${b},${opacity})`;
}
