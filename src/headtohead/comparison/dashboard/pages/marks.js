// Stars and notes of a reader: the server keeps them in a file beside the runs.

import { send } from "./asking.js";
import { el } from "./dom.js";
import { refresh } from "./runs.js";
import { change } from "./state.js";

/** Saves what changed of a run's mark, and shows it everywhere. */
export async function save(run, changes) {
  const mark = { star: run.star, note: run.note, ...changes };
  await send("/api/mark", { run: run.key, ...mark });
  Object.assign(run, mark);
  await refresh();
  change({});
}

export function star(run) {
  return el("button", { type: "button", class: "star", "aria-pressed": String(run.star), "aria-label": run.star ? "remove the star" : "star this run", onclick: () => save(run, { star: !run.star }) }, run.star ? "★" : "☆");
}
