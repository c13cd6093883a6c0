const state = { sample: 0, kind: 0, layer: 0, head: 0, masked: null, scale: 0, compared: 0, root: 0, everyLayer: 1, query: 0, key: 0 };
const decoded = new Map();

const kind = () => content.kinds[state.kind];
const layer = (number = state.layer) => kind().layers[number];
const sample = () => content.samples[state.sample];
const side = (name) => sample().sides[name];
const picture = () => sample().picture;
/** Which of the two maps of a head: as it was trained, or with the causal mask the other way round. */
const FORMS = ["trained", "other", "difference"];
const form = () => (state.compared && layer().maps[state.sample].weights[FORMS[state.compared]] ? FORMS[state.compared] : state.masked === kind().causal || !kind().can_change ? "trained" : "changed");

const isDifference = () => form() === "difference";
/** A difference shows its sign. */
const withSign = (value, digits) => `${isDifference() && value > 0 ? "+" : ""}${number(value, digits)}`;

/** The maps of all heads of a layer: numbers, and their size. */
function mapsOf(number = state.layer) {
  const map = layer(number).maps[state.sample], shown = map.weights[form()] ? form() : "trained";
  const key = `${state.kind} ${number} ${state.sample} ${shown}`;
  if (!decoded.has(key)) {
    const all = floats(map.weights[shown]);
    const [largest, signed] = [most(all), all.some((value) => value < 0)];
    decoded.set(key, { rows: map.rows, columns: map.columns, statistics: map.statistics[shown], usual: map.scales[shown], all, largest, signed });
  }
  return decoded.get(key);
}

function headOf(number = state.head, of = mapsOf()) {
  const size = of.rows * of.columns;
  return of.all.subarray(number * size, (number + 1) * size);
}

/** The largest size; weights of implicit attention may be negative. */
const most = (values) => values.reduce((highest, value) => Math.max(highest, Math.abs(value)), 0);

/** The colours of a head's weights, among those of its layer. */
function scaleOf(head, of) {
  const top = [of.usual[1], most(head), of.largest, 1][state.scale] || 1;
  const root = state.root === 1;
  return of.signed ? { low: -top, high: top, root, colours: "diverging" } : { low: 0, high: top, root, colours: "sequential" };
}

/** Tells why a query may not look at a key; null where it may. */
function rules() {
  if (!kind().by_order) return () => null;
  const { masked } = state;
  const documents = sample().segments;
  return (r, c) => {
    if (masked && c > r) return "hidden by the causal mask";
    return documents && documents[r] !== documents[c] ? "hidden: another document" : null;
  };
}

const forbidden = (r, c) => rules()(r, c);

// Controls -----------------------------------------------------------------------------------------------------------

const kindChoice = choices("Attention of", content.kinds.map((one) => one.name), (i) => change({ kind: i, layer: 0, head: 0, masked: content.kinds[i].causal }));
const layerChoice = choices("Layer", [], (i) => change({ layer: i }));
const headChoice = choices("Head", [], (i) => change({ head: i }));
const maskChoice = choices("Causal mask", ["on", "off"], (i) => change({ masked: i === 0, compared: 0 }));
const scaleChoice = choices("Colours up to", ["what is usual", "head's largest", "layer's largest", "1"], (i) => change({ scale: i }));
const comparedChoice = choices("Of", content.against ? ["this run", content.against, "the difference"] : [], (i) => change({ compared: i, ...(i ? { masked: kind().causal } : {}) }));
const rootChoice = choices("Shades", ["even", "small ones apart"], (i) => change({ root: i }));
const layersShown = choices("Show", ["this layer", "all layers"], (i) => change({ everyLayer: i }));
const sampleSelect = el(
  "select",
  { "aria-label": "Sample", onchange: (event) => change({ sample: event.target.selectedIndex }) },
  ...content.samples.map((one) => el("option", {}, one.title)),
);

function showControls() {
  kindChoice.show(state.kind);
  layerChoice.show(state.layer, kind().layers.map((one) => one.label));
  headChoice.show(state.head, Array.from({ length: layer().heads }, (_, i) => String(i + 1)));
  const how = (masked) => (masked === kind().causal ? " (as trained)" : "");
  maskChoice.show(state.masked ? 0 : 1, kind().can_change ? [`on${how(true)}`, `off${how(false)}`] : []);
  comparedChoice.show(state.compared);
  scaleChoice.show(state.scale);
  rootChoice.show(state.root);
  layersShown.show(state.everyLayer);
}

// The map ------------------------------------------------------------------------------------------------------------

const map = heatMap(
  (r, c) => change({ query: r, key: c }, "cell"),
  (r, c) => [
    `query ${r}: ${side(kind().queries)[r]}`,
    `key ${c}: ${side(kind().keys)[c]}`,
    forbidden(r, c) ?? el("b", { class: "mono" }, number(headOf()[r * mapsOf().columns + c], 4)),
  ],
);
const bar = colourBar();
const mapTitle = el("h2");
const mapNote = el("span", { class: "note" });

function showMap() {
  const { rows, columns } = mapsOf();
  const scale = scaleOf(headOf(), mapsOf());
  const name = `${kind().name}, layer ${layer().label}, head ${state.head + 1}`;
  mapTitle.textContent = name;
  const change = state.masked ? "with a causal mask, as it was not trained" : "without its causal mask, as it was not trained";
  mapNote.textContent = {
    changed: `The same head ${change}.`, other: `${content.against}.`, difference: `This run less ${content.against}: red looks there more, blue less.`,
  }[form()] ?? (mapsOf().usual[2] && state.scale === 0 ? "Weights above the upper end are as bright as it: those of queries with few keys." : "");
  map.show({
    values: headOf(), rows, columns, name, ...scale, hidden: rules(),
    rowLabels: side(kind().queries), columnLabels: side(kind().keys), rowName: "query", columnName: "key",
  });
  bar.show(scale);
}

// What one cell says -------------------------------------------------------------------------------------------------

const pair = el("div", { class: "pair" });
const weight = el("div", { class: "weight", id: "weight" });
const figures = el("div", { class: "figures" });
const strips = el("div", { class: "stack" });

function showCell() {
  const { rows, columns, statistics } = mapsOf();
  state.query = Math.min(state.query, rows - 1);
  state.key = Math.min(state.key, columns - 1);
  const row = headOf().subarray(state.query * columns, (state.query + 1) * columns);
  const value = row[state.key];
  const rank = 1 + row.filter((other) => other > value).length;
  pair.replaceChildren(
    el("span", { class: "note" }, `query ${state.query}`), el("span", { class: "token", id: "query" }, side(kind().queries)[state.query]),
    el("span", { class: "note" }, `→ key ${state.key}`), el("span", { class: "token", id: "key" }, side(kind().keys)[state.key]),
  );
  weight.textContent = forbidden(state.query, state.key) ? "hidden" : withSign(value, 4);
  const figure = (shown, name) => el("div", {}, el("b", {}, shown), el("span", {}, name));
  figures.replaceChildren(
    figure(`${rank} of ${columns}`, isDifference() ? "rank, from the largest gain" : "rank of this key"),
    figure(withSign(statistics.entropy[state.head], 3), `${isDifference() ? "change of the " : ""}head's entropy, nats`),
    figure(withSign(statistics.distance[state.head], 2), `${isDifference() ? "change of the " : ""}mean distance, ${picture() ? "patches" : "tokens"}`),
  );
  map.pick(state.query, state.key);
  showStrips(row);
}

const shade = (share) => `rgba(var(--shade), ${(0.92 * share).toFixed(3)})`;

function strip(labels, weights, pressed, choose) {
  const top = weights ? most(weights) || 1 : 1;
  return el(
    "div",
    { class: "strip" },
    ...labels.map((label, i) => {
      const share = weights ? Math.abs(weights[i]) / top : 0;
      const strong = share > 0.6 ? "var(--accent-ink)" : "inherit";
      return el(
        "button",
        {
          type: "button", "aria-pressed": String(i === pressed), onclick: () => choose(i),
          style: `background: ${weights ? shade(share) : "var(--soft)"}; color: ${strong}`,
          title: weights ? `${label}  ${number(weights[i], 4)}` : label,
        },
        label,
      );
    }),
  );
}

function showStrips(row) {
  const choose = (i) => change({ query: i }, "cell");
  const shaded = `Shaded by how much ${isDifference() ? "more or less " : ""}query ${state.query} looks there; choose another query here`;
  if (picture()) {
    strips.replaceChildren(el("h3", {}, `Where query ${state.query} looks; press a patch to choose another`), overPicture(row));
  } else if (kind().queries === kind().keys) {
    strips.replaceChildren(el("h3", {}, shaded), strip(side(kind().keys), row, state.query, choose));
  } else {
    strips.replaceChildren(
      el("h3", {}, "Queries: choose one"), strip(side(kind().queries), null, state.query, choose),
      el("h3", {}, `Keys, shaded by how much query ${state.query} looks there`),
      strip(side(kind().keys), row, state.key, (i) => change({ key: i }, "cell")),
    );
  }
}

// Images -------------------------------------------------------------------------------------------------------------

/** The weights of the patches as warm light on the grey image. */
function veil(canvas, row, scale) {
  const { rows, columns, leading } = picture();
  canvas.width = columns;
  canvas.height = rows;
  const pen = canvas.getContext("2d");
  const veiled = pen.createImageData(columns, rows);
  for (let i = 0; i < rows * columns; i++) {
    const share = Math.min(Math.abs(row[leading + i]) / scale, 1);
    veiled.data.set([255, 110, 40], 4 * i);
    veiled.data[4 * i + 3] = 15 + 165 * share;
  }
  pen.putImageData(veiled, 0, 0);
}

function overPicture(row) {
  const { rows, columns, leading, source } = picture();
  const canvas = el("canvas");
  veil(canvas, row, most(row.subarray(leading)) || 1);
  const mark = el("div", { class: "mark" });
  const index = state.query - leading;
  mark.hidden = index < 0;
  Object.assign(mark.style, {
    left: `${(100 * (index % columns)) / columns}%`, top: `${(100 * Math.floor(index / columns)) / rows}%`,
    width: `${100 / columns}%`, height: `${100 / rows}%`,
  });
  const over = el("div", { class: "over" }, el("img", { src: source, alt: sample().title }), canvas, mark);
  const patch = (event) => {
    const box = over.getBoundingClientRect();
    const at = (share, count) => Math.min(Math.max(Math.floor(share * count), 0), count - 1);
    return at((event.clientY - box.top) / box.height, rows) * columns + at((event.clientX - box.left) / box.width, columns);
  };
  over.addEventListener("pointerdown", (event) => change({ query: leading + patch(event) }, "cell"));
  over.addEventListener("pointermove", (event) => {
    const key = leading + patch(event);
    showTip(event, `patch ${key - leading}`, el("b", { class: "mono" }, number(row[key], 4)));
  });
  over.addEventListener("pointerleave", hideTip);
  const first = el("div", { class: "choices" }, ...side(kind().queries).slice(0, leading).map((label, i) =>
    el("button", { type: "button", "aria-pressed": String(state.query === i), onclick: () => change({ query: i }, "cell") }, `${label} as query`)));
  return el("div", { class: "stack" }, over, first);
}

// All heads side by side ---------------------------------------------------------------------------------------------

const tiles = el("div", { class: "tiles" });

function meter(name, value, largest) {
  const share = largest > 0 && Number.isFinite(value) ? Math.min(Math.abs(value) / largest, 1) : 0;
  return el("div", { class: "meter" }, el("span", {}, name), el("em", {}, withSign(value, 2)), el("i", { style: `--share: ${100 * share}%` }));
}

function tile(layerNumber, headNumber, of, largest) {
  const values = headOf(headNumber, of);
  const canvas = el("canvas");
  const small = el("div", { class: of.columns > 120 ? "small many" : "small" });
  if (picture()) {
    const row = values.subarray(state.query * of.columns, (state.query + 1) * of.columns);
    veil(canvas, row, state.scale === 3 ? 1 : most(row.subarray(picture().leading)) || 1);
    small.append(el("img", { src: picture().source, alt: "" }), canvas);
  } else {
    paint(canvas, { values, rows: of.rows, columns: of.columns, ...scaleOf(values, of), hidden: rules() });
    small.append(canvas);
  }
  const current = layerNumber === state.layer && headNumber === state.head;
  return el(
    "button",
    {
      type: "button", class: "tile", "aria-pressed": String(current), "data-layer": layerNumber, "data-head": headNumber,
      onclick: () => change({ layer: layerNumber, head: headNumber }),
    },
    el("strong", {}, `Layer ${layer(layerNumber).label}, head ${headNumber + 1}`),
    small,
    meter("entropy", of.statistics.entropy[headNumber], largest.entropy),
    meter("distance", of.statistics.distance[headNumber], largest.distance),
  );
}

function showTiles() {
  const numbers = state.everyLayer ? kind().layers.map((_, i) => i) : [state.layer];
  const largest = { entropy: Math.log(Math.max(mapsOf().columns, 2)), distance: 0 };
  for (let i = 0; i < kind().layers.length; i++) largest.distance = Math.max(largest.distance, ...mapsOf(i).statistics.distance.filter(Number.isFinite).map(Math.abs));
  tiles.replaceChildren(...numbers.flatMap((i) => Array.from({ length: layer(i).heads }, (_, head) => tile(i, head, mapsOf(i), largest))));
}

// All together -------------------------------------------------------------------------------------------------------

/** The tiles again, or only the sign of which one is chosen, which is much quicker. */
function markTiles() {
  for (const tile of tiles.children) {
    tile.setAttribute("aria-pressed", String(Number(tile.dataset.layer) === state.layer && Number(tile.dataset.head) === state.head));
  }
}

/** Changes what is shown; "cell" when the same map stays. */
function change(changes, what = "map") {
  const same = what === "cell" && Object.entries(changes).every(([name, value]) => state[name] === value);
  if (same) return;
  const query = state.query;
  const onlyAnotherHead = Object.keys(changes).length > 0 && Object.keys(changes).every((name) => name === "head" || (name === "layer" && state.everyLayer));
  Object.assign(state, changes);
  state.layer = Math.min(Math.max(state.layer, 0), kind().layers.length - 1);
  state.head = Math.min(Math.max(state.head, 0), layer().heads - 1);
  if (what === "map") {
    showControls();
    showMap();
  }
  showCell();
  if (what === "map" && onlyAnotherHead) markTiles();
  else if (what === "map" || (picture() && query !== state.query)) showTiles();
}

function moveCell(down, right) {
  const { rows, columns } = mapsOf();
  const within = (value, count) => Math.min(Math.max(value, 0), count - 1);
  change({ query: within(state.query + down, rows), key: within(state.key + right, columns) }, "cell");
  map.reveal();
}

const ARROWS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

document.addEventListener("keydown", (event) => {
  if (event.target.closest("select, input") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key in ARROWS) {
    const [down, right] = ARROWS[event.key];
    event.preventDefault();
    if (event.shiftKey) moveCell(down, right);
    else change({ layer: state.layer + down, head: state.head + right });
  } else if (event.key === "m" && kind().can_change) change({ masked: !state.masked });
  else if (event.key === "k" && content.kinds.length > 1) {
    const next = (state.kind + 1) % content.kinds.length;
    change({ kind: next, layer: 0, head: 0, masked: content.kinds[next].causal });
  } else if (event.key === "Escape") hideTip();
});

const key = (name) => el("kbd", {}, name);
state.masked = kind().causal;
document.body.append(
  pageTop(),
  el(
    "div",
    { class: "controls" },
    content.samples.length > 1 ? el("div", { class: "control" }, el("span", {}, "Sample"), sampleSelect) : "",
    kindChoice.node, layerChoice.node, headChoice.node, maskChoice.node, comparedChoice.node, scaleChoice.node, rootChoice.node,
  ),
  el(
    "div",
    { class: content.samples.some((one) => one.picture) ? "columns with-picture" : "columns" },
    el("section", { class: "panel" }, el("header", {}, mapTitle, mapNote, bar.node, zoomButtons(map)), map.node),
    el(
      "div",
      { class: "stack" },
      el("section", { class: "panel" }, pair, weight, figures),
      el("section", { class: "panel" }, strips),
    ),
  ),
  el(
    "section",
    { class: "panel", style: "margin-top: 14px" },
    el("header", {}, el("h2", {}, "Heads side by side"), el("span", { class: "note" }, "Choose one to see it large. Entropy: 0 looks at one key, the bar's end at all alike. Distance: between query and key, on average."), layersShown.node),
    tiles,
  ),
  el(
    "p",
    { class: "keys" },
    key("←"), " ", key("→"), " head   ", key("↑"), " ", key("↓"), " layer   ", key("Shift"), " + arrows: cell   ",
    key("M"), " causal mask   ", key("K"), " kind of attention",
  ),
  tip,
);
theme.listeners.push(() => change({}));
const start = mapsOf();
const first = picture()?.leading ? 0 : start.rows - 1;
const looks = headOf().subarray(first * start.columns, (first + 1) * start.columns);
change({ query: first, key: looks.indexOf(most(looks)) });
