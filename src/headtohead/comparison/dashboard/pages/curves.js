// The curves of the selected runs, overlaid, growing while runs train.

import { faint, styleOf, token } from "./colours.js";
import { choices, el, labelled, select } from "./dom.js";
import { literal, words } from "./format.js";
import { smoothed, thinned, together } from "./lines.js";
import { grouped, groupOf, labelOf } from "./selection.js";
import { bring, series } from "./series.js";
import { change, state } from "./state.js";

const AXES = { step: "steps", tokens: "tokens", flops: "training FLOPs", seconds: "seconds of training" };
const SHOWN = [["both", "runs and mean"], ["runs", "runs"], ["mean", "mean and range"]];
const BUTTONS = [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "autoScale2d", "toImage"]]; // none that leads to another place
const MOST_POINTS = 60000;
const FEW_POINTS = 40;

let parts = null;
let drawing = null;

/** Five megabytes that only curves need: the list is there before them. */
function plotly() {
  drawing ??= new Promise((onload, onerror) => { document.head.append(el("script", { src: "/plotly.js", onload, onerror })); });
  return drawing;
}

export async function show(panel, list) {
  if (!parts || !panel.contains(parts.plot)) build(panel);
  const names = metricsOf(list), metric = metricOf(list, names);
  controls(names, metric);
  const keys = list.map((run) => run.key);
  await Promise.all([bring(metric, keys), plotly()]);
  if (panel.drawnContent === "curves") draw(list, metric);
}

function build(panel) {
  parts = { bar: el("div", { class: "controls" }), legend: el("div", { class: "legend" }), plot: el("div", { id: "plot" }), note: el("p", { class: "note" }), drawnControls: "" };
  panel.drawnContent = "curves";
  panel.replaceChildren(parts.bar, parts.legend, parts.plot, parts.note);
}

function metricsOf(list) {
  return [...new Set(list.flatMap((run) => Object.keys(run.latest)))].sort();
}

function metricOf(list, names) {
  if (names.includes(state.metric)) return state.metric;
  const validation = `validation/${list[0]?.selected_by}`;
  const preferred = list.some((run) => run.status === "running") ? ["train/loss", validation] : [validation, "train/loss"];
  return preferred.find((name) => names.includes(name)) ?? names[0] ?? "";
}

/** Built again only when what they offer changed: a control that one holds must not vanish. */
function controls(names, metric) {
  const content = JSON.stringify([names, metric, state.x, state.logx, state.logy, state.show]);
  if (content === parts.drawnControls) return;
  parts.drawnControls = content;
  const log = (axis) => el("button", {
    type: "button", "aria-pressed": String(state[`log${axis}`] === "1"), title: `logarithmic ${axis} axis`,
    onclick: () => change({ [`log${axis}`]: state[`log${axis}`] === "1" ? "" : "1" }),
  }, `log ${axis}`);
  const smooth = el("input", { type: "range", min: 0, max: 0.99, step: 0.01, value: state.smooth, oninput: () => change({ smooth: smooth.value }) });
  parts.bar.replaceChildren(
    labelled("metric", select(names, metric, (value) => change({ metric: value }), { id: "metric" })),
    labelled("over", select(Object.entries(AXES), state.x, (value) => change({ x: value }), { id: "axis" })),
    el("div", { class: "choices" }, log("x"), log("y")),
    labelled("smoothing", smooth),
    choices(SHOWN, state.show, (value) => change({ show: value }), "what is drawn of each group"),
  );
}

function draw(list, metric) {
  const traces = [], weight = Number(state.smooth), most = Math.max(200, MOST_POINTS / Math.max(1, list.length));
  let several = false;
  for (const [, members] of state.group ? grouped(list) : list.map((run) => ["", [run]])) {
    const curves = members.map((run) => curveOf(run, metric, weight)).filter((curve) => curve.x.length);
    const mean = state.show === "runs" ? { x: [] } : together(curves);
    several ||= mean.x.length > 0;
    const lonely = mean.x.length === 0;
    if (state.show !== "mean" || lonely) traces.push(...curves.map((curve) => single(curve, most, lonely ? 1 : Math.max(0.12, 0.5 - 0.01 * curves.length))));
    if (!lonely) traces.push(...ofGroup(members, mean, most));
  }
  legend(list);
  const missing = list.length - list.filter((run) => series(metric, run.key)?.step.length).length;
  parts.note.textContent = [
    several ? "Bold: mean of a group as far as all its runs have come; the band reaches from its lowest to its highest run." : "",
    missing && list.length ? `${missing} of ${list.length} runs have no ${metric || "numbers"} yet.` : "",
  ].filter(Boolean).join(" ");
  Plotly.react(parts.plot, traces, layout(metric, weight), { responsive: true, displaylogo: false, modeBarButtons: BUTTONS });
}

function curveOf(run, metric, weight) {
  const had = series(metric, run.key) ?? { step: [], value: [] };
  return { run, x: (had[state.x] ?? had.step).slice(), y: smoothed(had.value, weight) };
}

const hover = (text) => `${literal(text)}<br>${AXES[state.x] ?? "steps"} %{x}<br>%{y:.5g}<extra></extra>`;

function single(curve, most, opacity) {
  const { colour, dash } = styleOf(groupOf(curve.run)) ?? { colour: token("--ink"), dash: "solid" };
  const few = curve.x.length <= FEW_POINTS;
  return {
    type: "scatter", mode: few ? "lines+markers" : "lines", ...thinned(curve.x, curve.y, most), opacity,
    line: { color: colour, dash, width: opacity === 1 ? 1.8 : 1 }, marker: { size: curve.x.length === 1 ? 7 : 4, color: colour },
    hovertemplate: hover(`${labelOf(curve.run)} (${words(curve.run.status)})`), name: literal(labelOf(curve.run)),
  };
}

function ofGroup(members, mean, most) {
  const { colour, dash } = styleOf(groupOf(members[0])) ?? { colour: token("--ink"), dash: "solid" };
  const quiet = { type: "scatter", mode: "lines", line: { width: 0, color: colour }, hoverinfo: "skip" };
  const [low, high] = [thinned(mean.x, mean.low, most), thinned(mean.x, mean.high, most)];
  return [
    { ...quiet, ...low },
    { ...quiet, ...high, fill: "tonexty", fillcolor: faint(colour, 0.16) },
    { type: "scatter", mode: "lines", ...thinned(mean.x, mean.mean, most), line: { color: colour, dash, width: 2.6 }, hovertemplate: hover(`mean of ${groupOf(members[0])}, ${members.length} runs`), name: literal(groupOf(members[0])) },
  ];
}

function legend(list) {
  const groups = state.group ? grouped(list) : list.map((run) => [labelOf(run), [run]]);
  parts.legend.replaceChildren(...groups.slice(0, 30).map(([label, members]) => {
    const swatch = el("i");
    swatch.style.background = styleOf(groupOf(members[0]))?.colour ?? "";
    return el("span", {}, swatch, label, state.group && members.length > 1 ? el("small", {}, ` ×${members.length}`) : null);
  }), ...(groups.length > 30 ? [el("span", { class: "note" }, `and ${groups.length - 30} more`)] : []));
}

function layout(metric, weight) {
  const [ink, muted, line] = [token("--ink"), token("--muted"), token("--line")];
  const axis = (title, log) => ({ title: { text: literal(title), font: { color: muted, size: 12 }, standoff: 8 }, type: log ? "log" : "linear", gridcolor: line, zerolinecolor: line, linecolor: line, tickfont: { color: muted }, automargin: true });
  return {
    modebar: { bgcolor: "rgba(0,0,0,0)", color: muted, activecolor: ink },
    uirevision: [metric, state.x, state.logx, state.logy].join(), showlegend: false, hovermode: "closest",
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: ink, family: "system-ui, sans-serif", size: 12 },
    margin: { l: 56, r: 12, t: 8, b: 44 }, hoverlabel: { align: "left", bgcolor: token("--panel"), bordercolor: line, font: { color: ink } },
    xaxis: axis(AXES[state.x] ?? "steps", state.logx === "1"),
    yaxis: axis(weight > 0 ? `${metric}, smoothed by ${weight}` : metric, state.logy === "1"),
  };
}
