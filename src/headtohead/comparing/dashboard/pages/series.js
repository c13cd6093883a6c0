// The numbers behind the curves: each file is read on from where it was left.

const AXES = ["step", "tokens", "flops", "seconds", "value"];
const AT_ONCE = 60;
const known = new Map();

const name = (metric, key) => `${metric}\n${key}`;

/** The numbers of one run, {step, tokens, flops, seconds, value}, each a list; undefined before they came. */
export function series(metric, key) { return known.get(name(metric, key)); }

/** Brings these runs up to date; those in `stale` may have grown. */
export async function bring(metric, keys, stale) {
  const wanted = keys.filter((key) => stale.has(key) || !known.has(name(metric, key)));
  for (let start = 0; start < wanted.length; start += AT_ONCE) {
    const query = new URLSearchParams({ metric });
    for (const key of wanted.slice(start, start + AT_ONCE)) {
      const had = known.get(name(metric, key));
      query.append("run", key);
      query.append("file", had?.file ?? "0");
      query.append("offset", had?.offset ?? "0");
    }
    const told = await (await fetch(`/api/curves?${query}`)).json();
    for (const [key, piece] of Object.entries(told)) if (piece) add(name(metric, key), piece);
  }
  return wanted.length > 0;
}

export function forget(keys) {
  const gone = new Set(keys);
  for (const key of known.keys()) if (gone.has(key.slice(key.indexOf("\n") + 1))) known.delete(key);
}

function add(id, piece) {
  let had = known.get(id);
  if (!had || piece.anew) known.set(id, (had = Object.fromEntries(AXES.map((axis) => [axis, []]))));
  Object.assign(had, { file: piece.file, offset: piece.offset });
  piece.step.forEach((step, place) => {
    let at = had.step.length;
    while (at > 0 && had.step[at - 1] >= step) at -= 1;
    const again = had.step[at] === step ? 1 : 0; // logged twice: the later one counts
    for (const axis of AXES) had[axis].splice(at, again, piece[axis][place]);
  });
}
