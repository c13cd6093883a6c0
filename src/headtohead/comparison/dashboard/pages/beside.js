// Two runs side by side: configurations with their differences marked, results, maps and samples.

import { get } from "./asking.js";
import { styleOf } from "./colours.js";
import { columnsOf, textOf } from "./columns.js";
import { breakable, choices, el, labelled, refill, select, textCell } from "./dom.js";
import { details, isMap } from "./folders.js";
import { stepName, words } from "./format.js";
import { picture } from "./pictures.js";
import { groupOf, labelOf } from "./selection.js";
import { change, state } from "./state.js";

const ROWS = 8;
/** Columns that name a run: they differ between any two. */
const NAMES = ["run", "star", "arm", "id", "started", "folder"];

export async function show(panel, list, isWanted) {
  const pair = pairOf(list);
  if (pair.length < 2) {
    refill(panel, ["beside", "none"], () => [el("p", { class: "note" }, "Select two runs or more to put two of them side by side.")]);
    return;
  }
  const [configs, folders] = await Promise.all([Promise.all(pair.map((run) => get("/api/config", { run: run.key }))), details(pair, 2)]);
  const samples = await Promise.all(folders.map(lastTable));
  if (!isWanted()) return;
  refill(panel, ["beside", list.map((run) => run.key), pair.map((run) => [run.key, run.version]), state.every, configs, folders.map((one) => one.pictures), samples], () => [
    controls(list, pair),
    el("h2", {}, "Configurations"), config(pair, configs),
    el("h2", {}, "Results and costs"), results(pair),
    el("h2", {}, "Maps"), maps(folders),
    el("h2", {}, "Samples"), el("div", { class: "two" }, ...samples.map(table)),
  ]);
}

/** The two that the address names, or the first two selected of different groups. */
function pairOf(list) {
  const named = (key) => list.find((run) => run.key === key);
  const first = named(state.a) ?? list.find((run) => run.key !== state.b);
  const others = list.filter((run) => run !== first);
  return [first, named(state.b) ?? others.find((run) => groupOf(run) !== groupOf(first)) ?? others[0]].filter(Boolean);
}

function controls(list, pair) {
  const names = list.map((run) => [run.key, `${labelOf(run)}`]);
  const pick = (which, run) => labelled(which === "a" ? "left" : "right", select(names, run.key, (value) => change({ a: pair[0].key, b: pair[1].key, [which]: value }), { id: `beside-${which}` }));
  return el("div", { class: "controls" }, pick("a", pair[0]), pick("b", pair[1]),
    choices([["", "differences"], ["1", "every field"]], state.every, (value) => change({ every: value }), "fields of the configuration"));
}

function heads(pair) {
  return el("thead", {}, el("tr", {}, el("th", {}, ""), ...pair.map((run) => {
    const swatch = el("i");
    swatch.style.background = styleOf(groupOf(run))?.colour ?? "";
    return el("th", { title: run.key }, swatch, labelOf(run));
  })));
}

function results(pair) {
  const columns = columnsOf(pair).filter((column) => !NAMES.includes(column.name));
  return el("div", { class: "scroll" }, el("table", { class: "results beside" }, heads(pair), el("tbody", {}, ...columns.map((column) => {
    const [left, right] = pair.map((run) => textOf(column, run));
    return el("tr", { class: left === right ? "same" : "differs" }, el("th", { scope: "row" }, ...breakable(words(column.name))), el("td", {}, left), el("td", {}, right));
  }))));
}

function config(pair, configs) {
  const names = [...new Set(configs.flatMap(Object.keys))].sort();
  const differing = names.filter((name) => configs[0][name] !== configs[1][name]), shown = state.every ? names : differing;
  return el("div", {},
    el("p", { class: "note" }, differing.length ? `${differing.length} of ${names.length} fields differ.` : `All ${names.length} fields are the same.`),
    shown.length ? el("div", { class: "scroll", tabindex: "0" }, el("table", { class: "diff beside" }, heads(pair), el("tbody", {}, ...shown.map((name) => {
      const isSame = configs[0][name] === configs[1][name];
      return el("tr", { class: isSame ? "same" : "differs" }, el("th", { scope: "row" }, ...breakable(name)), ...configs.map((own) => el("td", { class: isSame ? "usual" : null }, ...breakable(own[name] ?? "–"))));
    })))) : "");
}

/** The last map of each name, in rows of two. */
function maps(folders) {
  const last = folders.map(({ pictures }) => new Map(Object.entries(pictures).sort(([one], [other]) => one.localeCompare(other, "en", { numeric: true })).flatMap(([step, names]) => names.map((name) => [name, step]))));
  const names = [...new Set(last.flatMap((own) => [...own.keys()]))].sort((one, other) => one.localeCompare(other, "en", { numeric: true }));
  if (!names.length) return el("p", { class: "note" }, "Neither run holds pictures.");
  const layers = Object.assign({}, ...folders.map((one) => one.words));
  return el("div", { class: "two" }, ...names.flatMap((name) => folders.map(({ run }, side) => {
    const step = last[side].get(name), layer = layers[name];
    const caption = el("figcaption", {}, el("b", {}, labelOf(run)), el("span", {}, step ? `${layer}, ${stepName(step)}` : `no map of ${layer}`));
    if (!step) return el("figure", {}, caption);
    const address = `/picture?${new URLSearchParams({ run: run.key, step, name })}`;
    return el("figure", {}, caption, el("a", { href: address, target: "_blank" }, picture(address, `${layer} of ${run.name}`, isMap(name), { loading: "lazy" })));
  })));
}

async function lastTable({ run, tables }) {
  const [step, names] = Object.entries(tables).sort(([one], [other]) => one.localeCompare(other, "en", { numeric: true })).at(-1) ?? [];
  const name = names?.find((one) => /sample/.test(one)) ?? names?.[0];
  const content = name ? await get("/api/table", { run: run.key, step, name }, null) : null;
  return { label: labelOf(run), step, content };
}

function table({ label, step, content }) {
  const heading = el("h3", {}, label, el("small", {}, step ? `${stepName(step)}` : "no samples"));
  if (!content) return el("div", { class: "sample" }, heading);
  return el("div", { class: "sample" }, heading, el("div", { class: "scroll", tabindex: "0" }, el("table", {},
    el("thead", {}, el("tr", {}, ...content.columns.map((column) => el("th", {}, words(column))))),
    el("tbody", {}, ...content.rows.slice(0, ROWS).map((row) => el("tr", {}, ...row.map(textCell)))))));
}
