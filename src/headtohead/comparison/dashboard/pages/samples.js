// Tables that runs wrote: samples read and answered, matrices of confusion.

import { get } from "./asking.js";
import { el, refill, textCell } from "./dom.js";
import { details, lookedInto, remarks, steps, upTo } from "./folders.js";
import { stepName, words } from "./format.js";
import { labelOf } from "./selection.js";
import { chosenOf, stepControls } from "./slider.js";

const MOST = 6;

export async function show(panel, list, isWanted) {
  const found = await details(list, MOST);
  const order = steps(found.map((run) => run.tables));
  const names = [...new Set(found.flatMap((run) => Object.values(run.tables).flat()))].sort();
  const { name, step } = chosenOf(names, order, "table", found.map((run) => run.tables));
  const tables = await Promise.all(found.map((run) => read(run, upTo(run.tables, order, step, name), name)));
  if (!isWanted()) return;
  refill(panel, ["samples", names, order, step, list.length, tables], () => (names.length ? [
    stepControls(names, name, order, step, "table"),
    ...tables.filter((own) => own.step).map(table),
    el("p", { class: "note" }, remarks(list, MOST, tables.filter((own) => !own.step).map((own) => own.label), "Not written")),
  ] : [el("p", { class: "note" }, `${lookedInto(list, MOST)} hold no tables: they are written at each validation and after the test, and with trainer.num_samples=0 not at all.`)]));
}

async function read({ run }, step, name) {
  const label = labelOf(run);
  if (!step) return { label, step };
  return { label, step, ...(await get("/api/table", { run: run.key, step, name }, { columns: [], rows: [], more: false })) };
}

function table(data) {
  return el("div", { class: "sample" }, el("h2", {}, data.label, el("small", {}, ` ${stepName(data.step)}`)),
    el("div", { class: "scroll", tabindex: "0" }, el("table", {},
      el("thead", {}, el("tr", {}, ...data.columns.map((column) => el("th", {}, words(column))))),
      el("tbody", {}, ...data.rows.map((row) => el("tr", {}, ...row.map(textCell)))))),
    data.more ? el("p", { class: "note" }, `The first ${data.rows.length} rows.`) : null);
}
