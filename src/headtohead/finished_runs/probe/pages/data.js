const SIDES = { tokens: "Read", decoder_tokens: "Read by the decoder" };

// Numbers of the splits ----------------------------------------------------------------------------------------------

const percent = (share) => (share === null ? "–" : `${(100 * share).toFixed(share < 0.01 && share > 0 ? 2 : 1)} %`);

function table() {
  const some = (name) => content.splits.some((split) => split[name] !== null);
  const columns = [
    ["split", (split) => split.name],
    ["rows", (split) => split.rows.toLocaleString("en")],
    ...content.lengths.map((what) => [what, (split) => (what in split.lengths ? split.lengths[what].summary : "–")]),
    ...(some("padding") ? [["padding", (split) => percent(split.padding)]] : []),
    ...(some("scored") ? [["scored positions", (split) => percent(split.scored)]] : []),
    ...(content.splits.some((split) => split.unknown) ? [["unknown tokens", (split) => percent(split.unknown)]] : []),
  ];
  return el(
    "div",
    { class: "scroll" },
    el(
      "table",
      { class: "splits" },
      el("thead", {}, el("tr", {}, ...columns.map(([name]) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, ...content.splits.map((split) => el("tr", {}, ...columns.map(([, format]) => el("td", {}, format(split)))))),
    ),
  );
}

/** Bars over lengths, on one scale for all splits. */
function histogram(what, split) {
  const { counts, edges } = split.lengths[what];
  const most = Math.max(...counts, 1);
  const total = counts.reduce((sum, count) => sum + count, 0);
  const [width, height, foot] = [360, 120, 18];
  const step = width / counts.length;
  const bars = counts.map((count, i) => {
    const tall = (count / most) * (height - 6);
    const bar = drawing("rect", { x: i * step + 0.5, y: height - tall, width: Math.max(step - 1, 1), height: tall });
    const range = edges[i + 1] - edges[i] > 1 ? `${edges[i]} to ${edges[i + 1] - 1} tokens` : `${edges[i]} tokens`;
    bar.addEventListener("pointermove", (event) => showTip(event, range, el("b", {}, `${count} (${percent(count / Math.max(total, 1))})`)));
    bar.addEventListener("pointerleave", hideTip);
    return bar;
  });
  const text = (x, anchor, content) => drawing("text", { x, y: height + 14, "text-anchor": anchor }, content);
  return el(
    "div",
    { class: "chart" },
    el("h3", {}, `${split.name}: ${what}`),
    drawing(
      "svg",
      { viewBox: `0 0 ${width} ${height + foot}`, role: "img", "aria-label": `${split.name}: ${what}, ${split.lengths[what].summary}` },
      drawing("line", { x1: 0, y1: height, x2: width, y2: height }),
      ...bars,
      text(0, "start", String(edges[0])),
      text(width / 2, "middle", String(edges[Math.floor(edges.length / 2)])),
      text(width, "end", String(edges[edges.length - 1] - 1)),
    ),
  );
}

function classShares(split) {
  const total = split.classes.reduce((sum, count) => sum + count, 0) || 1;
  const most = Math.max(...split.classes, 1);
  return el(
    "div",
    { class: "chart" },
    el("h3", {}, `${split.name}: classes`),
    el(
      "div",
      { class: "shares" },
      ...split.classes.flatMap((count, i) => [
        el("span", {}, content.class_names[i] ?? String(i)),
        el("i", { style: `--share: ${(100 * count) / most}%`, title: String(count) }),
        el("em", {}, percent(count / total)),
      ]),
    ),
  );
}

// Rows ---------------------------------------------------------------------------------------------------------------

function chip(token) {
  const marks = ["special", "padding", "answer"].filter((name) => token[name]);
  if (token.change) marks.push(token.change);
  if (token.sentence === 1) marks.push("second");
  if (token.target !== null) marks.push("counts");
  const notes = [
    token.padding ? "padding: nothing looks here, nothing counts" : null,
    token.change === "masked" ? `masked: it was ${token.target}` : null,
    token.change === "replaced" ? `replaced by another token: it was ${token.target}` : null,
    token.change === "kept" ? "unchanged, and to be predicted all the same" : null,
    token.target !== null && !token.change ? `target: ${token.target}` : null,
    token.target === null && !token.padding ? "no target counts here" : null,
    token.document !== null ? `document ${token.document} of the row` : null,
    token.sentence !== null ? `token type ${token.sentence}` : null,
    token.answer ? "part of the answer" : null,
  ];
  const node = el("span", { class: ["seen", ...marks].join(" ") }, el("span", {}, token.text));
  if (content.has_targets) node.append(el("small", {}, token.target ?? ""));
  node.addEventListener("pointermove", (event) => showTip(event, el("b", { class: "mono" }, token.text), ...notes.filter(Boolean)));
  node.addEventListener("pointerleave", hideTip);
  return node;
}

/** Chips, with a line wherever a packed row goes on with another document. */
function tokensOf(tokens) {
  const nodes = [];
  tokens.forEach((token, i) => {
    if (i > 0 && token.document !== null && token.document !== tokens[i - 1].document) {
      nodes.push(el("span", { class: "border", "data-name": "another document, which does not see those above" }));
    }
    nodes.push(chip(token));
  });
  return el("div", { class: "tokens" }, ...nodes);
}

function sidesOf(sample) {
  return Object.entries(sample.sides).flatMap(([side, tokens]) => [
    Object.keys(sample.sides).length > 1 ? el("h3", { style: "margin-top: 8px" }, SIDES[side]) : null,
    tokensOf(tokens),
    side in sample.left_out ? el("p", { class: "more" }, `and ${sample.left_out[side].toLocaleString("en")} more tokens`) : null,
  ]);
}

function sampleNode(sample) {
  const { original } = sample;
  return el(
    "div",
    { class: "sample" },
    el("header", {}, el("b", {}, `${sample.split} row ${sample.row}`), sample.label === null ? "" : el("span", { class: "label" }, sample.label)),
    ...sidesOf(sample),
    original === null ? "" : el("div", { class: "original" }, el("h3", {}, "Without augmentation"), ...sidesOf(original)),
  );
}

function pictureNode(sample) {
  const { original } = sample;
  return el(
    "figure",
    {},
    original === null ? "" : el("img", { class: "original", src: original.image, alt: `${original.label ?? ""}, without augmentation` }),
    el("img", { src: sample.image, alt: sample.label ?? "" }),
    el("figcaption", {}, el("b", {}, sample.label ?? ""), el("span", {}, ` row ${sample.row}`)),
  );
}

function legend() {
  const all = content.samples.flatMap((sample) => Object.values(sample.sides).flat());
  const entry = (marks, text, meaning) => el("span", {}, el("span", { class: `seen ${marks}` }, el("span", {}, text)), ` ${meaning}`);
  const shown = (test, ...of) => (all.some(test) ? entry(...of) : null);
  return el(
    "div",
    { class: "legend" },
    shown((token) => token.target !== null && !token.change, "counts", "token", "its target, below it, counts"),
    shown((token) => token.change === "masked", "masked", "<mask>", "masked; below it, what it was"),
    shown((token) => token.change === "replaced", "replaced", "token", "replaced by another; below it, what it was"),
    shown((token) => token.change === "kept", "kept", "token", "left as it is; counts too"),
    shown((token) => token.special && !token.padding, "special", "<bos>", "stands for no text"),
    shown((token) => token.padding, "padding", "<pad>", "padding"),
    shown((token) => token.sentence === 1, "second", "token", "second text of the pair"),
    shown((token) => token.answer, "answer", "token", "the answer"),
  );
}

const rows = el("section", { class: "panel", style: "margin-top: 14px" });
const swap = (name, label) => {
  const button = el("button", { type: "button", "aria-pressed": "true" }, label);
  button.addEventListener("click", () => {
    const hidden = rows.classList.toggle(name);
    button.setAttribute("aria-pressed", String(!hidden));
  });
  return button;
};
const images = content.samples.some((sample) => sample.image !== null);
const augmented = content.samples.some((sample) => sample.original !== null);
const padded = content.samples.some((sample) => Object.values(sample.sides).flat().some((token) => token.padding));
rows.append(
  el(
    "header",
    {},
    el("h2", {}, content.heading),
    el("span", { class: "note" }),
    content.has_targets ? swap("no-targets", "Targets") : "",
    padded ? swap("no-padding", "Padding") : "",
    augmented ? swap("no-originals", "Before augmentation") : "",
  ),
  images ? "" : legend(),
  images ? el("div", { class: augmented ? "images pairs" : "images" }, ...content.samples.map(pictureNode)) : "",
  ...(images ? [] : content.samples.map(sampleNode)),
);
document.body.append(
  pageTop(),
  el(
    "section",
    { class: "panel" },
    el("header", {}, el("h2", {}, "Splits"), el("span", { class: "note" }, content.counted)),
    table(),
    el("div", { class: "charts" }, ...content.varied.flatMap((what) => content.splits.filter((split) => what in split.lengths).map((split) => histogram(what, split)))),
    el("div", { class: "charts" }, ...content.splits.filter((split) => split.classes !== null).map(classShares)),
  ),
  rows,
  tip,
);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") hideTip();
});
