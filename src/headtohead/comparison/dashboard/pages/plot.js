// One chart as an SVG: lines with bands, axes, a reading under the pointer, a stretch to drag over.

import { el } from "./dom.js";
import { large, number } from "./format.js";
import { extent, padded, scale } from "./scales.js";

const SVG = "http://www.w3.org/2000/svg";
const EDGE = { left: 54, right: 10, top: 20, bottom: 34 };
export const DASHES = { dash: "7 4", dot: "2 3", dashdot: "7 3 2 3" };
const ROOM = 4; // of a point on the frame, on either side
const SHARE = 9; // pixels of a mean that others coincide with, until it is another's turn
const MOST_READ = 10;
/** Beside a number this much larger, an interval is what rounding leaves of equal values. */
const ROUNDED = 1e-12;

export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** The index of the point nearest to x. */
export function nearest(xs, x) {
  let [low, high] = [0, xs.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (xs[middle] < x) low = middle + 1; else high = middle;
  }
  return low > 0 && x - xs[low - 1] < xs[low] - x ? low - 1 : low;
}

/** M and L of the points that both axes can show; gaps stay gaps. */
export function pathOf(x, y, across, up) {
  let text = "", open = false;
  for (let index = 0; index < x.length; index += 1) {
    const [left, top] = y[index] === null ? [NaN, NaN] : [across(x[index]), up(y[index])];
    if (!Number.isFinite(left) || !Number.isFinite(top)) { open = false; continue; }
    text += `${open ? "L" : "M"}${left.toFixed(1)} ${top.toFixed(1)}`;
    open = true;
  }
  return text;
}

/** From the lowest to the highest number of each point that stands for several. */
export function zigzag({ x, spread: { low, high } }) {
  const ends = (index) => (low[index] === high[index] ? [low[index]] : [low[index], high[index]]);
  return [x.flatMap((value, index) => ends(index).map(() => value)), x.flatMap((_, index) => ends(index))];
}

/** The area between the lower and the upper end, stretch by stretch. */
export function areaOf({ x, low, high }, across, up) {
  let text = "", stretch = [];
  const close = () => {
    if (stretch.length > 1) {
      const point = (index, values) => `${across(x[index]).toFixed(1)} ${up(values[index]).toFixed(1)}`;
      text += `M${stretch.map((index) => point(index, high)).join("L")}L${stretch.reverse().map((index) => point(index, low)).join("L")}Z`;
    }
    stretch = [];
  };
  for (let index = 0; index < x.length; index += 1) {
    const known = [across(x[index]), low[index] === null ? NaN : up(low[index]), high[index] === null ? NaN : up(high[index])];
    if (known.every(Number.isFinite)) stretch.push(index); else close();
  }
  close();
  return text;
}

/** Draws `view`, {lines, xlog, ylog, across, up, name, range}, into a node, again whenever the node's width changes.
 * `onRead` hears where the chart is read, {x, label}, and null where it no longer is: other charts follow by `readAt`. */
export function plot(node, { onRange, onRead }) {
  let view = null, drawn = null, spot = null, lit = null;
  const tip = el("div", { class: "tip", hidden: true });
  const draw = () => {
    if (!view || !node.clientWidth) return;
    drawn = drawInto(node, tip, view);
    fade(node, lit);
    readAt(node, tip, drawn, spot);
  };
  const read = (next) => {
    spot = next;
    const closest = readAt(node, tip, drawn, spot);
    onRead(closest && { x: spot.x, label: closest.line.label });
  };
  new ResizeObserver(draw).observe(node);
  node.addEventListener("pointermove", (event) => { if (drawn) read(spotOf(node, drawn, event)); });
  node.addEventListener("pointerleave", () => read(null));
  node.addEventListener("pointerdown", (event) => drag(node, drawn, event, onRange));
  node.addEventListener("dblclick", () => onRange(null));
  node.addEventListener("keydown", (event) => { if (drawn && byKey(node, drawn, event, { read, onRange })) event.preventDefault(); });
  node.addEventListener("blur", () => read(null));
  return {
    show(next) { view = next; draw(); },
    readAt(next) { spot = next; readAt(node, tip, drawn, spot); },
    light(group) { lit = group; fade(node, lit); },
  };
}

/** The lines of one group stand out, in front of the others; of none, all do. */
function fade(node, lit) {
  const parts = [...node.querySelectorAll("[data-group]")];
  for (const part of parts) part.classList.toggle("faded", lit !== null && part.dataset.group !== lit);
  for (const part of parts) if (part.dataset.group === lit) part.parentNode.append(part);
}

/** Where the pointer is, {x, top}: a number on the axis and a pixel; null beside the frame. */
function spotOf(node, { across, box }, event) {
  const frame = node.getBoundingClientRect(), [left, top] = [event.clientX - frame.left, event.clientY - frame.top];
  return left < box.x || left > box.x + box.width ? null : { x: across.back(left), top };
}

/** Arrows read the chart as the pointer does, + and - zoom about what is read, 0 shows all; whether the key means anything. */
function byKey(node, drawn, { key, shiftKey }, { read, onRange }) {
  const { lines, across, box } = drawn, cursor = node.querySelector(".cursor");
  const isRead = cursor.getAttribute("visibility") === "visible", at = isRead ? Number(cursor.getAttribute("x1")) : box.x + box.width / 2;
  const places = { ArrowLeft: at - (shiftKey ? 40 : 4), ArrowRight: at + (shiftKey ? 40 : 4), Home: box.x, End: box.x + box.width };
  if (key in places) {
    const left = Math.min(Math.max(places[key], box.x), box.x + box.width), pixel = nearestOf(lines, across, at, left);
    read({ x: across.back(pixel), top: box.y });
  } else if (key === "+" || key === "-") {
    const half = (key === "+" ? 0.25 : 1) * box.width, ends = [at - half, at + half];
    if (key === "-" && ends.every((end, index) => (index ? end >= box.x + box.width : end <= box.x)) && !drawn.isPart) return true;
    onRange(ends.map((end) => across.back(key === "+" ? Math.min(Math.max(end, box.x), box.x + box.width) : end)));
  } else if (key === "0" || key === "Escape") onRange(null);
  else return false;
  return true;
}

/** The pixel of a point beyond `at` in the direction of `left`, or `left` where none lies between. */
function nearestOf(lines, across, at, left) {
  const pixels = lines.flatMap((line) => line.x.map(across.at)).filter((pixel) => (left > at ? pixel > at + 0.5 : pixel < at - 0.5));
  if (!pixels.length) return left;
  const next = left > at ? Math.min(...pixels.filter(Number.isFinite)) : Math.max(...pixels.filter(Number.isFinite));
  return left > at ? Math.max(left, next) : Math.min(left, next);
}

function drawInto(node, tip, view) {
  const { lines, xlog, ylog, range } = view, [width, height] = [node.clientWidth, node.clientHeight];
  const xs = extent(lines.map((line) => line.x), xlog);
  const span = range ?? (xs && (xs[0] === xs[1] ? padded(xs, xlog) : xs));
  const seen = span && lines.flatMap((line) => [line.y, line.low, line.high, line.spread?.low, line.spread?.high].filter(Boolean).map((values) => values.filter((_, index) => line.x[index] >= span[0] && line.x[index] <= span[1])));
  const ys = span && extent(seen, ylog);
  if (!ys) {
    node.replaceChildren(el("p", { class: "nothing" }, lines.length ? "Nothing to draw here: no number in this stretch, or none above zero on a logarithmic axis." : "No numbers yet."));
    return null;
  }
  const across = scale(span, [EDGE.left, width - EDGE.right], xlog, Math.max(2, width / 90));
  const up = scale(padded(ys, ylog), [height - EDGE.bottom, EDGE.top], ylog, Math.max(2, height / 45));
  const box = { x: EDGE.left, y: EDGE.top, width: width - EDGE.left - EDGE.right, height: height - EDGE.top - EDGE.bottom };
  const clip = `clip${Math.random().toString(36).slice(2)}`;
  const label = (attributes, text) => svg("text", { fill: "var(--muted)", "font-size": 11, ...attributes }, text);
  node.replaceChildren(svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": view.name, "font-family": "var(--sans)" },
    svg("clipPath", { id: clip }, svg("rect", { ...box, x: box.x - ROOM, width: box.width + 2 * ROOM })),
    ...up.ticks.flatMap((tick) => [
      svg("line", { x1: box.x, x2: box.x + box.width, y1: up.at(tick), y2: up.at(tick), stroke: "var(--grid)" }),
      label({ x: box.x - 6, y: up.at(tick) + 4, "text-anchor": "end" }, number(tick)),
    ]),
    ...across.ticks.map((tick) => label({ x: across.at(tick), y: height - EDGE.bottom + 15, "text-anchor": "middle" }, large(tick))),
    label({ x: box.x + box.width, y: height - 5, "text-anchor": "end" }, view.across),
    label({ x: 2, y: 11 }, view.up),
    svg("path", { d: `M${box.x} ${box.y}V${box.y + box.height}H${box.x + box.width}`, fill: "none", stroke: "var(--line)" }),
    svg("g", { "clip-path": `url(#${clip})` },
      ...bands(lines, across.at, up.at),
      ...lines.map((line) => curve(line, across.at, up.at)),
      ...shares(lines.filter((line) => line.low), across.at, up.at, box, clip)),
    svg("line", { class: "cursor", y1: box.y, y2: box.y + box.height, stroke: "var(--muted)", visibility: "hidden" }),
    svg("rect", { class: "stretch", y: box.y, height: box.height, fill: "var(--accent)", "fill-opacity": 0.15, visibility: "hidden" }),
  ), tip);
  return { lines, across, up, box, isPart: Boolean(range) };
}

/** The more intervals lie over each other, the lighter they are filled; where no runs are drawn, a rim tells them apart. */
function bands(lines, across, up) {
  const means = lines.filter((line) => line.low), rim = { "stroke-width": 1, "stroke-opacity": means.length === lines.length ? 0.4 : 0 };
  return means.map((line) => svg("path", { class: "interval", "data-group": line.group, d: areaOf(line, across, up), fill: line.colour, "fill-opacity": Math.min(0.16, 0.32 / means.length), stroke: line.colour, ...rim }));
}

/** Where means coincide, the last one would hide all others: each is drawn again where it is its turn, from left to right. */
function shares(means, across, up, box, clip) {
  if (means.length < 2) return [];
  const wide = Math.min(SHARE, box.width / means.length), end = box.x + box.width + ROOM;
  return means.map((line, index) => {
    let turns = "";
    for (let left = box.x + index * wide; left < end; left += wide * means.length) turns += `M${left} 0H${left + wide}V${box.y + box.height + ROOM}H${left}Z`;
    return svg("g", { "data-group": line.group },
      svg("clipPath", { id: `${clip}-${index}` }, svg("path", { d: turns })),
      svg("path", { class: "share", fill: "none", stroke: line.colour, "stroke-width": line.width, "stroke-dasharray": DASHES[line.dash] ?? "none", "clip-path": `url(#${clip}-${index})`, d: pathOf(line.x, line.y, across, up) }));
  });
}

function curve(line, across, up) {
  const [x, y] = line.spread ? zigzag(line) : [line.x, line.y], d = pathOf(x, y, across, up), dash = DASHES[line.dash];
  const shared = { class: "line", fill: "none", stroke: line.colour, "stroke-width": line.width, "stroke-opacity": line.opacity, "stroke-linejoin": "round", ...(dash ? { "stroke-dasharray": dash } : {}) };
  const points = line.x.length <= 40 ? d.replace(/[ML]([^ ]+) ([^ML]+)/g, (_, left, top) => `M${left} ${top}h0`) : "";
  return svg("g", { "data-group": line.group }, svg("path", { ...shared, d }), ...(points ? [svg("path", { ...shared, class: "points", d: points, "stroke-dasharray": "none", "stroke-width": line.width + 3, "stroke-linecap": "round" })] : []));
}

/** Shows what each line says at {x, top, label}, all of few, of many the nearest one, and returns the nearest; another
 * chart's reader has no `top`, and names the line instead. Nothing is shown where there is nothing to read. */
function readAt(node, tip, drawn, spot) {
  const values = drawn && spot ? valuesAt(drawn, spot) : [], cursor = node.querySelector(".cursor");
  tip.hidden = !values.length;
  if (!values.length) { cursor?.setAttribute("visibility", "hidden"); return null; }
  const closest = values.reduce((best, one) => (one.off < best.off ? one : best));
  const means = values.filter(({ line }) => line.low || values.length <= MOST_READ);
  const shown = means.length && means.length <= MOST_READ ? means.sort((one, other) => other.line.y[other.index] - one.line.y[one.index]) : [closest];
  const { across, box } = drawn, x = closest.line.x[closest.index], at = across.at(x);
  tip.replaceChildren(el("b", {}, `${large(x)}`), ...(shown.includes(closest) ? shown : [closest, ...shown]).map((one) => reading(one, one === closest)));
  for (const name of ["x1", "x2"]) cursor.setAttribute(name, at);
  cursor.setAttribute("visibility", "visible");
  const beside = at > node.clientWidth / 2 ? at - 14 - tip.offsetWidth : at + 14;
  tip.style.left = `${Math.max(0, Math.min(beside, node.clientWidth - tip.offsetWidth))}px`;
  tip.style.top = `${Math.max(0, Math.min((spot.top ?? box.y) - 10, node.clientHeight - tip.offsetHeight))}px`;
  return closest;
}

/** What each line has nearest to `x`, within the frame, and how far it is from where one reads. */
function valuesAt({ lines, across, up, box }, { x, top, label }) {
  const left = across.at(x), off = ({ line, index }) => (top === undefined ? Math.abs(across.at(line.x[index]) - left) + (line.label === label ? 0 : box.width) : Math.hypot(across.at(line.x[index]) - left, up.at(line.y[index]) - top));
  if (!(left >= box.x - ROOM && left <= box.x + box.width + ROOM)) return [];
  return lines.map((line) => ({ line, index: nearest(line.x, x) })).filter(({ line, index }) => (line.y[index] ?? null) !== null).map((one) => ({ ...one, off: off(one) }));
}

function reading({ line, index }, isClosest) {
  const swatch = el("i");
  swatch.style.background = line.colour;
  const half = line.low && line.high[index] !== null ? (line.high[index] - line.low[index]) / 2 : 0, value = line.y[index];
  const isMore = half > ROUNDED * Math.abs(value);
  return el("div", { class: isClosest ? "closest" : null }, swatch, el("span", {}, line.label), el("em", {}, `${number(value)}${isMore ? ` ± ${number(half)}` : ""}`));
}

/** From press to release: the stretch that all charts then show. */
function drag(node, drawn, event, onRange) {
  if (!drawn || event.button !== 0) return;
  const { box, across } = drawn, stretch = node.querySelector(".stretch");
  const place = (one) => Math.min(Math.max(one.clientX - node.getBoundingClientRect().left, box.x), box.x + box.width);
  const start = place(event);
  const move = (other) => {
    const now = place(other);
    stretch.setAttribute("x", Math.min(start, now));
    stretch.setAttribute("width", Math.abs(now - start));
    stretch.setAttribute("visibility", "visible");
  };
  const end = (other) => {
    removeEventListener("pointermove", move);
    stretch.setAttribute("visibility", "hidden");
    const now = place(other);
    if (Math.abs(now - start) > 6) onRange([across.back(Math.min(start, now)), across.back(Math.max(start, now))]);
  };
  addEventListener("pointermove", move);
  addEventListener("pointerup", end, { once: true });
}
