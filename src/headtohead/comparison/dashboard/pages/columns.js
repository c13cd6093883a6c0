// The columns that a table of runs can have: what runs are, cost and achieved, and the fields of their configurations.

import { bytes, duration, large, measured, number, time, words } from "./format.js";

const STAGES = ["test", "validation"];
const OWN = [
  { name: "run", of: (run) => run.name, swatch: true },
  { name: "star", of: (run) => (run.star ? "★" : null) },
  { name: "note", of: (run) => run.note || null },
  { name: "arm", of: (run) => run.arm },
  { name: "seed", of: (run) => run.seed, number: true },
  { name: "task", of: (run) => run.task || null },
  { name: "status", of: (run) => run.status, text: words },
  { name: "result", of: (run) => run.value, number: true, text: (value, run) => (run.metric ? `${words(run.metric)} ${measured(value)}` : "–") },
  { name: "chance", of: (run) => run.baseline, number: true, text: measured },
  { name: "parameters", of: (run) => run.costs.parameters, number: true, text: large },
  { name: "steps", of: (run) => run.progress.step, number: true },
  { name: "tokens", of: (run) => run.progress.tokens || null, number: true, text: large },
  { name: "FLOPs", of: (run) => run.progress.flops, number: true, text: large },
  { name: "time", of: (run) => run.progress.seconds, number: true, text: duration },
  { name: "tokens/s", of: (run) => run.costs.tokens_per_second || null, number: true, text: large },
  { name: "samples/s", of: (run) => run.costs.samples_per_second || null, number: true, text: large },
  { name: "peak memory", of: (run) => run.costs.peak_memory_bytes, number: true, text: bytes },
  { name: "joules", of: (run) => run.costs.joules ?? null, number: true, text: large },
  { name: "joules per token", of: (run) => run.costs.joules_per_token ?? null, number: true, text: large },
  { name: "study", of: (run) => run.study }, { name: "group", of: (run) => run.group }, { name: "id", of: (run) => run.id },
  { name: "tags", of: (run) => run.tags.join(", ") || null }, { name: "started", of: (run) => run.started, text: time }, { name: "folder", of: (run) => run.key },
];
/** Those that are shown only when somebody chooses them. */
const QUIET = new Set(["task", "study", "group", "id", "tags", "started", "folder"]);

/** Every column that some run fills; what no run tells has none. */
export function columnsOf(list) {
  const rank = (name) => { const stage = STAGES.indexOf(name.split("/")[0]); return stage < 0 ? STAGES.length : stage; };
  const results = [...new Set(list.flatMap((run) => Object.keys(run.results)))];
  results.sort((one, other) => rank(one) - rank(other) || one.localeCompare(other, "en", { numeric: true }));
  const all = [...OWN, ...results.map((name) => ({ name, of: (run) => run.results[name], number: true, text: measured }))];
  return all.filter((column) => list.some((run) => (column.of(run) ?? null) !== null));
}

/** What a cell of the column says of a run. */
export function textOf(column, run) {
  const value = column.of(run);
  if (column.number) return (column.text ?? number)(value, run);
  return (value ?? null) === null ? "–" : (column.text ?? String)(value);
}

export const usualColumns = (columns) => columns.filter((column) => !QUIET.has(column.name)).map((column) => column.name);

/** A column of a field of the configuration; its texts come from the server. */
export function fieldColumn(name, values) {
  const of = (run) => values[run.key]?.[name] ?? null;
  const texts = Object.values(values).map((own) => own[name]).filter((text) => text !== undefined);
  const isNumber = texts.length > 0 && texts.every((text) => text !== "" && Number.isFinite(Number(text)));
  return { name, of: (run) => (of(run) !== null && isNumber ? Number(of(run)) : of(run)), number: isNumber, field: true };
}

const COUNTED = ["parameters", "tokens", "FLOPs", "time", "tokens/s", "samples/s", "peak memory", "joules", "joules per token"];

/** What a run has more or less in a column than the mean of the runs that it is compared with: results in their own
 * units, costs in percent; empty where there is nothing to compare. */
export function differenceOf(column, run, compared) {
  const own = column.of(run), known = compared.map(column.of);
  const isResult = column.name.includes("/") && !COUNTED.includes(column.name) && !column.field;
  if (!(isResult || COUNTED.includes(column.name)) || ![own, ...known].every(Number.isFinite) || !known.length || compared.includes(run)) return "";
  const mean = known.reduce((sum, value) => sum + value, 0) / known.length, difference = own - mean;
  if (!isResult && !mean) return "";
  const text = isResult ? measured(Math.abs(difference)) : `${number(Number(Math.abs((100 * difference) / mean).toPrecision(3)))} %`;
  return `${difference < 0 ? "−" : "+"}${text}`;
}

/** The runs by one column, those that lack it last. */
export function sorted(list, column, isDown) {
  if (!column) return list;
  const value = (run) => column.of(run) ?? null;
  return [...list].sort((one, other) => {
    const [left, right] = [value(one), value(other)];
    if (left === null || right === null) return (left === null) - (right === null);
    const difference = typeof left === "number" && typeof right === "number" ? left - right : String(left).localeCompare(String(right), "en", { numeric: true });
    return isDown ? -difference : difference;
  });
}
