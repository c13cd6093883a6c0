// A grid of charts over the selected runs: one for each metric and task, growing while runs train.

import { styleOf } from "./colours.js";
import { usual, cardsOf } from "./charts.js";
import { choices, el, labelled, select, shortened } from "./dom.js";
import { csvOf, save, svgOf } from "./download.js";
import { words } from "./format.js";
import { everyNth, smoothed, thinned, together } from "./lines.js";
import { plot } from "./plot.js";
import { grouped, groupOf, labelOf } from "./selection.js";
import { bring, series } from "./series.js";
import { change, joined, listed, state } from "./state.js";

const AXES = { step: "steps", tokens: "tokens", flops: "training FLOPs", seconds: "seconds of training" };
const SHOWN = [["both", "runs and mean"], ["mean", "mean"], ["runs", "runs"]];
const COUNTED = ["running", "finished"];
const MOST_POINTS = 60000;
const MOST_OF_A_LINE = 800;

let parts = null;

export async function show(panel, list, isWanted) {
  if (!parts || !panel.contains(parts.grid)) build(panel);
  const names = [...new Set(list.flatMap((run) => Object.keys(run.latest)))].sort();
  const chosen = listed(state.charts).length ? listed(state.charts) : usual(list, names);
  const cards = cardsOf(list, chosen);
  controls(names, chosen);
  legend(list);
  lay(cards, chosen);
  const byMetric = Map.groupBy(cards, (card) => card.metric);
  await Promise.all([...byMetric].map(async ([metric, own]) => {
    await bring(metric, list.map((run) => run.key));
    if (isWanted() && panel.drawnContent === "curves") for (const card of own) draw(card, cards.length);
  }));
}

function build(panel) {
  parts = { bar: el("div", { class: "controls" }), legend: el("div", { class: "legend" }), grid: el("div", { class: "charts" }), note: el("p", { class: "note" }), cards: new Map(), drawnControls: "" };
  panel.drawnContent = "curves";
  panel.replaceChildren(parts.bar, parts.legend, parts.grid, parts.note);
}

/** Built again only when what they offer changed: a control that one holds must not vanish. */
function controls(names, chosen) {
  const isZoomed = state.from !== "";
  const content = JSON.stringify([names, chosen, state.x, state.logx, state.logy, state.show, isZoomed]);
  if (content === parts.drawnControls) return;
  parts.drawnControls = content;
  const log = (axis) => el("button", {
    type: "button", "aria-pressed": String(state[`log${axis}`] === "1"), title: `logarithmic ${axis} axis`,
    onclick: () => change({ [`log${axis}`]: state[`log${axis}`] === "1" ? "" : "1" }),
  }, `log ${axis}`);
  const weight = el("output", {}, state.smooth);
  const smooth = el("input", { type: "range", min: 0, max: 0.99, step: 0.01, value: state.smooth, "aria-label": "smoothing", oninput: () => { weight.textContent = smooth.value; change({ smooth: smooth.value }); } });
  const others = names.filter((name) => !chosen.includes(name));
  parts.bar.replaceChildren(
    labelled("add a chart", select([["", `${others.length} more metrics`], ...others], "", (value) => value && change({ charts: joined([...chosen, value]) }), { id: "add-chart" })),
    labelled("over", select(Object.entries(AXES), state.x, (value) => change({ x: value, from: "", to: "" }), { id: "axis" })),
    el("div", { class: "choices" }, log("x"), log("y")),
    el("label", { class: "control" }, el("span", {}, "smoothing ", weight), smooth),
    choices(SHOWN, state.show, (value) => change({ show: value }), "what is drawn of each group"),
    isZoomed ? el("button", { type: "button", id: "whole", onclick: () => change({ from: "", to: "" }) }, "all steps again") : "",
    state.charts ? el("button", { type: "button", onclick: () => change({ charts: "", large: "" }) }, "usual charts") : "",
  );
}

/** A place for every chart before its numbers have come. */
function lay(cards, chosen) {
  const ids = new Set(cards.map((card) => card.id));
  for (const [id, card] of parts.cards) if (!ids.has(id)) { card.node.remove(); parts.cards.delete(id); }
  for (const card of cards) {
    if (!parts.cards.has(card.id)) parts.cards.set(card.id, frame(card));
    const { node, close } = parts.cards.get(card.id);
    close.onclick = () => change({ charts: joined(chosen.filter((name) => name !== card.metric)) });
    close.disabled = chosen.length < 2;
    node.classList.toggle("large", state.large === card.id);
  }
  const nodes = cards.map((card) => parts.cards.get(card.id).node);
  if (nodes.some((node, index) => parts.grid.children[index] !== node)) parts.grid.replaceChildren(...nodes);
}

function frame(card) {
  const figure = el("div", { class: "figure loading" }, el("p", { class: "nothing" }, "Reading the numbers…"));
  const close = el("button", { type: "button", title: "remove this chart", "aria-label": `remove ${card.title}` }, "×");
  const file = card.id.replace(/[^\w.-]+/g, "_");
  const node = el("section", { class: "chart", "data-metric": card.metric, "data-task": card.task },
    el("header", {}, el("h2", {}, card.metric, card.several ? el("small", {}, card.task) : null),
      el("button", { type: "button", title: "larger, or small again", "aria-label": `${card.title}, larger`, onclick: () => change({ large: state.large === card.id ? "" : card.id }) }, "⤢"),
      el("button", { type: "button", title: "the chart as SVG", "aria-label": `${card.title} as SVG`, onclick: () => { const drawn = figure.querySelector("svg"); if (drawn) save(`${file}.svg`, svgOf(drawn, card.title, groupsOf(parts.cards.get(card.id).card.runs)), "image/svg+xml"); } }, "SVG"),
      el("button", { type: "button", title: "the numbers as CSV", "aria-label": `the numbers of ${card.title} as CSV`, onclick: () => save(`${file}.csv`, csvOf(rowsOf(parts.cards.get(card.id).card)), "text/csv") }, "CSV"),
      close),
    figure);
  const drawn = plot(figure, { onRange: (range) => change(range ? { from: String(range[0]), to: String(range[1]) } : { from: "", to: "" }) });
  return { node, close, figure, drawn, card };
}

/** Every logged number of a chart, without smoothing. */
function rowsOf({ metric, runs }) {
  return [["run", "arm", "seed", "task", "step", "tokens", "flops", "seconds", metric], ...runs.flatMap((run) => {
    const had = series(metric, run.key) ?? { step: [] };
    return had.step.map((step, at) => [run.key, run.arm, run.seed, run.task, step, had.tokens[at], had.flops[at], had.seconds[at], had.value[at]]);
  })];
}

function draw(card, count) {
  const own = parts.cards.get(card.id);
  if (!own) return;
  own.card = card;
  const lines = linesOf(card, count);
  own.figure.classList.remove("loading");
  own.figure.series = lines;
  own.drawn.show({
    lines, xlog: state.logx === "1", ylog: state.logy === "1", name: card.title,
    across: AXES[state.x] ?? "steps", range: state.from === "" ? null : [Number(state.from), Number(state.to)],
  });
}

function linesOf({ metric, runs }, count) {
  const weight = Number(state.smooth), most = Math.min(MOST_OF_A_LINE, Math.max(100, MOST_POINTS / count / Math.max(1, runs.length)));
  const curves = [], means = [];
  for (const [, members] of state.group ? grouped(runs) : runs.map((run) => ["", [run]])) {
    const own = members.map((run) => curveOf(run, metric, weight)).filter((curve) => curve.x.length);
    const counted = own.filter((curve) => COUNTED.includes(curve.run.status)); // a run that broke off would end the mean
    const mean = state.show === "runs" ? { x: [] } : together(counted), lonely = mean.x.length === 0;
    const look = styleOf(groupOf(members[0])) ?? { colour: "var(--ink)", dash: "solid" };
    if (state.show !== "mean" || lonely) {
      curves.push(...own.map((curve) => ({ ...look, ...thinned(curve.x, curve.y, most), label: `${labelOf(curve.run)} (${words(curve.run.status)})`, width: lonely ? 1.8 : 1, opacity: lonely ? 1 : Math.max(0.15, 0.45 - 0.01 * own.length) })));
    }
    if (!lonely) means.push({ ...look, ...everyNth(mean, most), label: `${groupOf(members[0])}, mean of ${counted.length}`, width: 2.6, opacity: 1 });
  }
  return [...curves, ...means];
}

function curveOf(run, metric, weight) {
  const had = series(metric, run.key) ?? { step: [], value: [] };
  return { run, x: (had[state.x] ?? had.step).slice(), y: smoothed(had.value, weight) };
}

const named = (list) => (state.group ? grouped(list) : list.map((run) => [labelOf(run), [run]]));

/** What a legend names: each group with its look. */
function groupsOf(list) {
  return named(list).map(([label, members]) => ({ label: String(label), ...(styleOf(groupOf(members[0])) ?? { colour: "var(--ink)", dash: "solid" }) }));
}

function legend(list) {
  const groups = named(list);
  const several = groups.some(([, members]) => members.length > 1) && state.show !== "runs" && state.group;
  parts.legend.replaceChildren(...groups.slice(0, 30).map(([label, members]) => {
    const swatch = el("i");
    swatch.style.background = styleOf(groupOf(members[0]))?.colour ?? "";
    return el("span", {}, swatch, shortened(label), state.group && members.length > 1 ? el("small", {}, `×${members.length}`) : null);
  }), ...(groups.length > 30 ? [el("span", { class: "note" }, `and ${groups.length - 30} more`)] : []));
  parts.note.textContent = [
    several ? "Bold: mean of the runs of a group that finished or still train, as far as all of them have come; the band is its 95 % t interval." : "",
    Number(state.smooth) > 0 ? `Smoothed by ${state.smooth}; files hold the numbers as logged.` : "",
    "Drag over a stretch of any chart to see it in all; double-click for all steps.",
  ].filter(Boolean).join(" ");
}
