
"use strict";
const { figures, shades } = JSON.parse(document.getElementById("content").textContent);
const root = document.documentElement;
const NARROW = 620;
const PRINTED = 680;
const APPENDIX_HEIGHT = 215, APPENDIX_TALLEST = 340;
const CAPTION = 100;
const BOTH_PAGES = 2004, TWO_PAGES = 1840;  // pixels of A4 within the margins; less what stays free where a figure would break
const LEGEND_LINE = 21;
const SHARED = /^(x|y|customdata|array|arrayminus)$/;

/* --- the theme's colours in a figure ------------------------------------------------------------------------------ */

// "--arm-1/0.2": a colour of the style sheet, and how much of it.
function colour(token) {
  const [name, opacity] = token.split("/");
  const hex = getComputedStyle(root).getPropertyValue(name).trim();
  if (opacity === undefined) return hex;
  const [red, green, blue] = [1, 3, 5].map((index) => parseInt(hex.slice(index, index + 2), 16));
  return `rgba(${red},${green},${blue},${opacity})`;
}

function themed(value, key, columns) {
  if (Array.isArray(value)) return typeof value[0] === "number" ? value : value.map((item) => themed(item, key, columns));
  if (value !== null && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([name, item]) => {
      const named = SHARED.test(name) && typeof item === "string" && item.startsWith("@") && Object.hasOwn(columns, item.slice(1));
      return [name, named ? columns[item.slice(1)] : themed(item, name, columns)];
    }));
  }
  return typeof value === "string" && value.startsWith("--") && /color(scale|way)?$/.test(key) ? colour(value) : value;
}

function merged(base, own) {
  const both = { ...base };
  for (const [name, value] of Object.entries(own)) {
    const deep = value !== null && typeof value === "object" && !Array.isArray(value);
    both[name] = deep ? merged(both[name] ?? {}, value) : value;
  }
  return both;
}

function axis() {
  return {
    color: colour("--muted"), gridcolor: colour("--grid"), linecolor: colour("--muted"), zerolinecolor: colour("--line"),
    showline: true, ticks: "outside", ticklen: 4, tickcolor: colour("--muted"), automargin: true, zeroline: false,
    title: { standoff: 10, font: { color: colour("--ink"), size: 13 } }, exponentformat: "SI",
  };
}

// A legend of many lines takes its room above the figure, not from it.
function legendLines(data, width) {
  const named = data.filter((trace) => trace.name !== undefined && trace.showlegend !== false);
  const wide = named.reduce((sum, trace) => sum + 62 + 7 * trace.name.length, 0);
  return Math.ceil(wide / Math.max(1, width - 100));
}

function layout(own, data, width) {
  const narrow = width < NARROW;
  const legend = own.showlegend === false ? 0 : LEGEND_LINE * Math.max(0, legendLines(data, width) - 1);
  const base = {
    width, autosize: false,
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(root).getPropertyValue("--sans"), size: narrow ? 11 : 13, color: colour("--ink") },
    margin: { l: 56, r: narrow ? 12 : 20, t: 12, b: 52 },
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", bgcolor: "rgba(0,0,0,0)" },
    hoverlabel: { bgcolor: colour("--page"), bordercolor: colour("--line"), font: { color: colour("--ink") } },
    modebar: { color: colour("--muted"), activecolor: colour("--accent"), bgcolor: "rgba(0,0,0,0)" },
    hovermode: "closest", dragmode: narrow ? false : "zoom",
  };
  const axes = ["xaxis", "yaxis", ...Object.keys(own).filter((name) => /^[xy]axis\d*$/.test(name))];
  for (const name of axes) base[name] = axis();
  const whole = { ...merged(base, own), height: (own.height ?? 400) + legend };
  for (const name of axes) if (whole[name].type === "log" && whole[name].exponentformat === "SI") whole[name].tickformat ??= logFormat(name[0], data);
  return whole;
}

/** Plotly names a tick between two powers by its first digit alone, unless it has a format: 5k, 0.0005. */
function logFormat(letter, data) {
  const shown = data.flatMap((trace) => trace[letter] ?? []).filter((value) => typeof value === "number" && value > 0);
  return shown.some((value) => value < 1) ? "~g" : "~s";
}

/* --- drawing ------------------------------------------------------------------------------------------------------ */

const plots = [...document.querySelectorAll("[data-figure]")].map((node) => {
  const figure = figures[Number(node.dataset.figure)];
  return { node, figure, pressed: [...figure.forms[0].options] };
});

function draw(plot, width, height) {
  const form = plot.figure.forms.find((one) => one.options.every((option, index) => option === plot.pressed[index]));
  if (!form) return;
  const columns = plot.figure.columns;
  const wide = width ?? plot.node.clientWidth;
  const settings = {
    displaylogo: false, responsive: false, toImageButtonOptions: { format: "svg", filename: `figure-${plot.node.dataset.figure}` },
    displayModeBar: wide < NARROW ? false : "hover", modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
  };
  const data = themed(form.data, "", columns), drawn = layout(themed(form.layout, "", columns), data, wide);
  if (height !== undefined) drawn.height = Math.min(drawn.height, height);
  drawn.uirevision = plot.pressed.join("|");  // what was zoomed and hidden stays so in another theme and after printing
  return Plotly.react(plot.node, data, drawn, settings);
}

// Places that are folded have no width: they are drawn when they are opened.
const visible = (plot) => plot.node.clientWidth > 0;
const drawAll = (width, height) => Promise.all(plots.filter(visible).map((plot) => draw(plot, width, height)));

for (const { node, pressed, ...rest } of plots) {
  for (const group of node.parentElement.querySelectorAll("[data-control]")) {
    group.addEventListener("click", (event) => {
      const option = event.target.dataset.option;
      if (option === undefined) return;
      pressed[Number(group.dataset.control)] = option;
      for (const button of group.querySelectorAll("button")) button.setAttribute("aria-pressed", String(button === event.target));
      draw({ node, pressed, ...rest });
    });
  }
}

/* --- files --------------------------------------------------------------------------------------------------------- */

function save(name, text, kind) {
  const link = el("a", { href: URL.createObjectURL(new Blob([text], { type: kind })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

const plain = (text) => new DOMParser().parseFromString(String(text ?? "").replaceAll("<br>", " "), "text/html").body.textContent;

/** What a figure shows now, point by point, with whatever else its traces hold of each point. */
function csv(node) {
  const names = ["x", "y", "z", "text", "meta"];
  const error = (trace, axis, index, end) => trace[`error_${axis}`]?.[end === "low" ? "arrayminus" : "array"]?.[index] ?? trace[`error_${axis}`]?.array?.[index];
  const rows = [["trace", ...names, "x_minus", "x_plus", "y_minus", "y_plus"]];
  for (const trace of node.data) {
    const length = Math.max(trace.x?.length ?? 0, trace.y?.length ?? 0);
    for (let index = 0; index < length; index += 1) {
      const of = (name) => (Array.isArray(trace[name]) ? trace[name][index] : trace[name]);
      rows.push([plain(trace.name), ...names.map((name) => (typeof of(name) === "string" ? plain(of(name)) : of(name))), ...["x", "y"].flatMap((axis) => ["low", "high"].map((end) => error(trace, axis, index, end)))]);
    }
  }
  return table(rows);
}

function table(rows) {
  const cell = (value) => {
    const text = String(value ?? ""), safe = typeof value === "string" && /^[=+@\t\r]|^-(?!\d)/.test(text) ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return `${rows.map((row) => row.map(cell).join(",")).join("\n")}\n`;
}

for (const { node } of plots) {
  node.parentElement.querySelector(".files").addEventListener("click", async (event) => {
    const name = `figure-${Number(node.dataset.figure) + 1}`;
    if (event.target.dataset.file === "csv") save(`${name}.csv`, csv(node), "text/csv");
    else if (event.target.dataset.file === "svg") {
      const address = await Plotly.toImage(node, { format: "svg", width: node.clientWidth, height: node.clientHeight });
      save(`${name}.svg`, decodeURIComponent(address.slice(address.indexOf(",") + 1)), "image/svg+xml");
    }
  });
}

/* --- files of maps ------------------------------------------------------------------------------------------------- */

const address = (image) => image.getAttribute("src") ?? image.getAttribute("href");
const maps = (figure) => [...figure.querySelectorAll("[data-low]")];

/** The numbers of a map row by row, to a shade of its scale; nothing where a query may not look. */
async function weights(image) {
  const [low, high] = [Number(image.dataset.low), Number(image.dataset.high)];
  const places = new Map((low < 0 ? shades.diverging : shades.sequential).map((shade, index) => [shade, index]));
  const picture = new Image();
  picture.src = address(image);
  await picture.decode();
  const { naturalWidth: width, naturalHeight: height } = picture;
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  const context = canvas.getContext("2d");
  context.drawImage(picture, 0, 0);
  const dots = context.getImageData(0, 0, width, height).data;
  const value = (index) => {
    if (dots[4 * index + 3] === 0) return null;
    const shade = [0, 1, 2].map((part) => dots[4 * index + part].toString(16).padStart(2, "0")).join("");
    return Number((low + ((high - low) * places.get(shade)) / (shades.sequential.length - 1)).toPrecision(4));
  };
  return Array.from({ length: height }, (_, row) => Array.from({ length: width }, (_, column) => value(row * width + column)));
}

async function csvOfMaps(figure) {
  const rows = [["layer", "arm", "map", "query", "key", "query_token", "key_token", "weight", "or_more"]];
  const arms = [...figure.querySelectorAll("thead th")].map((node) => node.textContent);
  for (const image of maps(figure)) {
    const cell = image.closest("td"), layer = cell.parentElement.querySelector("th").firstChild.textContent;
    const tile = image.closest(".tiles > div"), names = JSON.parse(image.dataset.tokens ?? "[[], []]");
    const clipped = "clipped" in image.dataset, last = Number(Number(image.dataset.high).toPrecision(4));
    (await weights(image)).forEach((row, query) => row.forEach((weight, key) => {
      if (weight !== null) rows.push([layer, arms[cell.cellIndex - 1], tile.querySelector("span").textContent, query + 1, key + 1, names[0][query], names[1][key], weight, clipped && weight >= last ? "or more" : ""]);
    }));
  }
  return table(rows);
}

/** The grid as it stands on the page: pictures, and words line by line. */
function svgOfMaps(figure) {
  const box = figure.querySelector("table"), { x, y, width, height } = box.getBoundingClientRect();
  const svg = (name, attributes, text = "") => {
    const node = Object.assign(document.createElementNS("http://www.w3.org/2000/svg", name), { textContent: text });
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, typeof value === "number" ? value.toFixed(1) : value);
    return node;
  };
  const drawn = svg("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${width} ${height}`, width, height });
  const within = (rect) => ({ x: rect.x - x, y: rect.y - y, width: rect.width, height: rect.height });
  for (const image of figure.querySelectorAll("img, image")) {
    drawn.append(svg("image", { ...within(image.getBoundingClientRect()), href: address(image), preserveAspectRatio: "none", style: "image-rendering:pixelated" }));
  }
  for (const text of figure.querySelectorAll("table svg.named text")) {
    const { a, b, c, d, e, f } = text.getScreenCTM();
    const copy = svg("text", { transform: `matrix(${a} ${b} ${c} ${d} ${e - x} ${f - y})`, fill: colour("--ink"), "font-size": "9px", "font-family": "monospace" }, text.textContent);
    for (const name of ["x", "y", "text-anchor"]) if (text.hasAttribute(name)) copy.setAttribute(name, text.getAttribute(name));
    drawn.append(copy);
  }
  const words = document.createTreeWalker(box, NodeFilter.SHOW_TEXT, (node) => (node.parentElement.closest("svg") ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT));
  while (words.nextNode()) {
    const { fontSize, fontFamily, color } = getComputedStyle(words.currentNode.parentElement), range = document.createRange();
    for (const { 0: word, index } of words.currentNode.textContent.matchAll(/\S+/g)) {
      range.setStart(words.currentNode, index);
      range.setEnd(words.currentNode, index + word.length);
      const at = within(range.getBoundingClientRect());
      drawn.append(svg("text", { x: at.x, y: at.y + 0.8 * at.height, fill: color, "font-size": fontSize, "font-family": fontFamily }, word));
    }
  }
  return new XMLSerializer().serializeToString(drawn);
}

document.querySelectorAll("figure.maps").forEach((figure, index) => {
  figure.querySelector(".files").addEventListener("click", async (event) => {
    const name = `maps-${index + 1}`;
    if (event.target.dataset.file === "csv") save(`${name}.csv`, await csvOfMaps(figure), "text/csv");
    else if (event.target.dataset.file === "svg") save(`${name}.svg`, svgOfMaps(figure), "image/svg+xml");
  });
});

/* --- theme, window, print ----------------------------------------------------------------------------------------- */

theme.listeners.push(() => drawAll());
document.getElementById("theme").addEventListener("click", () => theme.swap());

let width = innerWidth;
let waiting = 0;
addEventListener("resize", () => {
  clearTimeout(waiting);
  waiting = setTimeout(() => { if (innerWidth !== width) { width = innerWidth; unfoldContents(); drawAll(); } }, 120);
});

/** Whether only what fits on the two pages of an appendix is printed. */
document.getElementById("appendix").addEventListener("click", () => {
  root.dataset.print = "appendix";
  print();
});

/** The largest scale at which an appendix fits on its pages, and its tables between the margins; the smaller it is, the longer are its lines. */
function appendixScale() {
  const main = document.querySelector("main");
  const fits = (scale) => {
    root.style.setProperty("--scale", scale);
    return main.scrollHeight * scale <= TWO_PAGES && [...main.querySelectorAll("table")].every((table) => table.offsetWidth <= main.clientWidth);
  };
  let [low, high] = [0.4, 1];
  if (fits(high)) return high;
  for (let step = 0; step < 6; step += 1) {
    const middle = (low + high) / 2;
    if (fits(middle)) low = middle; else high = middle;
  }
  fits(low);
  return low;
}

/** How high the figures of an appendix may be at this scale: they share what the pages leave, one more figure with its caption free at a break. */
function appendixHeight(scale) {
  const count = plots.filter(visible).length, free = BOTH_PAGES / scale - document.querySelector("main").scrollHeight - CAPTION;
  return Math.min(APPENDIX_TALLEST, Math.max(APPENDIX_HEIGHT, Math.floor((free + count * APPENDIX_HEIGHT) / (count + 1))));
}

let before = null;  // a browser may announce one printing twice
addEventListener("beforeprint", () => {
  if (before) return;
  const isAppendix = root.dataset.print === "appendix";
  const folded = isAppendix ? [] : [...document.querySelectorAll("main details[data-printed]:not([open])")];
  before = { folded };
  for (const one of folded) one.open = true;
  root.dataset.theme = "light";
  drawAll(PRINTED, isAppendix ? APPENDIX_HEIGHT : undefined);
  if (!isAppendix) return;
  const scale = appendixScale(), height = appendixHeight(scale);
  root.style.setProperty("--fit", scale);
  drawAll(PRINTED / scale, height);
});
addEventListener("afterprint", () => {
  if (!before) return;
  const { folded } = before;
  before = null;
  delete root.dataset.print;
  for (const name of ["--fit", "--scale"]) root.style.removeProperty(name);
  for (const one of folded) one.open = false;
  theme.apply();
});

/* --- reading ------------------------------------------------------------------------------------------------------ */

const contents = document.getElementById("contents");
function unfoldContents() {
  contents.open = innerWidth >= 1180;
}
unfoldContents();

const links = new Map([...contents.querySelectorAll("a")].map((link) => [link.hash.slice(1), link]));
const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    for (const link of links.values()) link.removeAttribute("aria-current");
    links.get(entry.target.id)?.setAttribute("aria-current", "true");
  }
}, { rootMargin: "-10% 0px -80% 0px" });
for (const section of document.querySelectorAll("section")) seen.observe(section);

for (const details of document.querySelectorAll("main details")) {
  details.addEventListener("toggle", () => {
    if (!details.open) return;
    for (const plot of plots) if (details.contains(plot.node)) draw(plot);
  });
}

for (const button of document.querySelectorAll(".copy")) {
  button.hidden = navigator.clipboard === undefined;
  button.addEventListener("click", () => {
    navigator.clipboard.writeText(button.nextElementSibling.textContent).then(() => {
      button.textContent = "copied";
      setTimeout(() => { button.textContent = "copy"; }, 1500);
    });
  });
}

drawAll().then(() => { root.dataset.drawn = "true"; });
