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
  const stretch = Math.ceil((2 * x.length) / most), indices = [];
  for (let start = 0; start < x.length; start += stretch) {
    const stretchIndices = Array.from({ length: Math.min(stretch, x.length - start) }, (_, index) => start + index);
    const gap = stretchIndices.find((index) => y[index] === null);
    const low = stretchIndices.reduce((best, index) => (y[index] < y[best] ? index : best), stretchIndices[0]);
    const high = stretchIndices.reduce((best, index) => (y[index] > y[best] ? index : best), stretchIndices[0]);
    indices.push(...new Set([low, high, ...(gap === undefined ? [] : [gap])]));
  }
  if (indices.at(-1) !== x.length - 1) indices.push(x.length - 1);
  indices.sort((one, other) => one - other);
  return { x: indices.map((index) => x[index]), y: indices.map((index) => y[index]) };
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
  const rows = x.map((_, index) => at.map((values) => values[index]));
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
  let index = 0;
  return x.map((point) => {
    while (index < curve.x.length - 1 && curve.x[index + 1] <= point) index += 1;
    const [left, value, right, next] = [curve.x[index], curve.y[index], curve.x[index + 1], curve.y[index + 1]];
    if (value === null || left === point || right === undefined) return value;
    return next === null ? null : value + ((next - value) * (point - left)) / (right - left);
  });
}
