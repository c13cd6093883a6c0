// Which runs are selected, and the names and groups by which they are shown.

import { page, runs } from "./runs.js";
import { choose, chosen, state } from "./state.js";

export const SORTS = [
  ["newest", "newest first"], ["oldest", "oldest first"], ["name", "name"], ["result", "result, best first"],
  ["status", "status"], ["parameters", "parameters"], ["step", "steps"],
];
const MOST = 300;

/** The label of the group of a run; grouped by nothing, each run is its own. */
export const groupOf = (run) => (state.group ? run.label : run.key);

/** [[label, runs]] in the order of the list; one group without label where nothing groups. */
export function grouped(list) {
  if (!state.group) return [["", list]];
  const found = new Map();
  for (const run of list) {
    if (!found.has(run.label)) found.set(run.label, []);
    found.get(run.label).push(run);
  }
  return [...found];
}

/** Selected runs in the order of the list, of very many as many of each group; those that the filter hides are not among them. */
export function selected() {
  return page.drawn.map(([key]) => runs.get(key)).filter(Boolean);
}

/** Whether a run of the list is selected. */
export function isSelected(key) {
  const { all, but, keys } = chosen();
  return all ? !but.has(key) : keys.has(key);
}

/** Selects these runs too, or no longer. */
export function toggle(keys, on) {
  const { all, but } = chosen();
  if (all) {
    for (const key of keys) if (on) but.delete(key); else but.add(key);
    choose(["*", ...[...but].map((key) => `!${key}`)]);
    return;
  }
  const now = new Set(page.drawn.map(([key]) => key));
  for (const key of keys) if (on) now.add(key); else now.delete(key);
  choose([...now].slice(0, MOST));
}

/** A name for a run that tells it from the others of its arm. */
export function labelOf(run) {
  const name = run.arm === run.name || run.name.startsWith(run.arm) ? run.arm : `${run.arm}: ${run.name}`;
  return `${name} · seed ${run.seed}`;
}
