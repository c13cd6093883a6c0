// What sets the configurations of the selected runs apart, side by side.

import { el, refill } from "./dom.js";
import { differing } from "./fields.js";
import { plain } from "./format.js";
import { labelOf } from "./selection.js";

const MOST = 24;

export function show(panel, list) {
  const compared = list.slice(0, MOST), fields = differing(compared);
  const columns = compared.map((run) => [labelOf(run), ...fields.map((field) => run.config[field])]);
  refill(panel, ["diff", list.length, fields, columns], () => content(list, compared, fields));
}

function content(list, compared, fields) {
  if (compared.length < 2) return [el("p", { class: "note" }, "Select two runs or more to see how their configurations differ.")];
  if (!fields.length) return [el("p", { class: "note" }, "The configurations of these runs are the same.")];
  const total = new Set(compared.flatMap((run) => Object.keys(run.config))).size;
  return [
    el("p", { class: "note" }, `${fields.length} of ${total} fields differ${list.length > MOST ? `; the first ${MOST} of ${list.length} runs` : ""}.`),
    el("div", { class: "scroll", tabindex: "0" }, el("table", { class: "diff" },
      el("thead", {}, el("tr", {}, el("th", {}, "field"), ...compared.map((run) => el("th", { title: run.id }, labelOf(run))))),
      el("tbody", {}, ...fields.map((field) => row(field, compared))))),
  ];
}

/** Values that most runs share are quiet, the others stand out. */
function row(field, compared) {
  const texts = compared.map((run) => plain(run.config[field]));
  const counts = new Map();
  for (const text of texts) counts.set(text, (counts.get(text) ?? 0) + 1);
  const most = Math.max(...counts.values());
  const usual = most > 1 ? texts.find((text) => counts.get(text) === most) : null;
  return el("tr", {}, el("th", { scope: "row" }, field), ...texts.map((text) => el("td", { class: text === usual ? "usual" : null }, ...breakable(text))));
}

/** Lines break between the parts of a name first. */
function breakable(text) {
  return text.split(/(?<=[./])/).flatMap((part) => [part, el("wbr")]);
}
