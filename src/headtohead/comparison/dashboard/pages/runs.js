// The runs that the page shows, requested again and again: of thousands, only these lines are sent, and what changed of them.

import { get, Gone } from "./asking.js";
import { take as takeColours } from "./colours.js";
import { state } from "./state.js";

/** What is known of each run that is in the list or selected, by key. */
export const runs = new Map();
/** The list as far as it is shown, [label, size, selected] above each group and [key, version] for each run; how many runs there are. */
export let page = { total: 0, matching: 0, running: 0, items: [], more: false, count: 0, drawn: [] };
const AT_ONCE = 60;
const MORE = 60;
const listeners = [];
let shown = MORE;
let known = "", knownOf = "";
let asking = Promise.resolve();

export function onRuns(listener) { listeners.push(listener); }

const view = () => [["filter", state.q], ["group", state.group], ["sort", state.sort], ["stars", state.stars]];
const chosenKeys = () => state.sel.split(",").filter(Boolean).map(decodeURIComponent);

/** What a page selects that nobody has touched. */
export const start = () => get("/api/start", view());

/** The runs of one group, as many as are drawn at once. */
export const keysOf = (label) => get("/api/group", [...view(), ["label", label]]);

/** More lines of the list. */
export function showMore() { shown += MORE; return refresh(); }

const queryOf = () => [...view(), ["shown", String(shown)], ...chosenKeys().map((key) => ["selected", key])];

/** Whether the list is the answer to what the page asks for now. */
export const isCurrent = () => knownOf === JSON.stringify(queryOf());

/** One question after the other: the last answer is the one that is shown. */
export function refresh() {
  asking = asking.catch(() => null).then(ask);
  return asking;
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
  page = answer;
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
