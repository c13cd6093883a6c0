// Results and costs of the selected runs, in one table that sorts by any of its columns.

import { styleOf } from "./colours.js";
import { el, refill } from "./dom.js";
import { bytes, duration, large, number, words } from "./format.js";
import { groupOf } from "./selection.js";

const STAGES = ["test", "validation"];
let by = null;
let up = true;

export function show(panel, list) {
  const columns = columnsOf(list), sorted = order(list, columns);
  const again = () => show(panel, list);
  const rowKeys = sorted.map((run) => [run.key, run.status, run.progress, run.results, styleOf(groupOf(run))]);
  refill(panel, ["results", by, up, rowKeys], () => [
    el("div", { class: "scroll", tabindex: "0" }, el("table", { class: "results" },
      el("thead", {}, el("tr", {}, ...columns.map((column) => head(column, again)))),
      el("tbody", {}, ...sorted.map((run) => el("tr", {}, ...columns.map((column) => cell(column, run))))))),
    el("p", { class: "note" }, "Result: on the test, else on validation. Baseline: the score of a model that learned nothing. Speed and memory of different machines do not compare."),
  ]);
}

function columnsOf(list) {
  const stage = (name) => { const rank = STAGES.indexOf(name.split("/")[0]); return rank < 0 ? STAGES.length : rank; };
  const results = [...new Set(list.flatMap((run) => Object.keys(run.results)))];
  results.sort((one, other) => stage(one) - stage(other) || one.localeCompare(other, "en", { numeric: true }));
  return known(list, [
    { name: "run", of: (run) => run.name, swatch: true },
    { name: "arm", of: (run) => run.arm },
    { name: "seed", of: (run) => run.seed, number: true },
    { name: "status", of: (run) => run.status, text: words },
    { name: "result", of: (run) => run.value, number: true, text: (value, run) => (run.metric ? `${words(run.metric)} ${number(value)}` : "–") },
    { name: "baseline", of: (run) => run.baseline, number: true },
    { name: "parameters", of: (run) => run.costs.parameters, number: true, text: large },
    { name: "steps", of: (run) => run.progress.step, number: true },
    { name: "tokens", of: (run) => run.progress.tokens || null, number: true, text: large },
    { name: "FLOPs", of: (run) => run.progress.flops, number: true, text: large },
    { name: "time", of: (run) => run.progress.seconds, number: true, text: duration },
    { name: "tokens/s", of: (run) => run.costs.tokens_per_second || null, number: true, text: large },
    { name: "samples/s", of: (run) => run.costs.samples_per_second || null, number: true, text: large },
    { name: "peak memory", of: (run) => run.costs.peak_memory_bytes, number: true, text: bytes },
    ...results.map((name) => ({ name, of: (run) => run.results[name], number: true })),
  ]);
}

/** What no run tells has no column. */
function known(list, columns) {
  return columns.filter((column) => list.some((run) => (column.of(run) ?? null) !== null));
}

function order(list, columns) {
  const column = columns.find((candidate) => candidate.name === by);
  if (!column) return list;
  const value = (run) => column.of(run) ?? null;
  return [...list].sort((one, other) => {
    const [left, right] = [value(one), value(other)];
    if (left === null || right === null) return (left === null) - (right === null);
    const difference = typeof left === "number" && typeof right === "number" ? left - right : String(left).localeCompare(String(right), "en", { numeric: true });
    return up ? difference : -difference;
  });
}

function head(column, again) {
  const sorted = by === column.name ? (up ? "ascending" : "descending") : "none";
  const press = () => { up = by === column.name ? !up : true; by = column.name; again(); };
  return el("th", { class: column.number ? "number" : null, "aria-sort": sorted }, el("button", { type: "button", onclick: press }, `${words(column.name)}${sorted === "none" ? "" : up ? " ↑" : " ↓"}`));
}

function cell(column, run) {
  const value = column.of(run), node = el(column.swatch ? "th" : "td", { class: column.number ? "number" : null, scope: column.swatch ? "row" : null });
  if (column.swatch) {
    const swatch = el("i");
    swatch.style.background = styleOf(groupOf(run))?.colour ?? "";
    node.append(swatch);
  }
  node.append(column.number ? (column.text ?? number)(value, run) : (column.text ?? String)(value ?? "–"));
  return node;
}
