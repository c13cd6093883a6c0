// Arithmetic of curves: smoothing, thinning, the mean of a group.

/** An exponential moving average that starts without bias; gaps stay gaps. */
export function smoothed(values, weight) {
  if (weight <= 0) return values;
  let sum = 0, mass = 0;
  return values.map((value) => {
    if (value === null) return null;
    sum = weight * sum + value;
    mass = weight * mass + 1;
    return sum / mass;
  });
}

/** At most about `most` points; of each stretch the lowest and the highest stay, so that no spike is lost. */
export function thinned(x, y, most) {
  if (x.length <= most) return { x, y };
  const stretch = Math.ceil((2 * x.length) / most), kept = [];
  for (let start = 0; start < x.length; start += stretch) {
    const places = Array.from({ length: Math.min(stretch, x.length - start) }, (_, place) => start + place);
    const gap = places.find((place) => y[place] === null);
    const low = places.reduce((best, place) => (y[place] < y[best] ? place : best), places[0]);
    const high = places.reduce((best, place) => (y[place] > y[best] ? place : best), places[0]);
    kept.push(...new Set([low, high, ...(gap === undefined ? [] : [gap])]));
  }
  if (kept.at(-1) !== x.length - 1) kept.push(x.length - 1);
  kept.sort((one, other) => one - other);
  return { x: kept.map((place) => x[place]), y: kept.map((place) => y[place]) };
}

/** Mean, lowest and highest of several curves where all of them have come, at the points of the densest. */
export function together(curves) {
  const full = curves.filter((curve) => curve.x.length > 0);
  const empty = { x: [], mean: [], low: [], high: [] };
  if (full.length < 2) return empty;
  const from = Math.max(...full.map((curve) => curve.x[0])), to = Math.min(...full.map((curve) => curve.x.at(-1)));
  const densest = full.reduce((best, curve) => (curve.x.length > best.x.length ? curve : best));
  const x = densest.x.filter((value) => value >= from && value <= to);
  const at = full.map((curve) => between(curve, x));
  const rows = x.map((_, place) => at.map((values) => values[place]));
  const whole = (row, of) => (row.includes(null) ? null : of(row));
  return {
    x,
    mean: rows.map((row) => whole(row, () => row.reduce((sum, value) => sum + value, 0) / row.length)),
    low: rows.map((row) => whole(row, () => Math.min(...row))),
    high: rows.map((row) => whole(row, () => Math.max(...row))),
  };
}

/** The curve's values at the ascending points `x`, straight between its own. */
function between(curve, x) {
  let place = 0;
  return x.map((point) => {
    while (place < curve.x.length - 1 && curve.x[place + 1] <= point) place += 1;
    const [left, value, right, next] = [curve.x[place], curve.y[place], curve.x[place + 1], curve.y[place + 1]];
    if (value === null || left === point || right === undefined) return value;
    return next === null ? null : value + ((next - value) * (point - left)) / (right - left);
  });
}
