// Attention maps and other pictures of the selected runs, side by side, over the steps of training.

import { el, refill } from "./dom.js";
import { details, isMap, lookedInto, remarks, steps, upTo } from "./folders.js";
import { stepName } from "./format.js";
import { picture as shown } from "./pictures.js";
import { labelOf } from "./selection.js";
import { chosenOf, stepControls } from "./slider.js";

const MOST = 12;
const FIELD = /\.receptive_field$/;

export async function show(panel, list, isWanted) {
  const found = await details(list, MOST);
  if (!isWanted()) return;
  const order = steps(found.map((run) => run.pictures));
  const names = [...new Set(found.flatMap((run) => Object.values(run.pictures).flat()))].sort((one, other) => one.localeCompare(other, "en", { numeric: true }));
  const words = Object.assign({}, ...found.map((run) => run.words));
  const { name, step } = chosenOf(names, order, "picture", found.map((run) => run.pictures));
  const drawn = name ? found.map((run) => [run, ofLayer(run, order, step, name)]) : [], lacking = drawn.filter(([, [, at]]) => !at).map(([{ run }]) => labelOf(run));
  const keys = found.map((run) => [labelOf(run.run), run.run.key, run.pictures]);
  refill(panel, ["maps", name, step, list.length, keys], () => (names.length ? [
    stepControls(names, name, order, step, "picture", words),
    el("div", { class: "pictures" }, ...drawn.filter(([, [, at]]) => at).map(([run, own]) => picture(run, own))),
    el("p", { class: "note" }, remarks(list, MOST, lacking, "Not drawn")),
  ] : [el("p", { class: "note" }, whyNone(list))]));
}

function whyNone(list) {
  if (list.length && list.every((run) => run.draws_nothing)) return "These runs draw no pictures: they were started with probe=none. With probe=default they are drawn at the end of training.";
  return `${lookedInto(list, MOST)} hold no pictures yet: they are drawn at the end of training, with probe.every=100 during it.`;
}

/** One run may attend where another shows its receptive field: of the same layer, they stand side by side. */
function ofLayer(run, order, step, name) {
  const layer = name.replace(FIELD, ""), others = [...new Set(Object.values(run.pictures).flat())].filter((other) => other.replace(FIELD, "") === layer);
  return [name, ...others].map((one) => [one, upTo(run.pictures, order, step, one)]).find(([, at]) => at) ?? [name, undefined];
}

function picture({ run, words }, [name, step]) {
  const caption = el("figcaption", {}, el("b", {}, labelOf(run)), el("span", {}, `${words[name]}, ${stepName(step)}`));
  const address = `/picture?${new URLSearchParams({ run: run.key, step, name })}`;
  return el("figure", {}, caption, el("a", { href: address, target: "_blank" }, shown(address, `${words[name]} of ${run.name}, ${stepName(step)}`, isMap(name))));
}
