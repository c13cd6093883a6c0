const content = JSON.parse(document.getElementById("content").textContent);

function drawing(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** Few digits, but never 0 for what is not 0. */
function number(value, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.5 * 10 ** -digits || size >= 1e6)) return value.toExponential(1).replace(/^-/, "−");
  return value.toFixed(size >= 100 ? 1 : digits).replace(/^-/, "−");
}

/** Numbers that were sent as 16-bit floats in base64. */
function floats(encoded) {
  const letters = atob(encoded);
  const numbers = new Float32Array(letters.length / 2);
  for (let i = 0; i < numbers.length; i++) numbers[i] = HALVES[letters.charCodeAt(2 * i) | (letters.charCodeAt(2 * i + 1) << 8)];
  return numbers;
}

function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
}

const HALVES = Float32Array.from({ length: 65536 }, (_, bits) => half(bits));

/** The colour of a share from 0 to 1, linear between anchors that pictures (.png) have too. */
function colour(kind, share) {
  const anchors = content.colours[kind];
  const position = Math.min(Math.max(share, 0), 1) * (anchors.length - 1);
  const below = Math.min(Math.floor(position), anchors.length - 2);
  return anchors[below].map((part, i) => Math.round(part + (position - below) * (anchors[below + 1][i] - part)));
}

/** Where a number stands on its scale, from 0 to 1; by the root, small numbers can be told apart. */
function shareOf(value, { low, high, root = false }) {
  if (!root) return (value - low) / (high - low || 1);
  const size = Math.sqrt(Math.min(Math.abs(value) / (Math.max(Math.abs(low), high) || 1), 1));
  return low < 0 ? 0.5 + 0.5 * Math.sign(value) * size : size;
}

/** The number at a share of the scale. */
function valueAt(share, { low, high, root = false }) {
  if (!root) return low + share * (high - low);
  const part = low < 0 ? 2 * share - 1 : share;
  return Math.sign(part) * part * part * Math.max(Math.abs(low), high);
}

/** Numbers as a picture of one pixel a cell; cells that are hidden stay clear. */
function paint(canvas, { values, rows, columns, low, high, root = false, colours = "sequential", hidden = () => false }) {
  canvas.width = columns;
  canvas.height = rows;
  const pen = canvas.getContext("2d");
  const image = pen.createImageData(columns, rows);
  const table = Array.from({ length: 256 }, (_, i) => colour(colours, i / 255)).flat();
  const scale = { low, high, root };
  for (let i = 0; i < rows * columns; i++) {
    if (!Number.isFinite(values[i]) || hidden(Math.floor(i / columns), i % columns)) continue;
    const at = 3 * Math.round(255 * Math.min(Math.max(shareOf(values[i], scale), 0), 1));
    for (let part = 0; part < 3; part++) image.data[4 * i + part] = table[at + part];
    image.data[4 * i + 3] = 255;
  }
  pen.putImageData(image, 0, 0);
}

const tip = el("div", { class: "tip", role: "status", hidden: true });

function showTip(event, ...lines) {
  tip.replaceChildren(...lines.map((line) => el("div", {}, line)));
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const right = event.clientX + 16 + width > window.innerWidth;
  const below = event.clientY + 18 + height > window.innerHeight;
  tip.style.left = `${Math.max(4, right ? event.clientX - 14 - width : event.clientX + 16)}px`;
  tip.style.top = `${Math.max(4, below ? event.clientY - 12 - height : event.clientY + 18)}px`;
}

function hideTip() {
  tip.hidden = true;
}

/** Buttons in a row, one of which is pressed. */
function choices(label, names, onChoose) {
  const row = el("div", { class: "choices", role: "group", "aria-label": label });
  const node = el("div", { class: "control" }, el("span", {}, label), row);
  return {
    node,
    show(pressed, shown = names) {
      row.replaceChildren(
        ...shown.map((name, i) =>
          el("button", { type: "button", "aria-pressed": String(i === pressed), onclick: () => onChoose(i) }, name),
        ),
      );
      node.hidden = shown.length === 0;
    },
  };
}

/** The head of every page: what it is about, and the way to the other colours. */
function pageTop() {
  const facts = content.facts.map(([name, value]) => el("span", {}, `${name} `, el("b", {}, value)));
  const swap = el("button", { type: "button", onclick: () => theme.swap() }, "Dark / light");
  return el(
    "div",
    { class: "top" },
    el("div", {}, el("h1", {}, content.title), el("div", { class: "facts" }, ...facts), ...content.notes.map((note) => el("p", { class: "remark" }, note))),
    swap,
  );
}
