// Studies: what each asked, what its verdicts say, its report.

import { get } from "./asking.js";
import { byId, el, shortened } from "./dom.js";
import { duration, withMinus, words } from "./format.js";
import { change, state } from "./state.js";

const SIGNS = { finished: "✓", diverged: "↯", interrupted: "‖", out_of_disk: "‖", missing: "·", "not needed": "" };
const REFRESH = 4000;
let drawnStudies = "";
let opened = "";

export async function show() {
  const studies = await get("/api/studies", {});
  const now = JSON.stringify([state.study, studies]);
  if (now === drawnStudies || state.view !== "studies") return;
  drawnStudies = now;
  fill(byId("studies-view"), studies);
}

export function follow(again) {
  setInterval(() => { if (state.view === "studies" && !document.hidden) again(); }, REFRESH);
}

function fill(view, studies) {
  if (!studies.length) {
    view.replaceChildren(el("section", { class: "panel" }, el("h2", {}, "No study yet"), el("p", {}, "A study asks one question of several arms and seeds. ", el("code", {}, "h2h list study"), " names those that ship; ", el("code", {}, "h2h study NAME"), " runs one, and it shows here.")));
    return;
  }
  const open = studies.find((study) => study.name === state.study && study.report);
  view.replaceChildren(el("div", { class: "studies" }, ...studies.flatMap((study) => (study === open ? [card(study, true), report(study)] : [card(study, false)]))));
  if (open && open.name !== opened) view.querySelector(".card[data-open]").scrollIntoView();
  opened = open?.name ?? "";
}

function card(study, isOpen) {
  const runs = () => change({ view: "runs", q: `study="${study.name}"`, sel: "*", group: "arm", tab: "curves" });
  return el("article", { class: "card", "data-open": isOpen },
    el("h2", {}, study.title || study.name, el("small", { class: "badge" }, study.verdicts === undefined ? study.board?.counts.running ? "running" : "no verdict yet" : study.complete ? "complete" : "going on")),
    study.unreadable ? el("p", { class: "reason" }, study.unreadable) : null,
    study.question ? el("p", { class: "question" }, study.question) : null,
    study.board?.rows.length ? board(study) : null,
    ...(study.verdicts ?? []).map((verdict) => el("p", { class: "verdict", "data-kind": verdict.kind }, el("b", {}, verdict.answer), ` ${withMinus(verdict.sentence)}`)),
    ...(study.remarks ?? []).map((remark) => el("p", { class: "note" }, withMinus(remark))),
    el("div", { class: "controls" },
      el("button", { type: "button", onclick: runs }, "show its runs"),
      study.report ? el("button", { type: "button", "aria-pressed": String(isOpen), onclick: () => change({ study: isOpen ? "" : study.name }) }, "report") : null,
      study.report ? el("a", { href: address(study), target: "_blank", rel: "noopener" }, "report in a tab of its own") : null));
}

/** Arms by seeds, each cell a run: done, running, interrupted, failed, or not yet started. */
function board({ name, board: { seeds, rows, counts, trials, left } }) {
  const all = Object.values(counts).reduce((sum, number) => sum + number, 0), others = Object.entries(trials).map(([status, number]) => `${number} ${words(status)}`);
  const { done, ...open } = counts;
  const summary = [`${done} of ${all} done`, ...Object.entries(open).filter(([, number]) => number).map(([what, number]) => `${number} ${what}`)].join(", ");
  const cell = ([status, share, key], index, arm) => el("td", {}, el("button", {
    type: "button", class: "cell", "data-status": status, disabled: !key, style: `--share: ${100 * share}%`, title: `${arm}, seed ${seeds[index]}: ${words(status)}`,
    "aria-label": `${arm}, seed ${seeds[index]}: ${words(status)}`, onclick: () => change({ view: "runs", q: `study="${name}"`, sel: encodeURIComponent(key), tab: "curves" }),
  }, status === "running" ? `${Math.round(100 * share)} %` : SIGNS[status] ?? "✗"));
  return el("div", { class: "board" },
    el("p", {}, summary, left === null ? "" : `, about ${duration(left)} left`, others.length ? el("span", { class: "note" }, `; for tuning or to start from: ${others.join(", ")}`) : ""),
    el("div", { class: "scroll" }, el("table", {},
      el("thead", {}, el("tr", {}, el("th", {}, "seed"), ...seeds.map((seed) => el("th", {}, String(seed))))),
      el("tbody", {}, ...rows.map(({ arm, slot, cells }) => {
        const swatch = el("i");
        swatch.style.background = `var(--arm-${slot % 8})`;
        return el("tr", {}, el("th", { scope: "row" }, el("span", {}, swatch, shortened(arm))), ...cells.map((one, index) => cell(one, index, arm)));
      })))));
}

const address = (study) => `/report?study=${encodeURIComponent(study.name)}`;

function report(study) {
  return el("iframe", { title: `report of ${study.name}`, sandbox: "allow-scripts allow-modals allow-downloads", src: address(study) });
}
