// A choice of name and of step, for pictures and tables alike.

import { el, labelled, select } from "./dom.js";
import { stepName } from "./format.js";
import { change, state } from "./state.js";

/** The controls; `key` is where the state keeps the chosen name. */
export function stepControls(names, name, steps, step, key, words = {}) {
  const readout = el("output", {}, stepName(step));
  const range = el("input", {
    type: "range", min: 0, max: steps.length - 1, value: steps.indexOf(step), disabled: steps.length < 2, "aria-label": "step",
    oninput: () => { readout.textContent = stepName(steps[range.value]); },
    onchange: () => change({ step: Number(range.value) === steps.length - 1 ? "" : steps[range.value] }),
  });
  return el("div", { class: "controls" },
    labelled(key, select(names.map((one) => [one, words[one] ?? one]), name, (value) => change({ [key]: value }))),
    el("label", { class: "control" }, el("span", {}, "up to ", readout), range),
  );
}

/** The name and the step that are shown: of names that nobody has chosen the first that most runs have, as `found` says by
 * steps of each run. */
export function chosenOf(names, steps, key, found) {
  const count = (name) => found.filter((part) => Object.values(part).some((own) => own.includes(name))).length;
  const counts = names.map(count), usual = names[counts.indexOf(Math.max(...counts))];
  return { name: names.includes(state[key]) ? state[key] : usual, step: steps.includes(state.step) ? state.step : steps.at(-1) };
}
