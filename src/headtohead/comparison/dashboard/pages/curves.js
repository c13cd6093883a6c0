// A grid of charts over the selected runs: one for each metric and task, growing while runs train.

import { styleOf } from "./colours.js";
import { usual, cardsOf } from "./charts.js";
import { choices, el, labelled, refill, select, shortened } from "./dom.js";
import { csvOf, save, svgOf } from "./download.js";
import { words } from "./format.js";
import { smoothed, together } from "./lines.js";
import { plot } from "./plot.js";
import { grouped, groupOf, labelOf } from "./selection.js";
import { bring, everyNumber, series } from "./series.js";
import { change, joined, listed, state } from "./state.js";

const AXES = { step: "steps", tokens: "tokens", flops: "training FLOPs", seconds: "seconds of training" };
const SHOWN = [["both", "runs and mean"], ["mean", "mean"], ["runs", "runs"]];
const COUNTED = ["running", "finished"];
/** Points of a line, by how many lines there are: twice as many as pixels of a chart for few, fewer for hundreds. */
const POINTS = [[75, 400], [150, 200], [Infinity, 100]];
/** Pixels beyond the window within which a chart is read and drawn. */
const AHEAD = 600;
const MOST_NAMES = 30;
/** Milliseconds between two drawings of a chart whose lines still come. */
const REST = 1000;

let parts = null;

export async function show(panel, list, isWanted) {
  if (!parts || !panel.contains(parts.grid)) build(panel);
  const names = [...new Set(list.flatMap((run) => Object.keys(run.latest)))].sort();
  const chosen = listed(state.charts).length ? listed(state.charts) : usual(list, names);
  const hidden = new Set(listed(state.hidden)), seen = list.filter((run) => !hidden.has(String(groupOf(run))));
  const cards = cardsOf(list, chosen).map((card) => ({ ...card, runs: card.runs.filter((run) => seen.includes(run)) }));
  controls(names, chosen);
  legend(list, hidden);
  lay(cards, chosen);
  const near = cards.filter((card) => isNear(parts.cards.get(card.id).node));
  for (const card of cards) parts.cards.get(card.id).isWaiting = !near.includes(card);
  const [, most] = POINTS.find(([number]) => seen.length <= number), keys = seen.map((run) => run.key);
  const within = state.from === "" ? null : [state.x, state.from, state.to];
  let drawn = 0;
  const drawAll = async () => {
    for (const card of near) {
      await pause(); // a chart of hundreds of lines takes a while: what is pressed meanwhile is heard
      if (!isWanted() || panel.drawnContent !== "curves") return false;
      draw(card);
    }
    drawn = performance.now();
    return true;
  };
  await bring([...new Set(near.map((card) => card.metric))], keys, { most, within, onPiece: () => isWanted() && (performance.now() - drawn < REST || drawAll()) });
  await drawAll();
}

const pause = () => new Promise((done) => { setTimeout(done); });

function isNear(node) {
  const { top, bottom } = node.getBoundingClientRect();
  return top < innerHeight + AHEAD && bottom > -AHEAD;
}

/** A chart that was left out is drawn when it comes near. */
const observer = new IntersectionObserver((entries) => {
  if (entries.some(({ isIntersecting, target }) => isIntersecting && [...parts.cards.values()].some((own) => own.node === target && own.isWaiting))) change({});
}, { rootMargin: `${AHEAD / 2}px` });

function build(panel) {
  parts = { bar: el("div", { class: "controls" }), legend: el("div", { class: "legend" }), grid: el("div", { class: "charts" }), note: el("p", { class: "note" }), cards: new Map(), drawnControls: "", lit: null };
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
    labelled("add charts", adder(others, chosen)),
    labelled("over", select(Object.entries(AXES), state.x, (value) => change({ x: value, from: "", to: "" }), { id: "axis" })),
    el("div", { class: "choices" }, log("x"), log("y")),
    el("label", { class: "control" }, el("span", {}, "smoothing ", weight), smooth),
    choices(SHOWN, state.show, (value) => change({ show: value }), "what is drawn of each group"),
    isZoomed ? el("button", { type: "button", id: "whole", onclick: () => change({ from: "", to: "" }) }, "all steps again") : "",
    state.charts ? el("button", { type: "button", onclick: () => change({ charts: "", large: "" }) }, "usual charts") : "",
  );
}

/** A metric by its name, or those that a regular expression matches. */
function adder(others, chosen) {
  const add = (text) => {
    const named = others.filter((name) => name === text), found = named.length ? named : matching(others, text);
    if (found.length) change({ charts: joined([...chosen, ...found]) });
    else if (text) { input.setCustomValidity("no other metric matches"); input.reportValidity(); }
  };
  const input = el("input", { id: "add-chart", list: "more-metrics", placeholder: `${others.length} more, or grad.*`, title: "the name of a metric, or a regular expression: all that match are added", autocomplete: "off", spellcheck: "false", oninput: () => input.setCustomValidity(""), onchange: () => add(input.value.trim()) });
  return el("span", {}, input, el("datalist", { id: "more-metrics" }, ...others.map((name) => el("option", { value: name }))));
}

/** What the expression matches; of one that is none, what holds it as a text. */
export function matching(names, text) {
  if (!text) return [];
  let holds;
  try { const pattern = new RegExp(text, "i"); holds = (name) => pattern.test(name); } catch { holds = (name) => name.includes(text); }
  return names.filter(holds);
}

/** A place for every chart before its numbers have come. */
function lay(cards, chosen) {
  const ids = new Set(cards.map((card) => card.id));
  for (const [id, card] of parts.cards) if (!ids.has(id)) { observer.unobserve(card.node); card.node.remove(); parts.cards.delete(id); }
  for (const card of cards) {
    if (!parts.cards.has(card.id)) {
      parts.cards.set(card.id, frame(card));
      observer.observe(parts.cards.get(card.id).node);
    }
    const { node, close } = parts.cards.get(card.id);
    close.onclick = () => change({ charts: joined(chosen.filter((name) => name !== card.metric)) });
    close.disabled = chosen.length < 2;
    node.classList.toggle("large", state.large === card.id);
  }
  const nodes = cards.map((card) => parts.cards.get(card.id).node);
  if (nodes.some((node, index) => parts.grid.children[index] !== node)) parts.grid.replaceChildren(...nodes);
}

function frame(card) {
  const figure = el("div", { class: "figure loading", tabindex: "0", role: "group", "aria-label": `${card.title}, a chart: arrows read it` }, el("p", { class: "nothing" }, "Reading the numbers…"));
  const close = el("button", { type: "button", title: "remove this chart", "aria-label": `remove ${card.title}` }, "×");
  const file = card.id.replace(/[^\w.-]+/g, "_");
  const node = el("section", { class: "chart", "data-metric": card.metric, "data-task": card.task },
    el("header", {}, el("h2", {}, card.metric, card.several ? el("small", {}, card.task) : null),
      el("button", { type: "button", title: "larger, or small again", "aria-label": `${card.title}, larger`, onclick: () => change({ large: state.large === card.id ? "" : card.id }) }, "⤢"),
      el("button", { type: "button", title: "the chart as SVG", "aria-label": `${card.title} as SVG`, onclick: () => { const drawn = figure.querySelector("svg"); if (drawn) save(`${file}.svg`, svgOf(drawn, card.title, groupsOf(parts.cards.get(card.id).card.runs)), "image/svg+xml"); } }, "SVG"),
      el("button", { type: "button", title: "the numbers as CSV", "aria-label": `the numbers of ${card.title} as CSV`, onclick: async () => save(`${file}.csv`, csvOf(await rowsOf(parts.cards.get(card.id).card)), "text/csv") }, "CSV"),
      close),
    figure);
  const drawn = plot(figure, {
    onRange: (range) => change(range ? { from: String(range[0]), to: String(range[1]) } : { from: "", to: "" }),
    onRead: (spot) => { for (const other of parts.cards.values()) if (other.drawn !== drawn) other.drawn.readAt(spot); },
  });
  drawn.light(parts.lit);
  return { node, close, figure, drawn, card };
}

/** Every logged number of a chart, without smoothing. */
async function rowsOf({ metric, runs }) {
  const all = await everyNumber(metric, runs.map((run) => run.key));
  return [["run", "arm", "seed", "task", "step", "tokens", "flops", "seconds", metric], ...runs.flatMap((run) => {
    const had = all[run.key] ?? { step: [] };
    return had.step.map((step, at) => [run.key, run.arm, run.seed, run.task, step, had.tokens[at], had.flops[at], had.seconds[at], had.value[at]]);
  })];
}

function draw(card) {
  const own = parts.cards.get(card.id);
  if (!own) return;
  own.card = card;
  const lines = linesOf(card);
  own.figure.classList.remove("loading");
  own.figure.series = lines;
  own.drawn.show({
    lines, xlog: state.logx === "1", ylog: state.logy === "1", name: card.title, up: unitOf(card),
    across: AXES[state.x] ?? "steps", range: state.from === "" ? null : [Number(state.from), Number(state.to)],
  });
}

/** What the numbers of a chart are counted in, where its runs agree. */
function unitOf({ metric, runs }) {
  const units = [...new Set(runs.filter((run) => metric in run.latest).map((run) => run.units[metric] ?? ""))];
  return units.length === 1 ? units[0] : "";
}

function linesOf({ metric, runs }) {
  const weight = Number(state.smooth);
  const curves = [], means = [];
  for (const [, members] of state.group ? grouped(runs) : runs.map((run) => ["", [run]])) {
    const own = members.map((run) => curveOf(run, metric, weight)).filter((curve) => curve.x.length);
    const counted = own.filter((curve) => COUNTED.includes(curve.run.status)); // a run that broke off would end the mean
    const mean = state.show === "runs" ? { x: [] } : together(counted), lonely = mean.x.length === 0;
    const group = String(groupOf(members[0])), look = { group, ...(styleOf(groupOf(members[0])) ?? { colour: "var(--ink)", dash: "solid" }) };
    if (state.show !== "mean" || lonely) {
      curves.push(...own.map((curve) => ({ ...look, x: curve.x, y: curve.y, spread: curve.spread, label: `${labelOf(curve.run)} (${words(curve.run.status)})`, width: lonely ? 1.8 : 1, opacity: lonely ? 1 : Math.max(0.15, 0.45 - 0.01 * own.length) })));
    }
    if (!lonely) means.push({ ...look, x: mean.x, y: mean.mean, low: mean.low, high: mean.high, label: `${groupOf(members[0])}, mean of ${counted.length}`, width: 2.6, opacity: 1 });
  }
  return [...curves, ...means];
}

function curveOf(run, metric, weight) {
  const had = series(metric, run.key) ?? { step: [], value: [], count: [] };
  return { run, x: (had[state.x] ?? had.step).slice(), y: smoothed(had.value, weight, had.count), spread: had.isThinned && weight === 0 && had.most === POINTS[0][1] ? { low: had.low.slice(), high: had.high.slice() } : null };
}

const named = (list) => (state.group ? grouped(list) : list.map((run) => [labelOf(run), [run]]));

/** What a legend names: each group with its look. */
function groupsOf(list) {
  return named(list).map(([label, members]) => ({ label: String(label), ...(styleOf(groupOf(members[0])) ?? { colour: "var(--ink)", dash: "solid" }) }));
}

/** The lines of one group stand out in every chart; of null, all do. */
function light(group) {
  parts.lit = group;
  for (const { drawn } of parts.cards.values()) drawn.light(group);
}

/** A name in the legend hides its lines and shows them again; with Shift it hides all others. The lines of the name that
 * the pointer or the keyboard is at stand out. */
function legend(list, hidden) {
  const groups = named(list), labels = groups.map(([, members]) => String(groupOf(members[0])));
  const several = groups.some(([, members]) => members.length > 1) && state.show !== "runs" && state.group;
  const press = (label, isAlone) => {
    const others = labels.filter((other) => other !== label), only = others.every((other) => hidden.has(other)) && !hidden.has(label);
    const now = isAlone ? (only ? [] : others) : hidden.has(label) ? labels.filter((other) => other !== label && hidden.has(other)) : [...labels.filter((other) => hidden.has(other)), label];
    change({ hidden: joined(now) });
  };
  refill(parts.legend, [groups.map(([label, members]) => [label, members.length, styleOf(groupOf(members[0]))]), [...hidden]], () => [
    ...groups.slice(0, MOST_NAMES).map(([label, members], index) => {
      const swatch = el("i"), own = labels[index];
      swatch.style.background = styleOf(groupOf(members[0]))?.colour ?? "";
      const point = () => light(hidden.has(own) ? null : own), leave = () => light(null);
      return el("button", { type: "button", "aria-pressed": String(!hidden.has(own)), title: `${label}: click to hide or show, Shift to see it alone`, onclick: (event) => press(own, event.shiftKey), onpointerenter: point, onpointerleave: leave, onfocus: (event) => { if (event.target.matches(":focus-visible")) point(); }, onblur: leave },
        swatch, shortened(label), state.group && members.length > 1 ? el("small", {}, `×${members.length}`) : null);
    }),
    groups.length > MOST_NAMES ? el("span", { class: "note" }, `and ${groups.length - MOST_NAMES} more`) : "",
    hidden.size ? el("button", { type: "button", onclick: () => change({ hidden: "" }) }, "show all") : "",
  ]);
  parts.note.textContent = [
    several ? "Bold: mean of the runs of a group that finished or still train, as far as all of them have come; the band is its 95 % t interval; means that coincide are drawn by turns." : "",
    Number(state.smooth) > 0 ? `Smoothed by ${state.smooth}; files hold the numbers as logged.` : "Of long curves each point is a mean, with its lowest and highest number; a stretch that is dragged over shows more, and files hold every number.",
    "Drag over a stretch of any chart to see it in all; double-click for all steps. By keyboard: arrows read a chart, + and − zoom, 0 shows all.",
  ].filter(Boolean).join(" ");
}
