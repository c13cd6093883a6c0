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

export function chosenOf(names, steps, key) {
  return { name: names.includes(state[key]) ? state[key] : names[0], step: steps.includes(state.step) ? state.step : steps.at(-1) };
}
