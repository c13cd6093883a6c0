// The list of runs: the first lines, and more as one scrolls; rows are kept and only brought up to date.

import { get } from "./asking.js";
import { styleOf } from "./colours.js";
import { byId, el, shortened } from "./dom.js";
import { duration, measured, number, words } from "./format.js";
import { save } from "./marks.js";
import { keysOf, page, runs, showMore } from "./runs.js";
import { groupOf, isSelected, SORTS, toggle } from "./selection.js";
import { change, choose, chosen, state } from "./state.js";

const MOST = 300;
const rows = new Map();
const more = el("button", { type: "button", class: "more", onclick: () => grow() });
let order = [];
let last = null;
let redraw = () => null;

export function setUp(again) {
  redraw = again;
  byId("filter").addEventListener("input", (event) => change({ q: event.target.value }));
  byId("group").addEventListener("change", (event) => change({ group: event.target.value.trim() }));
  byId("group").addEventListener("focus", showFields);
  byId("sort").append(...SORTS.map(([value, text]) => el("option", { value }, text)));
  byId("sort").addEventListener("change", (event) => change({ sort: event.target.value }));
  byId("stars").addEventListener("change", (event) => change({ stars: event.target.checked ? "1" : "" }));
  byId("all").addEventListener("change", (event) => choose(event.target.checked ? ["*"] : order.slice(0, MOST)));
  byId("list").addEventListener("click", click);
  byId("list").addEventListener("keydown", press);
  new IntersectionObserver(([seen]) => { if (seen.isIntersecting) grow(); }, { rootMargin: "200px" }).observe(more);
  if (matchMedia("(max-width: 760px)").matches) byId("drawer").open = false;
  showChoices();
}

let growing = false;

async function grow() {
  if (growing || !page.more) return;
  growing = true;
  try { await showMore(); redraw(); } finally { growing = false; }
}

export function show() {
  const { count, drawn, matching, total } = page;
  byId("counted").textContent = `${count} of ${total} run${total === 1 ? "" : "s"} selected`;
  byId("filter-note").textContent = [
    matching === total ? "" : `${matching} match${matching === 1 ? "es" : ""}`,
    drawn.length < count ? `${drawn.length} of the ${count} selected are drawn, evenly from each group` : "",
  ].filter(Boolean).join("; ");
  showChoices();
  fill();
}

function showChoices() {
  for (const [id, value] of [["filter", state.q], ["group", state.group], ["sort", state.sort]]) {
    if (document.activeElement !== byId(id)) byId(id).value = value;
  }
  byId("all").checked = chosen().all;
  byId("stars").checked = state.stars === "1";
}

/** The names to group by: they are requested when somebody is about to choose one. */
async function showFields() {
  const names = await get("/api/fields", {}, []);
  byId("group-fields").replaceChildren(...names.map((name) => el("option", { value: name })));
}

function fill() {
  const nodes = [];
  order = [];
  for (const item of page.items) {
    if (item.length === 3) nodes.push(heading(...item));
    else if (runs.has(item[0])) { order.push(item[0]); nodes.push(row(runs.get(item[0]), isSelected(item[0]))); }
  }
  more.textContent = `more of ${page.matching} runs`;
  if (page.more) nodes.push(more);
  for (const key of rows.keys()) if (!runs.has(key)) rows.delete(key);
  const box = byId("list"), focused = document.activeElement?.dataset?.key;
  const same = nodes.length === box.children.length && nodes.every((node, index) => node === box.children[index]);
  if (!same) box.replaceChildren(...nodes);
  const tab = order.includes(last) ? last : order[0];
  for (const key of order) rows.get(key).node.tabIndex = key === tab ? 0 : -1;
  if (focused && !same) rows.get(focused)?.node.focus();
}

const headings = new Map();

function heading(label, size, chosenOfIt) {
  let node = headings.get(label);
  if (!node) {
    node = el("button", { type: "button", class: "group", role: "presentation" }, el("i"), el("b"), el("span"));
    headings.set(label, node);
  }
  const [swatch, name, count] = node.children, style = styleOf(label);
  swatch.style.background = style?.colour ?? "transparent";
  if (name.textContent !== label) name.replaceChildren(shortened(label));
  count.textContent = size;
  node.onclick = async () => toggle(await keysOf(label), chosenOfIt < size);
  return node;
}

function row(run, isChosen) {
  let entry = rows.get(run.key);
  if (!entry) {
    const parts = Object.fromEntries(["box", "name", "value", "status", "bar", "mark"].map((part) => [part, el("span", { class: part })]));
    parts.fill = el("i");
    parts.bar.append(parts.fill);
    const node = el("div", { class: "run", role: "option", "data-key": run.key }, ...Object.values(parts).slice(0, 6));
    entry = { node, parts };
    rows.set(run.key, entry);
  }
  const { node, parts } = entry, style = isChosen ? styleOf(groupOf(run)) : null;
  node.setAttribute("aria-selected", String(isChosen));
  node.title = [run.name, run.reason ?? run.id].join("\n");
  node.dataset.status = run.status;
  parts.box.style.background = style?.colour ?? "";
  const name = `${run.name}${run.name.endsWith(`s${run.seed}`) ? "" : ` · ${run.seed}`}`;
  if (parts.name.textContent !== name) parts.name.replaceChildren(shortened(name, 10));
  parts.value.textContent = headline(run);
  parts.mark.textContent = run.star ? "★" : "☆";
  parts.mark.title = run.note || "star";
  const share = run.status === "finished" ? 1 : run.max_steps ? Math.min(1, run.progress.step / run.max_steps) : 0;
  parts.status.textContent = standing(run);
  parts.fill.style.width = `${100 * share}%`;
  return node;
}

function standing(run) {
  const { step, seconds } = run.progress, to = run.max_steps;
  if (run.status === "finished") return `finished · ${number(step)} steps`;
  const at = `step ${number(step)}${to ? ` of ${number(to)}` : ""}`;
  if (run.status === "running" && to && step) return `${at} · ${step < to ? `${duration((seconds / step) * (to - step))} left` : "evaluating"}`; // the green bar says that it runs
  return `${words(run.status)} · ${at}`;
}

function headline(run) {
  if (run.value !== null) return `${words(run.metric)} ${measured(run.value)}`;
  const name = [`validation/${run.selected_by}`, "train/loss"].find((metric) => run.latest[metric] !== undefined);
  return name ? `${name} ${measured(run.latest[name])}` : "";
}

function pick(key, { add, range }) {
  const from = order.indexOf(last), to = order.indexOf(key);
  if (range && from >= 0) toggle(order.slice(Math.min(from, to), Math.max(from, to) + 1), true);
  else if (add) toggle([key], !isSelected(key));
  else choose([key]);
  last = key;
}

function click(event) {
  const node = event.target.closest(".run");
  if (!node) return;
  if (event.target.classList.contains("mark")) { save(runs.get(node.dataset.key), { star: !runs.get(node.dataset.key).star }); return; }
  const add = event.ctrlKey || event.metaKey || event.target.classList.contains("box");
  pick(node.dataset.key, { add, range: event.shiftKey });
}

function press(event) {
  const key = document.activeElement?.dataset?.key, index = order.indexOf(key);
  if (index < 0) return;
  const to = { ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: order.length - 1 }[event.key];
  if (to !== undefined && order[to] !== undefined) {
    if (event.shiftKey) toggle([key, order[to]], true);
    last = order[to];
    for (const other of order) rows.get(other).node.tabIndex = other === last ? 0 : -1;
    rows.get(last).node.focus();
  } else if (event.key === " ") pick(key, { add: true });
  else if (event.key === "Enter") pick(key, {});
  else if (event.key === "s") save(runs.get(key), { star: !runs.get(key).star });
  else if (event.key === "a" && (event.ctrlKey || event.metaKey)) choose(["*"]);
  else return;
  event.preventDefault();
}
