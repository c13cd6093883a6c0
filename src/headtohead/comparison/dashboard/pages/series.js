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

/** Brings these metrics of these runs up to date: those that were never read, have grown since, or were read in fewer
 * points. A run is read once for all metrics that stand at the same place of its file. `within` is [axis, from, to]; of
 * another stretch nothing is held. `onPiece` hears of each answer; false ends it early. */
export async function bring(metrics, keys, { most, within, onPiece }) {
  const now = JSON.stringify(within);
  if (now !== stretch) known.clear();
  stretch = now;
  for (const { own, positions } of outdated(metrics, keys, most, within)) {
    const answers = await ask(own, positions, most, within);
    if (now !== stretch) return;
    for (const [key, piece] of Object.entries(answers)) for (const metric of piece ? own : []) add(name(metric, key), pieceOf(piece, metric), most);
    if (!(await onPiece())) return;
  }
}

/** Every number of these runs as it was logged, by key. */
export async function everyNumber(metric, keys) {
  const all = {};
  for (let start = 0; start < keys.length; start += AT_ONCE) {
    const answers = await ask([metric], keys.slice(start, start + AT_ONCE).map((key) => [key, "0", "0"]), 0, null);
    for (const [key, piece] of Object.entries(answers)) all[key] = piece && pieceOf(piece, metric);
  }
  return all;
}

/** Questions of {own metrics, positions of runs}, each of about as many curves as come at once. */
function outdated(metrics, keys, most, within) {
  const places = keys.flatMap((key) => [...Map.groupBy(metrics.filter((metric) => isOutdated(known.get(name(metric, key)), most)), (metric) => placeOf(known.get(name(metric, key)), most, within))]
    .flatMap(([place, own]) => pieces(own, AT_ONCE).map((some) => ({ own: some, position: [key, ...place.split(" ")] }))));
  return [...Map.groupBy(places, ({ own }) => own.join("\n")).values()].flatMap((alike) => {
    const { own } = alike[0];
    return pieces(alike, Math.max(1, Math.floor(AT_ONCE / own.length))).map((some) => ({ own, positions: some.map(({ position }) => position) }));
  });
}

const pieces = (list, most) => Array.from({ length: Math.ceil(list.length / most) }, (_, at) => list.slice(at * most, (at + 1) * most));

/** Runs that trained for long while the page was open hold more points than a chart shows. */
const isReadAgain = (had, most) => !had || (had.isThinned && had.most < most) || had.step.length > 3 * most;
const isOutdated = (had, most) => isReadAgain(had, most) || had.grown;

/** Where the file of a run is read on from, as "file offset". */
const placeOf = (had, most, within) => (within || isReadAgain(had, most) ? "0 0" : `${had.file} ${had.offset}`);

const pieceOf = ({ file, offset, restarted, curves }, metric) => ({ file, offset, restarted, ...curves[metric] });

function ask(metrics, positions, most, within) {
  const query = [...metrics.map((metric) => ["metric", metric]), ["most", String(most)]];
  if (within) query.push(["axis", within[0]], ["from", String(within[1])], ["to", String(within[2])]);
  for (const [key, file, offset] of positions) query.push(["run", key], ["file", file], ["offset", offset]);
  return get("/api/curves", query);
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
