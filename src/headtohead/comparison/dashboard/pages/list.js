// The list of runs: one row each, kept and only brought up to date, so that hundreds stay quick.

import { styleOf } from "./colours.js";
import { groupFields } from "./fields.js";
import { byId, el } from "./dom.js";
import { duration, number, words } from "./format.js";
import { runs } from "./runs.js";
import { grouped, groupOf, selected, shown, SORTS } from "./selection.js";
import { change, choose, chosen, state } from "./state.js";

const rows = new Map();
let order = [];
let last = null;

export function setUp() {
  byId("filter").addEventListener("input", (event) => change({ q: event.target.value }));
  byId("group").addEventListener("change", (event) => change({ group: event.target.value.trim() }));
  byId("sort").append(...SORTS.map(([value, text]) => el("option", { value }, text)));
  byId("sort").addEventListener("change", (event) => change({ sort: event.target.value }));
  byId("all").addEventListener("change", (event) => choose(event.target.checked ? "all" : order));
  byId("list").addEventListener("click", click);
  byId("list").addEventListener("keydown", press);
  if (matchMedia("(max-width: 760px)").matches) byId("drawer").open = false;
}

export function show() {
  const list = shown(), chosenRuns = selected(list), keys = new Set(chosenRuns.map((run) => run.key));
  byId("counted").textContent = `${keys.size} of ${runs.size} run${runs.size === 1 ? "" : "s"} selected`;
  byId("filter-note").textContent = list.length === runs.size ? "" : `${list.length} match${list.length === 1 ? "es" : ""}`;
  for (const [id, value] of [["filter", state.q], ["group", state.group], ["sort", state.sort]]) {
    if (document.activeElement !== byId(id)) byId(id).value = value;
  }
  byId("all").checked = chosen() === "all";
  fill(list, keys);
}

/** The names to group by change only with the runs. */
export function showFields() {
  const names = groupFields([...runs.values()]);
  byId("group-fields").replaceChildren(...names.map((name) => el("option", { value: name })));
}

function fill(list, keys) {
  const nodes = [];
  order = [];
  for (const [label, members] of grouped(list)) {
    if (state.group) nodes.push(heading(label, members, keys));
    for (const run of members) { order.push(run.key); nodes.push(row(run, keys.has(run.key))); }
  }
  for (const key of rows.keys()) if (!runs.has(key)) rows.delete(key);
  const box = byId("list"), focused = document.activeElement?.dataset?.key;
  const same = nodes.length === box.children.length && nodes.every((node, index) => node === box.children[index]);
  if (!same) box.replaceChildren(...nodes);
  const tab = order.includes(last) ? last : order[0];
  for (const key of order) rows.get(key).node.tabIndex = key === tab ? 0 : -1;
  if (focused && !same) rows.get(focused)?.node.focus();
}

const headings = new Map();

function heading(label, members, keys) {
  let node = headings.get(label);
  if (!node) {
    node = el("button", { type: "button", class: "group", role: "presentation" }, el("i"), el("b"), el("span"));
    headings.set(label, node);
  }
  const [swatch, name, count] = node.children, style = styleOf(label);
  swatch.style.background = style?.colour ?? "transparent";
  name.textContent = label;
  count.textContent = members.length;
  node.onclick = () => toggle(members.map((run) => run.key), !members.every((run) => keys.has(run.key)));
  return node;
}

function row(run, isSelected) {
  let entry = rows.get(run.key);
  if (!entry) {
    const parts = Object.fromEntries(["box", "name", "value", "status", "bar"].map((part) => [part, el("span", { class: part })]));
    parts.fill = el("i");
    parts.bar.append(parts.fill);
    const node = el("div", { class: "run", role: "option", "data-key": run.key }, ...Object.values(parts).slice(0, 5));
    entry = { node, parts };
    rows.set(run.key, entry);
  }
  const { node, parts } = entry, style = isSelected ? styleOf(groupOf(run)) : null;
  node.setAttribute("aria-selected", String(isSelected));
  node.title = [run.name, run.reason ?? run.id].join("\n");
  node.dataset.status = run.status;
  parts.box.style.background = style?.colour ?? "";
  parts.name.textContent = `${run.name}${run.name.endsWith(`s${run.seed}`) ? "" : ` · ${run.seed}`}`;
  parts.value.textContent = headline(run);
  const share = run.status === "finished" ? 1 : run.max_steps ? Math.min(1, run.progress.step / run.max_steps) : 0;
  parts.status.textContent = standing(run);
  parts.fill.style.width = `${100 * share}%`;
  return node;
}

function standing(run) {
  const { step, seconds } = run.progress, to = run.max_steps;
  if (run.status === "finished") return `finished · ${number(step)} steps`;
  const left = run.status === "running" && to && step ? ` · ${duration((seconds / step) * (to - step))} left` : "";
  return `${words(run.status)} · step ${number(step)}${to ? ` of ${to}` : ""}${left}`;
}

function headline(run) {
  if (run.value !== null) return `${words(run.metric)} ${number(run.value)}`;
  const name = [`validation/${run.selected_by}`, "train/loss"].find((metric) => run.latest[metric] !== undefined);
  return name ? `${name} ${number(run.latest[name])}` : "";
}

function keysNow() { return new Set(selected().map((run) => run.key)); }

function toggle(keys, on) {
  const now = keysNow();
  for (const key of keys) if (on) now.add(key); else now.delete(key);
  choose(now);
}

function pick(key, { add, range }) {
  const from = order.indexOf(last), to = order.indexOf(key);
  if (range && from >= 0) toggle(order.slice(Math.min(from, to), Math.max(from, to) + 1), true);
  else if (add) toggle([key], !keysNow().has(key));
  else choose(new Set([key]));
  last = key;
}

function click(event) {
  const node = event.target.closest(".run");
  if (!node) return;
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
  else if (event.key === "a" && (event.ctrlKey || event.metaKey)) choose("all");
  else return;
  event.preventDefault();
}
