// Axes: where a number stands between two ends, and the round numbers to write beside it.

/** The smallest and the largest of many lists; on a logarithmic axis only what is above zero counts. */
export function extent(lists, log = false) {
  let [low, high] = [Infinity, -Infinity];
  for (const list of lists) {
    for (const value of list) {
      if (value === null || !Number.isFinite(value) || (log && value <= 0)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  return low <= high ? [low, high] : null;
}

/** A little room beyond both ends, so that no line lies on the frame. */
export function padded([low, high], log = false) {
  if (log) return low === high ? [low / 2, high * 2] : [low / (high / low) ** 0.04, high * (high / low) ** 0.04];
  const room = low === high ? Math.abs(low) * 0.1 || 1 : (high - low) * 0.05;
  return [low - room, high + room];
}

/** {at, back, ticks}: numbers to pixels from `start` to `end`, pixels to numbers, and at most about `most` round numbers. */
export function scale([low, high], [start, end], log, most) {
  const [forth, back] = log ? [Math.log10, (value) => 10 ** value] : [(value) => value, (value) => value];
  const [first, last] = [forth(low), forth(high)], size = last - first || 1;
  return {
    at: (value) => start + ((forth(value) - first) / size) * (end - start),
    back: (pixel) => back(first + ((pixel - start) / (end - start)) * size),
    ticks: log ? logTicks(low, high, most) : evenTicks(low, high, most),
  };
}

export function evenTicks(low, high, most) {
  const rough = (high - low) / Math.max(1, most), power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
  const ticks = [];
  for (let index = Math.ceil(low / step - 1e-9); index * step <= high + step * 1e-9; index += 1) ticks.push(Number((index * step).toPrecision(12)));
  return ticks;
}

/** Powers of ten; within few of them also 2 and 5 times each. */
export function logTicks(low, high, most) {
  const [from, to] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const factors = to - from <= most / 3 ? [1, 2, 5] : [1], stride = Math.max(1, Math.ceil((to - from) / most));
  const ticks = [];
  for (let power = from; power <= to; power += stride) for (const factor of factors) ticks.push(Number(`${factor}e${power}`));
  const within = ticks.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
  return within.length > 1 ? within : evenTicks(low, high, most).filter((tick) => tick > 0);
}
