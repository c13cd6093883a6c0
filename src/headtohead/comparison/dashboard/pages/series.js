// The numbers behind the curves: each file is read on from where it was left.

import { get } from "./asking.js";

const AXES = ["step", "tokens", "flops", "seconds", "value", "low", "high", "count"];
const AT_ONCE = 60;
const known = new Map();
let stretch = "";

const name = (metric, key) => `${metric}\n${key}`;

/** The numbers of one run, {step, tokens, flops, seconds, value}, each a list, with the lowest, the highest and the
 * count of the numbers that each stands for; undefined before they came. */
export function series(metric, key) { return known.get(name(metric, key)); }

/** Brings these runs up to date: those that were never read, have grown since, or were read in fewer points. `within`
 * is [axis, from, to]; of another stretch nothing is held. `onPiece` hears of each answer; false ends it early. */
export async function bring(metric, keys, { most, within, onPiece }) {
  const now = JSON.stringify(within);
  if (now !== stretch) known.clear();
  stretch = now;
  const outdated = keys.filter((key) => isOutdated(known.get(name(metric, key)), most));
  for (let start = 0; start < outdated.length; start += AT_ONCE) {
    const asked = outdated.slice(start, start + AT_ONCE), pieces = await get("/api/curves", queryOf(metric, asked, most, within));
    if (now !== stretch) return;
    for (const [key, piece] of Object.entries(pieces)) if (piece) add(name(metric, key), piece, most);
    if (!(await onPiece())) return;
  }
}

/** Every number of these runs as it was logged, by key. */
export async function everyNumber(metric, keys) {
  const all = {};
  for (let start = 0; start < keys.length; start += AT_ONCE) Object.assign(all, await get("/api/curves", queryOf(metric, keys.slice(start, start + AT_ONCE), 0, null, true)));
  return all;
}

/** Runs that trained for long while the page was open hold more points than a chart shows. */
const isReadAgain = (had, most) => !had || (had.isThinned && had.most < most) || had.step.length > 3 * most;
const isOutdated = (had, most) => isReadAgain(had, most) || had.grown;

function queryOf(metric, keys, most, within, fromStart = false) {
  const query = [["metric", metric], ["most", String(most)]];
  if (within) query.push(["axis", within[0]], ["from", String(within[1])], ["to", String(within[2])]);
  for (const key of keys) {
    const had = known.get(name(metric, key)), again = fromStart || within || isReadAgain(had, most);
    query.push(["run", key], ["file", again ? "0" : had.file], ["offset", again ? "0" : had.offset]);
  }
  return query;
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

function add(id, piece, most) {
  let had = known.get(id);
  if (!had || piece.restarted) known.set(id, (had = { isThinned: false, ...Object.fromEntries(AXES.map((axis) => [axis, []])) }));
  Object.assign(had, { file: piece.file, offset: piece.offset, grown: false, most, isThinned: had.isThinned || piece.count !== undefined });
  const { low = piece.value, high = piece.value, count = piece.value.map(() => 1) } = piece, columns = { ...piece, low, high, count };
  piece.step.forEach((step, index) => {
    let at = had.step.length;
    while (at > 0 && had.step[at - 1] >= step) at -= 1;
    const again = had.step[at] === step ? 1 : 0; // logged twice: the later one counts
    for (const axis of AXES) had[axis].splice(at, again, columns[axis][index]);
  });
}
