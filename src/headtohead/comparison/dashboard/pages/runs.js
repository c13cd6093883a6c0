// All runs, asked for again and again: only what changed is sent.

import { get, Gone } from "./asking.js";

export const runs = new Map();
const listeners = [];
let now = "";

export function onRuns(listener) { listeners.push(listener); }

/** The keys that changed; a run keeps its object, so that others may hold on to it. */
async function ask() {
  const update = await get("/api/runs", { since: now });
  now = update.now;
  const keys = new Set(update.keys);
  const gone = [...runs.keys()].filter((key) => !keys.has(key));
  for (const key of gone) runs.delete(key);
  for (const [key, run] of Object.entries(update.changed)) runs.set(key, Object.assign(runs.get(key) ?? { key }, run));
  return { changed: new Set(Object.keys(update.changed)), gone };
}

export async function follow(onState) {
  for (let first = true; ; first = false) {
    try {
      const news = await ask();
      onState(true);
      if (first || news.changed.size || news.gone.length) for (const listener of listeners) await listener(news);
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
