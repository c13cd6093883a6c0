// Results and costs of the selected runs in one table: columns of one's choice, sorted by any of them, saved as CSV.

import { get } from "./asking.js";
import { columnsOf, differenceOf, fieldColumn, sorted, textOf, usualColumns } from "./columns.js";
import { styleOf } from "./colours.js";
import { el, labelled, refill, select, shortened } from "./dom.js";
import { csvOf, save } from "./download.js";
import { words } from "./format.js";
import { groupOf, grouped, labelOf } from "./selection.js";
import { change, joined, listed, state } from "./state.js";

const AT_ONCE = 100;
let fields = [];
let isOpen = false;
const ROWS = 60;
let numShown = ROWS;

export async function show(panel, list, isWanted) {
  const own = columnsOf(list), names = listed(state.columns).length ? listed(state.columns) : usualColumns(own);
  const ofConfig = names.filter((name) => !own.some((column) => column.name === name) && fieldLike(name));
  const values = await settings(list, ofConfig);
  if (!isWanted()) return;
  const columns = names.map((name) => own.find((column) => column.name === name) ?? (ofConfig.includes(name) ? fieldColumn(name, values) : null)).filter(Boolean);
  const ordered = sorted(list, columns.find((column) => column.name === state.by), state.down === "1");
  const compared = ordered.filter((run) => state.base !== "" && String(groupOf(run)) === state.base);
  const rows = [...compared, ...ordered.filter((run) => !compared.includes(run))];
  const content = rows.map((run) => [run.key, run.version, styleOf(groupOf(run))]);
  refill(panel, ["results", names, state.by, state.down, state.base, values, fields, content], () => [
    bar(own, names, columns, rows),
    el("div", { class: "scroll", tabindex: "0" }, el("table", { class: "results" },
      el("thead", {}, el("tr", {}, ...columns.map(head))), body(rows, columns, compared))),
    el("p", { class: "note" }, "Result: on the test, else on validation. Chance: the score of a model that learned nothing; of a run that is not tested yet, of one that guesses at random. Speed and memory of different machines do not compare."),
  ]);
}

/** The first rows, and more as one scrolls. */
function body(rows, columns, compared) {
  const line = (run) => el("tr", { class: compared.includes(run) ? "pinned" : null }, ...columns.map((column) => cell(column, run, compared)));
  const node = el("tbody", {}, ...rows.slice(0, numShown).map(line)), last = el("tr", { class: "more" }, el("td", { colspan: columns.length }, `more of ${rows.length} runs`));
  if (rows.length <= numShown) return node;
  node.append(last);
  new IntersectionObserver(([seen], observer) => {
    if (!seen.isIntersecting) return;
    last.before(...rows.slice(numShown, numShown + ROWS).map(line));
    numShown += ROWS;
    if (numShown >= rows.length) { observer.disconnect(); last.remove(); }
  }, { rootMargin: "200px" }).observe(last);
  return node;
}

const fieldLike = (name) => !/^(run|star|note)$/.test(name);

async function settings(list, names) {
  if (!names.length) return {};
  const pieces = [];
  for (let at = 0; at < list.length; at += AT_ONCE) {
    pieces.push(get("/api/settings", [...names.map((name) => ["field", name]), ...list.slice(at, at + AT_ONCE).map((run) => ["run", run.key])]));
  }
  return Object.assign({}, ...(await Promise.all(pieces)));
}

function bar(own, names, columns, rows) {
  const box = (name) => el("label", {}, el("input", { type: "checkbox", checked: names.includes(name), onchange: (event) => choose(names, name, event.target.checked) }), name);
  const menu = el("details", { class: "menu", open: isOpen, ontoggle: (event) => { isOpen = event.target.open; if (isOpen) bringFields(); } },
    el("summary", {}, "columns"),
    el("div", { class: "boxes" }, ...own.map((column) => box(column.name)),
      el("h3", {}, "of the configuration, where runs differ"), ...fields.filter((name) => !own.some((column) => column.name === name)).map(box)));
  const file = () => save("runs.csv", csvOf([columns.map((column) => column.name), ...rows.map((run) => columns.map((column) => column.of(run)))]), "text/csv");
  return el("div", { class: "controls" }, menu,
    el("button", { type: "button", onclick: file }, "CSV"),
    labelled("compared with", select([["", "nothing"], ...namesOf(rows)], state.base, (value) => change({ base: value }), { id: "base" })),
    state.columns ? el("button", { type: "button", onclick: () => change({ columns: "" }) }, "usual columns") : "");
}

/** What the others can be compared with: a group, or a run where nothing groups. */
const namesOf = (rows) => (state.group ? grouped(rows).map(([label]) => [String(label), String(label)]) : rows.map((run) => [run.key, labelOf(run)]));

function choose(names, name, isOn) {
  change({ columns: joined(isOn ? [...names, name] : names.filter((other) => other !== name)) });
}

/** The fields in which configurations differ are requested when somebody is about to choose one. */
async function bringFields() {
  if (fields.length) return;
  fields = await get("/api/fields", {}, []);
  change({});
}

function head(column) {
  const direction = state.by !== column.name ? "none" : state.down === "1" ? "descending" : "ascending";
  const press = () => change({ by: column.name, down: direction === "ascending" ? "1" : "" });
  return el("th", { class: column.number ? "number" : null, "aria-sort": direction }, el("button", { type: "button", onclick: press }, `${words(column.name)}${{ none: "", ascending: " ↑", descending: " ↓" }[direction]}`));
}

function cell(column, run, compared) {
  const value = column.of(run), node = el(column.swatch ? "th" : "td", { class: column.number ? "number" : null, scope: column.swatch ? "row" : null });
  if (column.swatch) {
    const swatch = el("i");
    swatch.style.background = styleOf(groupOf(run))?.colour ?? "";
    node.append(swatch, shortened(String(value)));
  } else {
    const difference = differenceOf(column, run, compared);
    node.append(textOf(column, run), ...(difference ? [el("small", {}, difference)] : []));
  }
  return node;
}
