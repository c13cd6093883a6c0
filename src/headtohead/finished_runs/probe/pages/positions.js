/** Names of the places along an axis: every so many, so that they do not touch. */
function ticks(first, count) {
  const every = [1, 2, 4, 8, 16, 32, 64].find((step) => count / step <= 24) ?? 128;
  return Array.from({ length: count }, (_, i) => ((first + i) % every === 0 ? String(first + i) : ""));
}

function panelNode(panel) {
  const values = floats(panel.values);
  const hidden = (r, c) => panel.causal && c > r;
  const bar = colourBar();
  const read = el("span", { class: "note mono" }, "point at a cell");
  const map = heatMap(
    (r, c) => {
      map.pick(r, c);
      read.textContent = `${panel.row_name} ${panel.first_row + r}, ${panel.column_name} ${panel.first_column + c}: ${valueAt(r, c)}`;
    },
    (r, c) => [`${panel.row_name} ${panel.first_row + r}`, `${panel.column_name} ${panel.first_column + c}`, el("b", { class: "mono" }, valueAt(r, c))],
  );
  const valueAt = (r, c) => (hidden(r, c) ? "hidden by the causal mask" : number(values[r * panel.columns + c], 4));
  const { low, high, colours } = panel;
  const scale = { low, high, colours };
  const view = {
    ...scale, values, rows: panel.rows, columns: panel.columns, name: panel.title, hidden, sparse: true, square: false, smallest: 2, largest: 20,
    rowLabels: ticks(panel.first_row, panel.rows), columnLabels: ticks(panel.first_column, panel.columns),
    rowName: panel.row_name, columnName: panel.column_name,
  };
  const show = () => {
    map.show(view);
    bar.show(scale);
  };
  theme.listeners.push(show);
  later.push(show);
  return el(
    "section",
    { class: "panel" },
    el("header", {}, el("h2", {}, panel.title)),
    el("header", {}, bar.node, zoomButtons(map)),
    map.node,
    read,
  );
}

const hue = (i, count) => `hsl(${Math.round(225 + (i * 300) / Math.max(count, 1)) % 360} 65% ${theme.name === "dark" ? 68 : 45}%)`;

function curvesNode(curves) {
  const [width, height, left, foot] = [520, 230, 48, 24];
  const all = curves.values.flat();
  const [low, high] = [Math.min(...all, 0), Math.max(...all, 0)];
  const spread = high - low || 1;
  const count = curves.values[0].length;
  const x = (i) => left + (i / Math.max(count - 1, 1)) * (width - left - 8);
  const y = (value) => 8 + (1 - (value - low) / spread) * (height - 16);
  const at = drawing("line", { class: "at", y1: 8, y2: height - 8, visibility: "hidden" });
  const text = (px, py, anchor, content) => drawing("text", { x: px, y: py, "text-anchor": anchor }, content);
  const paths = curves.values.map((line) => drawing("path", { d: line.map((value, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`).join("") }));
  const key = el("div", { class: "key" });
  const paintLines = () => {
    paths.forEach((path, i) => path.setAttribute("stroke", hue(i, paths.length)));
    key.replaceChildren(...(paths.length > 1 ? curves.names.map((name, i) => el("span", {}, el("i", { style: `background: ${hue(i, paths.length)}` }), name)) : []));
  };
  theme.listeners.push(paintLines);
  paintLines();
  const chart = drawing(
    "svg",
    { viewBox: `0 0 ${width} ${height + foot}`, role: "img", "aria-label": curves.title },
    drawing("line", { class: "axis", x1: left, x2: width - 8, y1: y(0), y2: y(0) }),
    drawing("line", { class: "axis", x1: left, x2: left, y1: 8, y2: height - 8 }),
    text(left - 6, y(high) + 4, "end", number(high, 2)),
    low < 0 ? text(left - 6, y(low) + 4, "end", number(low, 2)) : text(left - 6, y(0) + 4, "end", "0"),
    text(left, height + 12, "start", String(curves.first)),
    text(width - 8, height + 12, "end", String(curves.first + count - 1)),
    text((left + width) / 2, height + 12, "middle", curves.axis),
    ...paths,
    at,
  );
  chart.addEventListener("pointermove", (event) => {
    const box = chart.getBoundingClientRect();
    const share = (((event.clientX - box.left) / box.width) * width - left) / (width - left - 8);
    const i = Math.min(Math.max(Math.round(share * (count - 1)), 0), count - 1);
    at.setAttribute("x1", x(i));
    at.setAttribute("x2", x(i));
    at.setAttribute("visibility", "visible");
    showTip(event, `distance ${curves.first + i}`, ...curves.names.map((name, n) => `${name}: ${number(curves.values[n][i], 4)}`));
  });
  chart.addEventListener("pointerleave", () => {
    at.setAttribute("visibility", "hidden");
    hideTip();
  });
  return el("section", { class: "panel lines" }, el("header", {}, el("h2", {}, curves.title)), chart, key);
}

const later = [];
document.body.append(
  pageTop(),
  ...content.encodings.map((encoding) =>
    el(
      "section",
      { class: "encoding" },
      el("h2", {}, encoding.name),
      el("p", { class: "note" }, encoding.figures),
      el("div", { class: "pair-of-panels" }, ...encoding.curves.map(curvesNode), ...encoding.panels.map(panelNode)),
    ),
  ),
  tip,
);
for (const show of later) show();
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") hideTip();
});
