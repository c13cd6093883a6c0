// Studies: what each asked, what its verdicts say, its report.

import { get } from "./asking.js";
import { byId, el } from "./dom.js";
import { change, state } from "./state.js";

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
    el("h2", {}, study.title || study.name, el("small", { class: "badge" }, study.verdicts === undefined ? "no verdict yet" : study.complete ? "complete" : "going on")),
    study.unreadable ? el("p", { class: "reason" }, study.unreadable) : null,
    study.question ? el("p", { class: "question" }, study.question) : null,
    ...(study.verdicts ?? []).map((verdict) => el("p", { class: "verdict", "data-kind": verdict.kind }, el("b", {}, verdict.answer), ` ${verdict.sentence}`)),
    ...(study.remarks ?? []).map((remark) => el("p", { class: "note" }, remark)),
    el("div", { class: "controls" },
      el("button", { type: "button", onclick: runs }, "its runs"),
      study.report ? el("button", { type: "button", "aria-pressed": String(isOpen), onclick: () => change({ study: isOpen ? "" : study.name }) }, "report") : null,
      study.report ? el("a", { href: address(study), target: "_blank", rel: "noopener" }, "report in a tab of its own") : null));
}

const address = (study) => `/report?study=${encodeURIComponent(study.name)}`;

function report(study) {
  return el("iframe", { title: `report of ${study.name}`, sandbox: "allow-scripts allow-modals allow-downloads", src: address(study) });
}
