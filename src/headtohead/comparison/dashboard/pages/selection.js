// Which runs are shown, in which order and groups, and which of them are selected.

import { assign } from "./colours.js";
import { matcher, valueOf } from "./fields.js";
import { plain } from "./format.js";
import { runs } from "./runs.js";
import { chosen, state } from "./state.js";

export const SORTS = [
  ["newest", "newest first"], ["oldest", "oldest first"], ["name", "name"], ["result", "result, best first"],
  ["status", "status"], ["parameters", "parameters"], ["step", "steps"],
];
const STATUSES = ["running", "failed", "diverged", "out_of_memory", "out_of_disk", "unreadable", "interrupted", "finished"];
const START_WITH = 40;

/** Smaller is better; without a result, worst. Losses alone are better small, where the run does not say. */
function resultOf(run) {
  if (typeof run.value !== "number") return Infinity;
  const down = run.metric === run.selected_by ? run.direction === "min" : /loss|perplexity|bits_per_byte/.test(run.metric);
  return down ? run.value : -run.value;
}

const text = (one, other) => String(one).localeCompare(String(other), "en", { numeric: true });
const ORDERS = {
  newest: (one, other) => text(other.started ?? "", one.started ?? ""),
  oldest: (one, other) => text(one.started ?? "", other.started ?? ""),
  name: (one, other) => text(one.name, other.name) || one.seed - other.seed,
  result: (one, other) => resultOf(one) - resultOf(other) || 0,
  status: (one, other) => STATUSES.indexOf(one.status) - STATUSES.indexOf(other.status),
  parameters: (one, other) => (one.costs.parameters ?? Infinity) - (other.costs.parameters ?? Infinity) || 0,
  step: (one, other) => other.progress.step - one.progress.step,
};

/** Runs that the filter lets through, in order. */
export function shown() {
  const holds = matcher(state.q), order = ORDERS[state.sort] ?? ORDERS.newest;
  return [...runs.values()].filter(holds).sort((one, other) => order(one, other) || text(one.key, other.key));
}

/** The label of the group of a run; grouped by nothing, each run is its own. */
export function groupOf(run) {
  return state.group ? plain(valueOf(run, state.group)) : run.key;
}

/** [[label, runs]], groups by name; one group without label where nothing groups. */
export function grouped(list) {
  if (!state.group) return [["", list]];
  const found = new Map();
  for (const run of list) {
    const label = groupOf(run);
    if (!found.has(label)) found.set(label, []);
    found.get(label).push(run);
  }
  return [...found].sort(([one], [other]) => one - other || text(one, other)); // 0.003 before 0.01
}

/** Selected runs in the order of the list; those that the filter hides are not among them. */
export function selected(list = shown()) {
  const keys = chosen();
  const found = keys === "all" ? list : list.filter((run) => keys.has(run.key));
  assign(state.group, grouped(found).flatMap(([label, members]) => (state.group ? [label] : members.map((run) => run.key))));
  return found;
}

/** What a page that was never touched shows: everything, or the newest run and those that belong to it. */
export function start() {
  const list = shown();
  if (list.length <= START_WITH) return "all";
  const mates = list.filter((run) => run.group === list[0].group && run.study === list[0].study);
  return mates.slice(0, START_WITH).map((run) => run.key);
}

/** A name for a run that tells it from the others of its arm. */
export function labelOf(run) {
  const name = run.arm === run.name || run.name.startsWith(run.arm) ? run.arm : `${run.arm}: ${run.name}`;
  return `${name} · seed ${run.seed}`;
}
