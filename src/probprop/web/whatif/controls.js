// A control for every column of the table.

import { h, scaled, svg, way } from "./drawing.js";

const BEYOND = 0.5; // of the range of the training rows, on either side
const BEYOND_LOG = 0.2; // of that of its logarithm, for skewed columns

// Where the slider of a column of numbers goes, and in which steps.
export function reach(column) {
  if (column.log) {
    const part = (column.high / column.low) ** BEYOND_LOG;
    const snap = (x) => (column.whole ? Math.round(x) : Number(x.toPrecision(3)));
    return { from: column.low / part, to: column.high * part, step: 1, snap };
  }
  const width = column.high - column.low || column.scale;
  const start = column.low - BEYOND * width;
  const from = column.low >= 0 ? Math.max(0, start) : start; // what is never below 0 stays so
  const step = column.whole ? 1 : 10 ** Math.floor(Math.log10(width / 200));
  const snap = (x) => Number((Math.round(x / step) * step).toPrecision(12));
  return { from: snap(from), to: snap(column.high + BEYOND * width), step, snap };
}

// Bars of the rows of a column between `low` and `high`, at the foot of a picture.
export function bars(column, scale, low, high, foot, height) {
  const counts = column.counts;
  if (!counts?.length) return [];
  const most = Math.max(...counts);
  const { forward, inverse } = way(column);
  const [first, width] = [forward(low), (forward(high) - forward(low)) / counts.length];
  const edge = (i) => scale(inverse(first + i * width));
  return Array.from(counts, (count, i) => {
    if (!count) return null;
    const [left, right] = [edge(i), edge(i + 1)];
    const size = Math.max(1.5, (height * count) / most);
    const box = { x: left, y: foot - size, width: Math.max(1, right - left - 0.5), height: size };
    return svg("rect", { ...box, class: "wi-rows" });
  });
}

// The range of the training rows above a slider, whose thumb is 16 pixels wide.
function rail(column) {
  const { from, to } = reach(column);
  const x = scaled({ low: from, high: to, log: column.log }, [0, 1000]);
  const [low, high] = [x(column.low), x(column.high)];
  return svg(
    "svg",
    {
      class: "wi-rail",
      viewBox: "0 0 1000 20",
      preserveAspectRatio: "none",
      "aria-hidden": "true",
    },
    ...bars(column, x, column.low, column.high, 17, 16).filter(Boolean),
    svg("rect", { x: low, width: Math.max(4, high - low), y: 17, height: 3, class: "wi-range" }),
  );
}

const FIRST = 12; // controls that are always shown, if there are more than a few others
const LONG = 14; // letters of a category, whose menu needs a line of its own
const GROUP = 20; // others that are folded together

// A number as a person writes it; the cell itself keeps all digits.
function written(cell) {
  if (cell === null) return "";
  return String(Number.isInteger(cell) ? cell : Number(cell.toPrecision(5)));
}

export class Controls {
  // `order` has the places of the columns, the most important first; `changed(i, cell)` is called
  // with every change by hand.
  constructor(columns, order, takesGaps, changed) {
    this.columns = columns;
    this.takesGaps = takesGaps;
    const make = {
      number: (...own) => this.#number(...own),
      boolean: (...own) => this.#boolean(...own),
      text: (...own) => this.#text(...own),
      date: (...own) => this.#date(...own),
    };
    this.each = columns.map((column, i) =>
      make[column.kind](column, `wi-${i}`, (cell) => changed(i, cell)),
    );
    const nodes = order.map((i) => this.each[i].node);
    const first = nodes.length > FIRST + 3 ? FIRST : nodes.length;
    this.folded = [];
    for (let start = first; start < nodes.length; start += GROUP) {
      const own = nodes.slice(start, start + GROUP);
      const title = `Columns ${start + 1} to ${start + own.length} of ${nodes.length} by importance`;
      this.folded.push(h("details", {}, h("summary", {}, title), ...own));
    }
    const search = h("input", {
      type: "search",
      class: "wi-search",
      placeholder: `Search ${nodes.length} columns`,
      "aria-label": "Search columns",
      oninput: () => this.#find(search.value.trim().toLowerCase()),
    });
    this.node = h(
      "div",
      { class: "wi-cells" },
      this.folded.length ? search : null,
      ...nodes.slice(0, first),
      ...this.folded,
    );
  }

  // Only the columns whose name has this text; all of them for an empty one.
  #find(text) {
    this.columns.forEach(({ name }, i) => {
      this.each[i].node.hidden = !name.toLowerCase().includes(text);
    });
    for (const group of this.folded) {
      group.hidden = !group.querySelector(".wi-cell:not([hidden])");
      group.open = text !== "";
    }
  }

  show(cells) {
    this.each.forEach((control, i) => control.show(cells[i]));
  }

  #cell(column, id, inputs, below, unknown) {
    return h(
      "div",
      { class: `wi-cell wi-${column.kind}` },
      h("label", { for: id, title: column.name }, column.name),
      unknown,
      ...inputs,
      below,
    );
  }

  // "unknown", where the model can do without the cell.
  #unknown(column, changed, value) {
    if (!this.takesGaps) return { node: null, show: () => {} };
    const box = h("input", {
      type: "checkbox",
      "aria-label": `${column.name} is unknown`,
      onchange: () => changed(box.checked ? null : value()),
    });
    const node = h("span", { class: "wi-unknown" }, h("label", {}, box, " unknown"));
    return { node, show: (cell) => (box.checked = cell === null) };
  }

  #number(column, id, changed) {
    const { from, to, step, snap } = reach(column);
    const { forward, inverse } = way(column);
    let last = column.typical;
    const keep = (value) => {
      if (!Number.isFinite(value)) return;
      last = value;
      changed(value);
    };
    const box = h("input", {
      id,
      type: "number",
      step: "any",
      oninput: () => box.value !== "" && keep(Number(box.value)),
      onchange: () => box.value === "" && this.takesGaps && changed(null),
    });
    const slider = h("input", {
      type: "range",
      min: forward(from),
      max: forward(to),
      step: column.whole && !column.log ? step : "any",
      "aria-label": `${column.name}, slider`,
      oninput: () => {
        const value = snap(inverse(Number(slider.value)));
        box.value = written(value);
        keep(value);
      },
    });
    const unknown = this.#unknown(column, changed, () => last);
    const below = h("div", { class: "wi-slide" }, rail(column), slider);
    const node = this.#cell(column, id, [box], below, unknown.node);
    const show = (cell) => {
      last = cell ?? last;
      if (document.activeElement !== box || cell === null) box.value = written(cell);
      slider.value = forward(cell ?? last);
      slider.setAttribute("aria-valuetext", cell === null ? "unknown" : written(cell));
      node.classList.toggle("wi-gap", cell === null);
      node.classList.toggle(
        "wi-beyond",
        cell !== null && (cell < column.low || cell > column.high),
      );
      unknown.show(cell);
    };
    return { node, show, snap };
  }

  #boolean(column, id, changed) {
    const box = h("input", {
      id,
      type: "checkbox",
      role: "switch",
      onchange: () => changed(box.checked),
    });
    const unknown = this.#unknown(column, changed, () => box.checked);
    const node = this.#cell(column, id, [box], null, unknown.node);
    const show = (cell) => {
      if (cell !== null) box.checked = cell;
      box.indeterminate = cell === null;
      node.classList.toggle("wi-gap", cell === null);
      unknown.show(cell);
    };
    return { node, show };
  }

  #text(column, id, changed) {
    const total = column.counts?.reduce((sum, n) => sum + n, 0);
    const option = (name, k) =>
      h(
        "option",
        { value: k },
        total ? `${name} (${Math.round((100 * column.counts[k]) / total)} %)` : name,
      );
    const none = h("option", { value: "" }, this.takesGaps ? "unknown" : "another");
    const menu = h(
      "select",
      { id, onchange: () => changed(menu.value === "" ? null : column.categories[menu.value]) },
      ...column.categories.map(option),
      none,
    );
    const node = this.#cell(column, id, [menu], null, null);
    node.classList.toggle(
      "wi-long",
      column.categories.some((name) => name.length > LONG),
    );
    const show = (cell) => {
      const place = [cell, "(other)"].map((name) => column.categories.indexOf(name));
      menu.value = cell === null ? "" : String(Math.max(place[0], place[0] < 0 ? place[1] : 0));
      node.classList.toggle("wi-gap", cell === null);
    };
    return { node, show };
  }

  #date(column, id, changed) {
    let last = column.typical;
    const box = h("input", {
      id,
      type: column.timed ? "datetime-local" : "date",
      step: column.timed ? 1 : null,
      oninput: () => {
        if (box.value === "") return;
        last = box.value;
        changed(box.value);
      },
    });
    const unknown = this.#unknown(column, changed, () => last);
    const range = column.low
      ? `rows from ${column.low.slice(0, 10)} to ${column.high.slice(0, 10)}`
      : null;
    const note = range ? h("small", {}, range) : null;
    const node = this.#cell(column, id, [box], note, unknown.node);
    const show = (cell) => {
      last = cell ?? last;
      if (document.activeElement !== box) box.value = cell ?? "";
      node.classList.toggle("wi-gap", cell === null);
      unknown.show(cell);
    };
    return { node, show };
  }
}
