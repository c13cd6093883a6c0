// The numbers behind the curves: each file is read on from where it was left.

import { get } from "./asking.js";

const AXES = ["step", "tokens", "flops", "seconds", "value"];
const AT_ONCE = 60;
const known = new Map();

const name = (metric, key) => `${metric}\n${key}`;

/** The numbers of one run, {step, tokens, flops, seconds, value}, each a list; undefined before they came. */
export function series(metric, key) { return known.get(name(metric, key)); }

/** Brings these runs up to date: those that were never read, or have grown since. */
export async function bring(metric, keys) {
  const outdated = keys.filter((key) => known.get(name(metric, key))?.grown !== false);
  for (let start = 0; start < outdated.length; start += AT_ONCE) {
    const query = [["metric", metric]];
    for (const key of outdated.slice(start, start + AT_ONCE)) {
      const had = known.get(name(metric, key));
      query.push(["run", key], ["file", had?.file ?? "0"], ["offset", had?.offset ?? "0"]);
    }
    const pieces = await get("/api/curves", query);
    for (const [key, piece] of Object.entries(pieces)) if (piece) add(name(metric, key), piece);
  }
}

/** Numbers of these runs were added, whatever their metrics; of those that are gone nothing is kept. */
export function note({ changed, gone }) {
  const left = new Set(gone);
  for (const [id, had] of known) {
    const key = id.slice(id.indexOf("\n") + 1);
    if (left.has(key)) known.delete(id);
    else if (changed.has(key)) had.grown = true;
  }
}

function add(id, piece) {
  let had = known.get(id);
  if (!had || piece.restarted) known.set(id, (had = Object.fromEntries(AXES.map((axis) => [axis, []]))));
  Object.assign(had, { file: piece.file, offset: piece.offset, grown: false });
  piece.step.forEach((step, index) => {
    let at = had.step.length;
    while (at > 0 && had.step[at - 1] >= step) at -= 1;
    const again = had.step[at] === step ? 1 : 0; // logged twice: the later one counts
    for (const axis of AXES) had[axis].splice(at, again, piece[axis][index]);
  });
}
