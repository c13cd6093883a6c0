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
  let wide = 12;
  let tall = 12;
  let zoom = 1;
  let picked = null;

  /** As large as the room allows, within what can be read; square unless the view says otherwise. */
  function place() {
    if (!view || !node.clientWidth) return;
    const { smallest = 10, largest = 52, square = true } = view;
    const within = (size) => Math.min(Math.max(Math.floor(size), smallest), largest);
    grid.style.setProperty("--letters", "12px");
    const across = (node.clientWidth - left.offsetWidth - 2) / view.columns;
    const down = (0.78 * window.innerHeight - top.offsetHeight) / view.rows;
    const [width, height] = square ? Array(2).fill(within(Math.min(across, down))) : [within(across), within(0.6 * down)];
    wide = Math.max(2, Math.round(width * zoom));
    tall = Math.max(2, Math.round(height * zoom));
    const smaller = Math.min(wide, tall);
    grid.style.setProperty("--wide", `${wide}px`);
    grid.style.setProperty("--tall", `${tall}px`);
    grid.style.setProperty("--letters", `${Math.max(9, Math.min(13, smaller - 1))}px`);
    canvas.style.width = `${wide * view.columns}px`;
    canvas.style.height = `${tall * view.rows}px`;
    const line = (side) => `linear-gradient(to ${side}, var(--panel) 1px, transparent 1px)`;
    lines.style.backgroundImage = smaller < 7 ? "none" : `${line("right")}, ${line("bottom")}`;
    lines.style.backgroundSize = `${wide}px ${tall}px`;
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
    put(row, 0, r * tall, view.columns * wide, tall);
    put(column, c * wide, 0, wide, view.rows * tall);
    put(spot, c * wide, r * tall, wide, tall);
    left.children[r]?.classList.add("picked");
    top.children[c]?.classList.add("picked");
  }

  function under(event) {
    const box = canvas.getBoundingClientRect();
    const at = (offset, size, count) => Math.min(Math.max(Math.floor(offset / size), 0), count - 1);
    return [at(event.clientY - box.top, tall, view.rows), at(event.clientX - box.left, wide, view.columns)];
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
    /** What paint takes, and rowLabels, columnLabels, rowName, columnName, name; sparse, square, smallest, largest. */
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
