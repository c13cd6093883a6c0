// The runs that the page shows, requested again and again: of thousands, only these lines are sent, and what changed of them.

import { get, Gone } from "./asking.js";
import { take as takeColours } from "./colours.js";
import { state } from "./state.js";

/** What is known of each run that is in the list or selected, by key. */
export const runs = new Map();
/** The list about where it is read, [label, size, selected] above each group and [key, version] for each run; the runs
 * and groups before and after these lines; how many runs there are. */
export let page = { total: 0, matching: 0, running: 0, items: [], first: 0, before: [0, 0], after: [0, 0], count: 0, drawn: [] };
const AT_ONCE = 60;
/** Lines that the page holds at once, however long the list is: at least, and for a high window. */
const LINES = 60, LINE_HEIGHT = 30, AROUND = 1000;
const listeners = [];
let first = 0, number = LINES;
let known = "", knownOf = "";
let asking = Promise.resolve(), waiting = null;

export function onRuns(listener) { listeners.push(listener); }

const view = () => [["filter", state.q], ["group", state.group], ["sort", state.sort], ["stars", state.stars]];
const chosenKeys = () => state.sel.split(",").filter(Boolean).map(decodeURIComponent);

/** What a page selects that nobody has touched. */
export const start = () => get("/api/start", view());

/** The runs of one group, as many as are drawn at once. */
export const keysOf = (label) => get("/api/group", [...view(), ["label", label]]);

/** The runs of the list from one to another. */
export const keysBetween = (run, other) => get("/api/between", [...view(), ["run", run], ["other", other]]);

/** The lines about this one, from zero on. */
export function showAbout(line) {
  number = Math.max(LINES, Math.ceil((innerHeight + AROUND) / LINE_HEIGHT));
  first = Math.max(0, Math.round(line - number / 2));
  return refresh();
}

let firstOf = "";

/** Another view begins at its top. */
function queryOf() {
  const of = JSON.stringify(view());
  if (of !== firstOf) [first, firstOf] = [0, of];
  return [...view(), ["first", String(first)], ["shown", String(number)], ...chosenKeys().map((key) => ["selected", key])];
}

/** Whether the list is the answer to what the page asks for now. */
export const isCurrent = () => knownOf === JSON.stringify(queryOf());

/** One question after the other, and of those that wait only one, which asks for what the page shows by then: who types
 * a filter asks for few of its beginnings. */
export function refresh() {
  waiting ??= asking.catch(() => null).then(() => { asking = waiting; waiting = null; return ask(); });
  return waiting;
}

/** Whether something changed; a run keeps its object, so that others may hold on to it. */
async function ask() {
  const query = queryOf();
  const of = JSON.stringify(query);
  const answer = await get("/api/runs", [...query, ["known", of === knownOf ? known : ""]]);
  if (answer.same) return { changed: new Set(), gone: [], same: true };
  const wanted = new Map([...answer.items.filter((item) => item.length === 2), ...answer.drawn]);
  const stale = [...wanted].filter(([key, version]) => runs.get(key)?.version !== version || runs.get(key).grouped !== state.group).map(([key]) => key);
  const changed = new Set(), group = state.group;
  for (let at = 0; at < stale.length; at += AT_ONCE) {
    const rows = await get("/api/rows", [["group", group], ...stale.slice(at, at + AT_ONCE).map((key) => ["run", key])]);
    for (const [key, row] of Object.entries(rows)) {
      if (runs.get(key)?.version !== row.version) changed.add(key);
      runs.set(key, Object.assign(runs.get(key) ?? { key }, row, { grouped: group }));
    }
  }
  const gone = [...runs.keys()].filter((key) => !wanted.has(key));
  for (const key of gone) runs.delete(key);
  page = { ...answer, first: Number(new Map(query).get("first")) };
  takeColours(answer.slots);
  [known, knownOf] = [answer.now, of];
  return { changed, gone, same: false };
}

export async function follow(onState) {
  for (let first = true; ; first = false) {
    try {
      const news = await refresh();
      onState(true);
      if (first || !news.same) for (const listener of listeners) await listener(news);
    } catch (error) {
      if (!(error instanceof Gone)) console.error(error);
      onState(false);
    }
    await pause(document.hidden ? 5000 : 1000);
  }
}

function pause(milliseconds) {
  return new Promise((done) => {
    const timer = setTimeout(done, milliseconds);
    document.addEventListener("visibilitychange", () => { if (!document.hidden) { clearTimeout(timer); done(); } }, { once: true });
  });
}
