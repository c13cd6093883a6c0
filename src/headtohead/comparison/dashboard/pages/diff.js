// What sets the configurations of the selected runs apart, side by side.

import { breakable, el, refill } from "./dom.js";
import { get } from "./asking.js";
import { labelOf } from "./selection.js";

const MOST = 24;

export async function show(panel, list, isWanted) {
  const compared = list.slice(0, MOST);
  const { fields, total, values } = await get("/api/differences", compared.map((run) => ["run", run.key]));
  if (!isWanted() || values.length !== compared.length) return;
  const columns = compared.map((run, index) => [labelOf(run), values[index]]);
  refill(panel, ["diff", list.length, fields, columns], () => content(list, compared, fields, total, values));
}

function content(list, compared, fields, total, values) {
  if (compared.length < 2) return [el("p", { class: "note" }, "Select two runs or more to see how their configurations differ.")];
  if (!fields.length) return [el("p", { class: "note" }, "The configurations of these runs are the same.")];
  return [
    el("p", { class: "note" }, `${fields.length} of ${total} fields differ${list.length > MOST ? `; the first ${MOST} of ${list.length} runs` : ""}.`),
    el("div", { class: "scroll", tabindex: "0" }, el("table", { class: "diff" },
      el("thead", {}, el("tr", {}, el("th", {}, "field"), ...compared.map((run) => el("th", { title: run.id }, labelOf(run))))),
      el("tbody", {}, ...fields.map((field, index) => row(field, values.map((own) => own[index])))))),
  ];
}

/** Values that most runs share are quiet, the others stand out. */
function row(field, texts) {
  const counts = new Map();
  for (const text of texts) counts.set(text, (counts.get(text) ?? 0) + 1);
  const most = Math.max(...counts.values());
  const usual = most > 1 ? texts.find((text) => counts.get(text) === most) : null;
  return el("tr", {}, el("th", { scope: "row" }, ...breakable(field)), ...texts.map((text) => el("td", { class: text === usual ? "usual" : null }, ...breakable(text))));
}
