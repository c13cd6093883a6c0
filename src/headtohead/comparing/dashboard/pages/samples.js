// Tables that runs wrote: samples read and answered, matrices of confusion.

import { el } from "./dom.js";
import { details, steps, upTo } from "./folders.js";
import { stepName, words } from "./format.js";
import { labelOf } from "./selection.js";
import { chosenOf, stepControls } from "./slider.js";

const MOST = 6;

export async function show(panel, list, isWanted) {
  const found = await details(list, MOST);
  const order = steps(found.map((run) => run.tables));
  const names = [...new Set(found.flatMap((run) => Object.values(run.tables).flat()))].sort();
  if (!names.length) {
    if (isWanted()) panel.replaceChildren(el("p", { class: "note" }, "These runs hold no tables yet: they are written at each validation and after the test."));
    return;
  }
  const { name, step } = chosenOf(names, order, "table");
  const tables = await Promise.all(found.map((run) => table(run, name, upTo(run.tables, order, step, name))));
  if (!isWanted()) return;
  panel.replaceChildren(
    stepControls(names, name, order, step, "table"), ...tables,
    ...(list.length > MOST ? [el("p", { class: "note" }, `The first ${MOST} of ${list.length} runs.`)] : []),
  );
}

async function table({ run }, name, step) {
  const heading = el("h2", {}, labelOf(run), el("small", {}, step ? ` ${stepName(step)}` : " nothing yet"));
  if (!step) return el("div", { class: "sample" }, heading);
  const response = await fetch(`/api/table?${new URLSearchParams({ run: run.key, step, name })}`);
  const told = response.ok ? await response.json() : { columns: [], rows: [], more: false };
  return el("div", { class: "sample" }, heading,
    el("div", { class: "scroll", tabindex: "0" }, el("table", {},
      el("thead", {}, el("tr", {}, ...told.columns.map((column) => el("th", {}, words(column))))),
      el("tbody", {}, ...told.rows.map((row) => el("tr", {}, ...row.map((cell) => el("td", {}, cell))))))),
    told.more ? el("p", { class: "note" }, `The first ${told.rows.length} rows.`) : null);
}
