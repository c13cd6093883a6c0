// The list of runs: the lines in sight and some beyond them, with room above and below for the others.

import { get, Gone } from "./asking.js";
import { styleOf } from "./colours.js";
import { byId, el, shortened } from "./dom.js";
import { duration, measured, number, words } from "./format.js";
import { save } from "./marks.js";
import { keysBetween, keysOf, page, runs, showAbout } from "./runs.js";
import { groupOf, isSelected, SORTS, toggle } from "./selection.js";
import { change, choose, chosen, state } from "./state.js";

const MOST = 300;
const rows = new Map();
/** Pixels of a run's line and of a group's; the style takes them from here. */
const HEIGHTS = { run: 46, group: 32 };
/** Pixels beyond what is in sight that are to be there, too. */
const AHEAD = 400;
let order = [];
let last = null;

export function setUp() {
  byId("filter").addEventListener("input", (event) => change({ q: event.target.value }));
  byId("group").addEventListener("change", (event) => change({ group: event.target.value.trim() }));
  byId("group").addEventListener("focus", showFields);
  byId("sort").append(...SORTS.map(([value, text]) => el("option", { value }, text)));
  byId("sort").addEventListener("change", (event) => change({ sort: event.target.value }));
  byId("stars").addEventListener("change", (event) => change({ stars: event.target.checked ? "1" : "" }));
  byId("all").addEventListener("change", (event) => choose(event.target.checked ? ["*"] : order.slice(0, MOST)));
  byId("list").addEventListener("click", click);
  byId("list").addEventListener("keydown", press);
  for (const [name, height] of Object.entries(HEIGHTS)) byId("list").style.setProperty(`--${name}-height`, `${height}px`);
  byId("list").addEventListener("scroll", follow, { passive: true });
  if (matchMedia("(max-width: 760px)").matches) byId("drawer").open = false;
  showChoices();
}

let moving = null, shownView = "";
const pixels = ([numRuns, numGroups]) => numRuns * HEIGHTS.run + numGroups * HEIGHTS.group;

/** Brings the lines that somebody scrolls to. Where the lines at hand begin is known exactly, so that a few steps lead
 * to any place. */
function follow() {
  moving ??= move().catch((error) => { if (!(error instanceof Gone)) throw error; }).finally(() => { moving = null; });
  return moving;
}

async function move() {
  for (let line, before = null; (line = lineInSight()) !== null && line !== before; before = line) {
    await showAbout(line);
    fill();
  }
}

/** About which line is in the middle of the box; null where all around it is at hand. */
function lineInSight() {
  const box = byId("list"), start = pixels(page.before), end = box.scrollHeight - pixels(page.after);
  const lacks = (box.scrollTop - AHEAD < start && page.first > 0) || (box.scrollTop + box.clientHeight + AHEAD > end && page.after[0] > 0);
  if (!lacks) return null;
  const whole = [0, 1].map((kind) => page.before[kind] + page.after[kind] + page.items.filter((item) => (item.length === 3) === (kind === 1)).length);
  const line = Math.round(page.first + (box.scrollTop + box.clientHeight / 2 - start) / (pixels(whole) / (whole[0] + whole[1])));
  return Math.min(Math.max(line, 0), whole[0] + whole[1] - 1);
}

export function show() {
  const { count, drawn, matching, total } = page;
  byId("counted").textContent = `${count} of ${total} run${total === 1 ? "" : "s"} selected`;
  byId("filter-note").textContent = [
    matching === total ? "" : `${matching} match${matching === 1 ? "es" : ""}`,
    drawn.length < count ? `${drawn.length} of the ${count} selected are drawn, evenly from each group` : "",
  ].filter(Boolean).join("; ");
  showChoices();
  const view = JSON.stringify([state.q, state.group, state.sort, state.stars]);
  if (view !== shownView) byId("list").scrollTop = 0;
  shownView = view;
  fill();
  follow();
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
  for (const key of rows.keys()) if (!runs.has(key)) rows.delete(key);
  const box = byId("list"), focused = document.activeElement?.dataset?.key;
  const same = nodes.length === box.children.length && nodes.every((node, index) => node === box.children[index]);
  if (!same) box.replaceChildren(...nodes);
  box.style.setProperty("--above", `${pixels(page.before)}px`);
  box.style.setProperty("--below", `${pixels(page.after)}px`);
  const tab = order.includes(last) ? last : order[0];
  for (const key of order) rows.get(key).node.tabIndex = key === tab ? 0 : -1;
  if (focused && !same) rows.get(focused)?.node.focus({ preventScroll: true });
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

async function pick(key, { add, range }) {
  const between = range && last !== null ? await keysBetween(last, key) : [];
  if (between.length) toggle(between, true);
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

function focusOn(key) {
  last = key;
  for (const other of order) rows.get(other).node.tabIndex = other === last ? 0 : -1;
  rows.get(last).node.focus();
}

/** The first or the last line of the whole list. */
async function goToEnd(isLast) {
  const box = byId("list");
  box.scrollTop = isLast ? box.scrollHeight : 0;
  await follow();
  focusOn(isLast ? order.at(-1) : order[0]);
}

function press(event) {
  const key = document.activeElement?.dataset?.key, index = order.indexOf(key);
  if (index < 0) return;
  const to = { ArrowDown: index + 1, ArrowUp: index - 1 }[event.key];
  if (event.key === "Home" || event.key === "End") goToEnd(event.key === "End");
  else if (to !== undefined && order[to] !== undefined) {
    if (event.shiftKey) toggle([key, order[to]], true);
    focusOn(order[to]);
  } else if (event.key === " ") pick(key, { add: true });
  else if (event.key === "Enter") pick(key, {});
  else if (event.key === "s") save(runs.get(key), { star: !runs.get(key).star });
  else if (event.key === "a" && (event.ctrlKey || event.metaKey)) choose(["*"]);
  else return;
  event.preventDefault();
}
