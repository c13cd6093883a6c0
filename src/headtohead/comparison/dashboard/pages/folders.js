// What lies in the folders of runs, requested once and again when a run has grown.

import { get } from "./asking.js";
import { groupOf } from "./selection.js";

const known = new Map();

/** At most `most` of the runs, as many of each group, in the order of the list. */
export function someOfEach(list, most) {
  const turns = new Map(), turn = new Map(list.map((run) => {
    turns.set(groupOf(run), (turns.get(groupOf(run)) ?? 0) + 1);
    return [run, turns.get(groupOf(run))];
  }));
  const chosen = new Set([...list].sort((one, other) => turn.get(one) - turn.get(other)).slice(0, most));
  return list.filter((run) => chosen.has(run));
}

/** The details of at most `most` of the runs, as many of each group. */
export async function details(list, most) {
  return Promise.all(someOfEach(list, most).map(async (run) => {
    const grown = `${run.status} ${run.progress.step}`;
    const had = known.get(run.key);
    if (had?.grown === grown) return { run, ...had.info };
    const info = await get("/api/run", { run: run.key }, { pictures: {}, tables: {} });
    known.set(run.key, { grown, info });
    return { run, ...info };
  }));
}

/** What a sentence about the runs that were looked into begins with. */
export const lookedInto = (list, most) => (list.length > most ? `These ${most} of ${list.length} runs, as many of each group,` : "These runs");

/** What names the runs that lack what is shown, and says how many are left out. */
export function remarks(list, most, lacking = [], what = "") {
  const left = list.length > most ? `${most} of ${list.length} runs, as many of each group.` : "";
  return [lacking.length ? `${what}: ${lacking.join(", ")}.` : "", left].filter(Boolean).join(" ");
}

/** Names of steps in their order: numbers as numbers, the test at the end. */
export function steps(found) {
  const all = new Set(found.flatMap((part) => Object.keys(part)));
  const number = (step) => Number(/\d+/.exec(step)?.[0] ?? Infinity);
  return [...all].sort((one, other) => number(one) - number(other) || one.localeCompare(other));
}

/** Of the steps that have `name`, the last one up to `chosen`. */
export function upTo(part, order, chosen, name) {
  return order.slice(0, order.indexOf(chosen) + 1).filter((step) => part[step]?.includes(name)).at(-1);
}

/** Matrices, which stand beside tables, are called otherwise: a map is that of a layer, and its name has a dot. */
export const isMap = (name) => name.includes(".");
