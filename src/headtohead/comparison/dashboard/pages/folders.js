// What lies in the folders of runs, requested once and again when a run has grown.

import { get } from "./asking.js";

const known = new Map();

/** The details of each run, in order; at most `most` of them. */
export async function details(list, most) {
  return Promise.all(list.slice(0, most).map(async (run) => {
    const grown = `${run.status} ${run.progress.step}`;
    const had = known.get(run.key);
    if (had?.grown === grown) return { run, ...had.info };
    const info = await get("/api/run", { run: run.key }, { pictures: {}, tables: {} });
    known.set(run.key, { grown, info });
    return { run, ...info };
  }));
}

/** What a sentence about the runs that were looked into begins with. */
export const lookedInto = (list, most) => (list.length > most ? `The first ${most} of ${list.length} runs` : "These runs");

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
