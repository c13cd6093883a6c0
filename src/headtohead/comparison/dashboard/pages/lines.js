// Arithmetic of curves: smoothing, the mean of a group with its interval.

/** An exponential moving average that starts without bias; gaps stay gaps. A value that stands for several logged ones,
 * as `counts` says, weighs as much as they would. */
export function smoothed(values, weight, counts) {
  if (weight <= 0) return values;
  let sum = 0, mass = 0;
  return values.map((value, index) => {
    if (value === null) return null;
    const left = weight ** counts[index], added = (1 - left) / (1 - weight);
    sum = left * sum + added * value;
    mass = left * mass + added;
    return sum / mass;
  });
}

/** 97.5 % points of Student's t by degrees of freedom, from one on. */
const STUDENT = [
  12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131,
  2.12, 2.11, 2.101, 2.093, 2.086, 2.08, 2.074, 2.069, 2.064, 2.06, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/** The point for so many degrees of freedom; beyond the table a series around the normal one has all its digits. */
const student = (degrees) => STUDENT[degrees - 1] ?? 1.95996 + 2.37227 / degrees + 2.8225 / degrees ** 2;

/** The mean of some values and the ends of its 95 % t interval; nulls where one of them is missing. */
export function interval(values) {
  if (values.includes(null)) return [null, null, null];
  const count = values.length, mean = values.reduce((sum, value) => sum + value, 0) / count;
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (count - 1);
  const half = student(count - 1) * Math.sqrt(variance / count);
  return [mean, mean - half, mean + half];
}

/** Mean and interval of several curves where all of them have come, at the points of the densest. */
export function together(curves) {
  const full = curves.filter((curve) => curve.x.length > 0);
  if (full.length < 2) return { x: [], mean: [], low: [], high: [] };
  const from = Math.max(...full.map((curve) => curve.x[0])), to = Math.min(...full.map((curve) => curve.x.at(-1)));
  const densest = full.reduce((best, curve) => (curve.x.length > best.x.length ? curve : best));
  const x = densest.x.filter((value) => value >= from && value <= to);
  const at = full.map((curve) => between(curve, x));
  const rows = x.map((_, index) => interval(at.map((values) => values[index])));
  return { x, mean: rows.map(([mean]) => mean), low: rows.map(([, low]) => low), high: rows.map(([, , high]) => high) };
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
