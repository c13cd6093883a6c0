// Brings the parts together: what changed is drawn again, and nothing else.

import { Gone } from "./asking.js";
import * as beside from "./beside.js";
import * as curves from "./curves.js";
import * as diff from "./diff.js";
import { byId, el } from "./dom.js";
import * as list from "./list.js";
import * as maps from "./maps.js";
import * as notes from "./notes.js";
import * as results from "./results.js";
import { follow, isCurrent, onRuns, page, refresh, start } from "./runs.js";
import * as samples from "./samples.js";
import { selected } from "./selection.js";
import { note } from "./series.js";
import { change, choose, onChange, state } from "./state.js";
import * as studies from "./studies.js";

const TABS = { curves: ["Curves", curves], results: ["Results", results], diff: ["Config diff", diff], beside: ["Side by side", beside], maps: ["Maps", maps], samples: ["Samples", samples], notes: ["Notes", notes] };
/** What of a view decides which runs are requested of the server. */
const ASKED = ["q", "stars", "group", "sort", "sel"];
let drawing = Promise.resolve();
let requests = 0;

/** One drawing after the other; of those that wait, only the last is worth doing. */
function draw() {
  const mine = (requests += 1);
  drawing = drawing.then(() => (mine === requests ? drawNow(mine) : null)).catch((error) => { if (!(error instanceof Gone)) console.error(error); });
  return drawing;
}

/** The root says which view stands on the page, once all of it does. */
async function drawNow(mine) {
  const view = location.hash.slice(1);
  await drawView(mine);
  if (isCurrent()) document.documentElement.dataset.drawn = view;
}

async function drawView(mine) {
  const isRuns = state.view !== "studies";
  byId("runs-view").hidden = !isRuns;
  byId("studies-view").hidden = isRuns;
  byId("see-runs").setAttribute("aria-pressed", String(isRuns));
  byId("see-studies").setAttribute("aria-pressed", String(!isRuns));
  if (!isRuns) { await studies.show(); return; }
  const chosen = selected(), panel = byId("panel");
  list.show();
  tabs();
  empty(chosen.length);
  if (!chosen.length) return;
  await TABS[tabNow()][1].show(panel, chosen, () => mine === requests);
}

const tabNow = () => (state.tab in TABS ? state.tab : "curves");

function tabs() {
  const now = tabNow();
  if (byId("tabs").dataset.tab === now) return;
  byId("tabs").dataset.tab = now;
  const had = byId("tabs").contains(document.activeElement);
  byId("tabs").replaceChildren(...Object.entries(TABS).map(([name, [text]]) => el("button", {
    type: "button", role: "tab", "aria-selected": String(name === now), tabindex: name === now ? 0 : -1, "aria-controls": "panel",
    onclick: () => change({ tab: name }), onkeydown: turn,
  }, text)));
  byId("panel").drawnContent = null;
  byId("panel").replaceChildren(el("div", { class: "loading" }, el("p", { class: "nothing" }, "Reading the runs…")));
  const chosen = byId("tabs").querySelector("[aria-selected=true]");
  chosen.scrollIntoView({ block: "nearest", inline: "nearest" });
  if (had) chosen.focus();
}

function turn(event) {
  const names = Object.keys(TABS), by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (by) change({ tab: names[(names.indexOf(tabNow()) + by + names.length) % names.length] });
}

function empty(count) {
  const node = byId("empty");
  node.hidden = count > 0;
  byId("tabs").hidden = byId("panel").hidden = count === 0;
  if (count) return;
  if (page.total && !page.matching) node.replaceChildren(el("h2", {}, "No run matches"), el("p", {}, `The filter leaves none of ${page.total}: change it${state.stars ? ", or show those without a star" : ""}.`));
  else if (page.total) node.replaceChildren(el("h2", {}, "No run is selected"), el("p", {}, "Choose runs in the list; its boxes add to the choice, shift takes all between."));
  else node.replaceChildren(el("h2", {}, "No runs yet"), el("p", {}, "Start one, and it shows here while it trains:"), el("pre", {}, "h2h train experiment=induction\nh2h study demo"), el("p", { class: "note" }, el("code", {}, "h2h list study"), " names the studies that ship."));
}

function live(isThere) {
  const { running } = page;
  byId("live").dataset.state = isThere ? (running ? "running" : "idle") : "gone";
  const text = !isThere ? "the server does not answer: h2h dashboard starts it" : running ? `${running} running` : "up to date";
  const words = byId("live").querySelector(".words");
  if (words.textContent !== text) words.textContent = text;
}

let touched = state.sel !== "" || state.q !== "";

onRuns(async (news) => {
  note(news);
  if (touched || !page.total) { await draw(); return; }
  const keys = await start();
  if (!touched) choose(keys); // whoever went elsewhere meanwhile stays there
});
onChange(async (keys) => {
  touched = true;
  if (keys.some((key) => ASKED.includes(key))) {
    try { note(await refresh()); } catch (error) { if (!(error instanceof Gone)) throw error; }
  }
  draw();
});
theme.listeners.push(draw);
// The address holds the view: a link to a part of the page would replace it.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId(state.view === "studies" ? "studies-view" : "main").focus();
});
byId("see-runs").addEventListener("click", () => change({ view: "runs" }));
byId("see-studies").addEventListener("click", () => change({ view: "studies" }));
byId("theme").addEventListener("click", () => theme.swap());
addEventListener("keydown", (event) => {
  if (event.key === "/" && !/input|select|textarea/i.test(document.activeElement?.tagName)) { event.preventDefault(); byId("drawer").open = true; byId("filter").focus(); }
});
list.setUp();
studies.follow(draw);
follow(live);
