// The colours of groups: the server shares them out, so that an arm has one colour here and in its report.

const COLOURS = 8;
const DASHES = ["solid", "dash", "dot", "dashdot"];
let slots = {};

export function take(shared) { slots = shared ?? {}; }

/** {colour, dash} of a group; null where it is not selected. */
export function styleOf(label) {
  const slot = slots[label];
  if (slot === undefined) return null;
  return { colour: `var(--arm-${slot % COLOURS})`, dash: DASHES[Math.floor(slot / COLOURS) % DASHES.length] };
}
