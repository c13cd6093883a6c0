// Numbers and values as people read them.

const STEPS = [[1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
const UNITS = [[1e-6, "us", 0.9995e-3], [1e-3, "ms", 0.9995], [1, "s", 90], [60, "min", 5400], [3600, "h", Infinity]];

export function number(value) {
  if (value === null || value === undefined || value === "") return "–";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return withMinus(String(value));
  const size = Math.abs(value);
  return withMinus(size !== 0 && (size < 1e-3 || size >= 1e6) ? value.toExponential(2) : String(Number(value.toPrecision(4))));
}

/** Negative numbers of a text with a minus, as reports write them; hyphens of words, names and ranges stay. */
export const withMinus = (text) => text.replace(/(?<![^\s([×])[-+](?:\.?\d[\d.]*(?:e[-+]?\d+)?|inf\b)/g, (number) => number.replace(/^-/, "−"));

/** A measured number with all of its four digits, so that a column of them is even. */
export function measured(value) {
  const text = number(value);
  return typeof value === "number" && !Number.isInteger(value) && !text.includes("e") ? withMinus(value.toPrecision(4)) : text;
}

export function large(value) {
  if (typeof value !== "number") return number(value);
  const step = STEPS.find(([size]) => Math.abs(value) >= size);
  return step ? `${number(Number((value / step[0]).toPrecision(3)))} ${step[1]}` : number(value);
}

/** As reports and the terminal write it: 385 MiB. */
export function bytes(value) {
  if (typeof value !== "number") return number(value);
  const step = Math.max(0, Math.min(3, Math.floor(Math.log2(Math.abs(value) || 1) / 10)));
  return `${number(Number((value / 2 ** (10 * step)).toPrecision(3)))} ${["B", "KiB", "MiB", "GiB"][step]}`;
}

/** As headtohead.durations writes it: 3.2 us, 12 ms, 40 s, 1.7 min, 117 h. */
export function duration(seconds) {
  if (typeof seconds !== "number") return "–";
  if (!seconds || !Number.isFinite(seconds)) return `${seconds} s`;
  const [size, unit] = UNITS.find(([, , below]) => Math.abs(seconds) < below);
  const value = Math.abs(seconds / size);
  const decimals = Math.min(3, Math.max(0, 1 - Math.floor(Math.log10(value))));
  const rounded = Math.sign(seconds) * Number(value.toFixed(decimals));
  return `${withMinus(rounded.toLocaleString("en-US"))} ${unit}`;
}

export const time = (text) => (text ? new Date(text).toLocaleString() : null);

export const words = (text) => String(text ?? "").replaceAll("_", " ");

/** A folder's name, step_000050, as people say it. */
export const stepName = (text) => words(text).replace(/\b0+(?=\d)/, "");
