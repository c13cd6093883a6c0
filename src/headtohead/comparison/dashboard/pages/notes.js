// What each selected run says in words: notes, how it ended and why, where it is.

import { save, star } from "./marks.js";
import { el, link, refill } from "./dom.js";
import { details, remarks } from "./folders.js";
import { time, words } from "./format.js";
import { labelOf } from "./selection.js";

const MOST = 24;

export async function show(panel, list, isWanted) {
  const found = await details(list, MOST);
  if (!isWanted()) return;
  const info = found.map(({ run, ...own }) => [labelOf(run), run.status, run.reason, run.star, run.note, own]);
  refill(panel, ["notes", list.length, info], () => [
    ...found.map(card),
    el("p", { class: "note" }, remarks(list, MOST)),
  ]);
}

function card(info) {
  const { run } = info;
  const facts = [
    ["notes of its configuration", run.notes], ["tags", run.tags.join(", ")], ["study", run.study],
    ["started", time(info.timing?.started)], ["finished", time(info.timing?.finished)],
    ["starts", info.starts > 1 ? String(info.starts) : null], ["device", info.device], ["commit", info.commit?.slice(0, 12)],
    ...Object.entries(info.cannot ?? {}).map(([stage, reason]) => [`cannot measure ${words(stage)}`, reason]),
    ["W&B", info.wandb ? link(info.wandb, info.wandb) : null],
    ["what it printed", info.output ? el("a", { href: `/output?${new URLSearchParams({ run: run.key })}`, target: "_blank", rel: "noopener" }, "the end of it, as text") : null],
    ["folder", el("code", {}, info.folder ?? run.key)],
    ["evaluate it again", el("code", {}, `h2h evaluate ${info.folder ?? run.key}`)],
  ].filter(([, value]) => value);
  const note = el("textarea", { rows: 2, maxlength: 4000, placeholder: "a note of your own", "aria-label": `note on ${labelOf(run)}`, onchange: () => save(run, { note: note.value }) }, run.note);
  return el("article", { class: "card", "data-status": run.status },
    el("h2", {}, star(run), labelOf(run), el("small", { class: "badge" }, words(run.status))),
    note,
    run.reason ? el("p", { class: "reason" }, run.reason) : null,
    el("dl", {}, ...facts.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])));
}
