/** A map of numbers with labels that stay in sight, a cross under the pointer, and cells that keep their shape. */
function heatMap(onPick, describe) {
  const corner = el("div", { class: "heat-corner" });
  const top = el("div", { class: "heat-top" });
  const left = el("div", { class: "heat-left" });
  const canvas = el("canvas");
  const lines = el("div", { class: "heat-lines" });
  const row = el("div", { class: "heat-band" });
  const column = el("div", { class: "heat-band" });
  const spot = el("div", { class: "heat-spot" });
  const cells = el("div", { class: "heat-cells" }, canvas, lines, row, column, spot);
  const grid = el("div", { class: "heat-grid" }, corner, top, left, cells);
  const node = el("div", { class: "heat", tabindex: 0, role: "group" }, grid);
  let view = null;
  let cell = 12;
  let zoom = 1;
  let picked = null;

  function place() {
    if (!view || !node.clientWidth) return;
    const { smallest = 10, largest = 52 } = view;
    grid.style.setProperty("--letters", "12px");
    const wide = (node.clientWidth - left.offsetWidth - 2) / view.columns;
    const high = (0.78 * window.innerHeight - top.offsetHeight) / view.rows;
    const fitting = Math.min(Math.max(Math.floor(Math.min(wide, high)), smallest), largest);
    cell = Math.max(3, Math.round(fitting * zoom));
    grid.style.setProperty("--cell", `${cell}px`);
    grid.style.setProperty("--letters", `${Math.max(9, Math.min(13, cell - 1))}px`);
    canvas.style.width = `${cell * view.columns}px`;
    canvas.style.height = `${cell * view.rows}px`;
    lines.style.backgroundImage = cell < 7 ? "none" : `linear-gradient(to right, var(--panel) 1px, transparent 1px), linear-gradient(to bottom, var(--panel) 1px, transparent 1px)`;
    lines.style.backgroundSize = `${cell}px ${cell}px`;
    cells.style.background = `repeating-linear-gradient(45deg, var(--stripe) 0 3px, transparent 3px 6px)`;
    mark();
  }

  function mark() {
    for (const label of grid.querySelectorAll(".picked")) label.classList.remove("picked");
    for (const part of [row, column, spot]) part.hidden = picked === null;
    if (picked === null) return;
    const [r, c] = picked;
    const put = (part, x, y, width, height) => {
      Object.assign(part.style, { left: `${x}px`, top: `${y}px`, width: `${width}px`, height: `${height}px` });
    };
    put(row, 0, r * cell, view.columns * cell, cell);
    put(column, c * cell, 0, cell, view.rows * cell);
    put(spot, c * cell, r * cell, cell, cell);
    left.children[r]?.classList.add("picked");
    top.children[c]?.classList.add("picked");
  }

  function under(event) {
    const box = canvas.getBoundingClientRect();
    const at = (offset, count) => Math.min(Math.max(Math.floor(offset / cell), 0), count - 1);
    return [at(event.clientY - box.top, view.rows), at(event.clientX - box.left, view.columns)];
  }

  cells.addEventListener("pointermove", (event) => {
    const [r, c] = under(event);
    onPick(r, c);
    showTip(event, ...describe(r, c));
  });
  cells.addEventListener("pointerdown", (event) => onPick(...under(event)));
  cells.addEventListener("pointerleave", hideTip);
  new ResizeObserver(place).observe(node);

  return {
    node,
    /** A view: values, rows, columns, rowLabels, columnLabels, low, high, colours, hidden, rowName, columnName. */
    show(next) {
      const labels = (names) => names.map((name) => el("span", { title: name }, name));
      if (!view || view.rowLabels !== next.rowLabels) left.replaceChildren(...labels(next.rowLabels));
      if (!view || view.columnLabels !== next.columnLabels) top.replaceChildren(...labels(next.columnLabels));
      view = next;
      node.setAttribute("aria-label", next.name);
      node.classList.toggle("sparse", Boolean(next.sparse));
      corner.replaceChildren(el("span", {}, `${next.columnName} →`), el("span", {}, `${next.rowName} ↓`));
      if (picked && (picked[0] >= view.rows || picked[1] >= view.columns)) picked = null;
      paint(canvas, view);
      place();
    },
    pick(r, c) {
      picked = [r, c];
      mark();
    },
    /** Brings the picked cell into sight, for those who move by keys. */
    reveal() {
      const shown = spot.getBoundingClientRect();
      const box = node.getBoundingClientRect();
      const near = cells.getBoundingClientRect();
      const hiddenLeft = near.left + node.scrollLeft - box.left;
      const hiddenTop = near.top + node.scrollTop - box.top;
      if (shown.left < box.left + hiddenLeft || shown.right > box.right) node.scrollLeft += shown.left - box.left - hiddenLeft - 40;
      if (shown.top < box.top + hiddenTop || shown.bottom > box.bottom) node.scrollTop += shown.top - box.top - hiddenTop - 40;
    },
    zoom(factor) {
      zoom = factor === null ? 1 : Math.min(Math.max(zoom * factor, 0.25), 6);
      place();
    },
  };
}

function zoomButtons(map) {
  const button = (label, name, factor) =>
    el("button", { type: "button", "aria-label": name, title: name, onclick: () => map.zoom(factor) }, label);
  return el("div", { class: "choices" }, button("−", "Smaller", 1 / 1.3), button("Fit", "Fit", null), button("+", "Larger", 1.3));
}

/** The colours with numbers beside them. */
function colourBar() {
  const canvas = el("canvas", { width: 256, height: 1 });
  const numbers = el("div");
  return {
    node: el("div", { class: "bar" }, canvas, numbers),
    show({ low, high, root = false, colours = "sequential" }) {
      paint(canvas, { values: Array.from({ length: 256 }, (_, i) => i / 255), rows: 1, columns: 256, low: 0, high: 1, colours });
      const shares = [0, 0.25, 0.5, 0.75, 1];
      numbers.replaceChildren(...shares.map((share) => el("span", {}, number(valueAt(share, { low, high, root }), 2))));
    },
  };
}
