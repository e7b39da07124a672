// The prediction along one column, the other cells as they are: the mean with its band, or the
// probabilities of the classes.

import { bars, reach } from "./controls.js";
import { axis, band, Chart, h, line, linear, short, svg, tick, ticks } from "./drawing.js";
import { moment } from "./table.js";

const N_POINTS = 61;
const MOST = 12; // categories, or classes, that are shown
const DAY = 86_400_000;
const LEFT = 46; // pixels for the numbers of the vertical axis

// Where to look along a column: {cells, at, from, to, low, high}, at in numbers; null: nowhere.
export function path(column, cell) {
  if (column.kind === "number") {
    const { from, to } = reach(column);
    const ends = [Math.min(from, cell ?? from), Math.max(to, cell ?? to)];
    const at = Array.from(
      { length: N_POINTS },
      (_, i) => ends[0] + ((ends[1] - ends[0]) * i) / (N_POINTS - 1),
    );
    return { at, cells: at, from: ends[0], to: ends[1], low: column.low, high: column.high };
  }
  if (column.kind === "date") return datePath(column, cell);
  const cells = column.kind === "boolean" ? [false, true] : shownCategories(column, cell);
  return { cells, at: cells.map((_, i) => i), names: cells.map(String) };
}

function datePath(column, cell) {
  const low = moment(column.low ?? column.typical) ?? moment(cell);
  if (!low) return null;
  const high = moment(column.high) ?? new Date(+low + 365 * DAY);
  const width = Math.max(DAY, high - low);
  const from = +low - 0.25 * width;
  const to = +high + 0.25 * width;
  const at = Array.from({ length: N_POINTS }, (_, i) => from + ((to - from) * i) / (N_POINTS - 1));
  const iso = (t) => new Date(t).toISOString().slice(0, column.timed ? 19 : 10);
  return { at, cells: at.map(iso), from, to, low: +low, high: +high, date: true, iso };
}

// The commonest categories and the one of the row, in the order of the menu.
function shownCategories(column, cell) {
  const counts = column.counts ?? column.categories.map(() => 0);
  const order = column.categories.map((_, k) => k).sort((a, b) => counts[b] - counts[a] || a - b);
  const shown = order.slice(0, MOST);
  const own = column.categories.indexOf(cell);
  if (own >= 0 && !shown.includes(own)) shown[MOST - 1] = own;
  return shown.sort((a, b) => a - b).map((k) => column.categories[k]);
}

export class Profile {
  // `chosen(cell)` is called where someone points at a place of the picture.
  constructor(target, range, classes, chosen) {
    Object.assign(this, { target, range, classes, chosen });
    this.chart = new Chart(230, `${target} along a column`);
    this.chart.node.classList.add("wi-touch");
    const point = (event) => this.#point(event);
    this.chart.node.addEventListener("pointerdown", point);
    this.chart.node.addEventListener("pointermove", (event) => event.buttons && point(event));
    this.legend = h("p", { class: "wi-legend" });
    this.node = h("div", {}, this.chart.node, this.legend);
  }

  show(column, cell, along, predicted) {
    this.along = along;
    if (!along) {
      this.chart.show(() => []);
      return;
    }
    const draw = this.classes ? this.#shares : along.names ? this.#whiskers : this.#band;
    this.chart.show(
      (width, height) => draw.call(this, column, cell, predicted, width, height),
      `${this.target} along ${column.name}`,
    );
  }

  #point(event) {
    const { along, scale } = this;
    if (!along || !scale) return;
    const box = this.chart.node.getBoundingClientRect();
    const at = scale.inverse(event.clientX - box.left);
    if (along.names) {
      const place = Math.min(along.cells.length - 1, Math.max(0, Math.round(at)));
      this.chosen(along.cells[place]);
    } else {
      const inside = Math.min(along.to, Math.max(along.from, at));
      this.chosen(along.date ? along.iso(inside) : inside);
    }
    event.preventDefault();
  }

  // The scale of the picture across, which says where someone points.
  #across(width) {
    const { along } = this;
    const domain = along.names ? [-0.5, along.cells.length - 0.5] : [along.from, along.to];
    this.scale = linear(domain, [LEFT, width - 6]);
    return [this.scale, domain];
  }

  #foot(column, cell, x, domain, width, height) {
    const { along } = this;
    const foot = height - 34;
    if (along.names) {
      const room = (width - LEFT) / along.names.length;
      const cut = (name) =>
        name.length * 6.2 > room ? `${name.slice(0, Math.max(1, room / 6.2 - 1))}…` : name;
      return along.names.map((name, i) => tick(x(i), foot, cut(name), width));
    }
    const format = along.date ? (t) => new Date(t).toISOString().slice(0, 10) : short;
    const now = along.date ? moment(cell) : cell;
    const outside = [
      [along.from, along.low],
      [along.high, along.to],
    ].filter(([a, b]) => b > a);
    return [
      ...outside.map(([a, b]) =>
        svg("rect", { x: x(a), width: x(b) - x(a), y: 6, height: foot - 6, class: "wi-outside" }),
      ),
      ...bars(column, x, along.low, along.high, foot, 26),
      ...axis(x, domain, foot, width, column.name, format),
      now === null
        ? null
        : svg("line", { x1: x(now), x2: x(now), y1: 6, y2: foot, class: "wi-now" }),
    ];
  }

  #upright(values, height) {
    const finite = values.filter(Number.isFinite);
    const [low, high] = this.range;
    // A band that opens may leave the picture: three times the range of the targets is enough.
    const most = 1.5 * (high - low);
    const a = Math.max(low - most, Math.min(low, ...finite));
    const b = Math.min(high + most, Math.max(high, ...finite));
    const y = linear([a, b], [height - 36, 8]);
    const labels = ticks([a, b], 5).map((value) => [
      svg("line", { x1: LEFT, x2: "100%", y1: y(value), y2: y(value), class: "wi-grid" }),
      svg(
        "text",
        { x: LEFT - 6, y: y(value) + 4, class: "wi-tick", "text-anchor": "end" },
        short(value),
      ),
    ]);
    const clamp = (value) => y(Math.min(b + most, Math.max(a - most, value)));
    return [clamp, labels];
  }

  // What would leave the picture ends at its edge.
  #clipped(width, height, ...nodes) {
    const id = `wi-clip-${this.id}`;
    const box = { x: LEFT, y: 6, width: width - LEFT, height: height - 40 };
    return [
      svg("clipPath", { id }, svg("rect", box)),
      svg("g", { "clip-path": `url(#${id})` }, ...nodes),
    ];
  }

  #summaries(predicted) {
    return predicted.map((p) => {
      const [lower, upper] = p.interval(0.95);
      return {
        mean: p.mean,
        lower,
        upper,
        in2: [p.mean - 2 * p.epistemicStd, p.mean + 2 * p.epistemicStd],
      };
    });
  }

  #band(column, cell, predicted, width, height) {
    const [x, domain] = this.#across(width);
    const each = this.#summaries(predicted);
    const [y, labels] = this.#upright(
      each.flatMap((p) => [p.lower, p.upper]),
      height,
    );
    const trace = (value) => each.map((p, i) => [x(this.along.at[i]), y(value(p))]);
    this.legend.textContent =
      "Band: 95 % of targets; inner band: what the model does not know. Bars: rows.";
    return [
      ...labels,
      ...this.#clipped(
        width,
        height,
        svg("path", {
          d: band(
            trace((p) => p.lower),
            trace((p) => p.upper),
          ),
          class: "wi-noise-area",
        }),
        svg("path", {
          d: band(
            trace((p) => p.in2[0]),
            trace((p) => p.in2[1]),
          ),
          class: "wi-model-area",
        }),
        svg("path", { d: line(trace((p) => p.mean)), class: "wi-line" }),
      ),
      ...this.#foot(column, cell, x, domain, width, height),
    ];
  }

  #whiskers(column, cell, predicted, width, height) {
    const [x, domain] = this.#across(width);
    const each = this.#summaries(predicted);
    const [y, labels] = this.#upright(
      each.flatMap((p) => [p.lower, p.upper]),
      height,
    );
    this.legend.textContent = "Thin: 95 % of targets; thick: what the model does not know.";
    return [
      ...labels,
      ...this.#clipped(
        width,
        height,
        ...each.flatMap((p, i) => {
          const at = { x1: x(i), x2: x(i) };
          const here = this.along.cells[i] === cell ? " wi-here" : "";
          return [
            svg("line", { ...at, y1: y(p.lower), y2: y(p.upper), class: "wi-whisker" }),
            svg("line", { ...at, y1: y(p.in2[0]), y2: y(p.in2[1]), class: "wi-thick" }),
            svg("circle", { cx: x(i), cy: y(p.mean), r: 4.5, class: `wi-dot${here}` }),
          ];
        }),
      ),
      ...this.#foot(column, cell, x, domain, width, height),
    ];
  }

  // Probabilities of classes, one on top of the other.
  #shares(column, cell, predicted, width, height) {
    const [x, domain] = this.#across(width);
    const y = linear([0, 1], [height - 36, 8]);
    const shown = Math.min(MOST, this.classes.length);
    const labels = [0, 0.5, 1].map((p) =>
      svg(
        "text",
        { x: LEFT - 6, y: y(p) + 4, class: "wi-tick", "text-anchor": "end" },
        `${100 * p} %`,
      ),
    );
    const sums = predicted.map((p) => {
      let sum = 0;
      return [0, ...p.proba.slice(0, shown).map((q) => (sum += q))];
    });
    const half = this.along.names ? 0.35 : 0;
    const areas = Array.from({ length: shown }, (_, c) => {
      const edge = (k) => sums.map((s, i) => [x(this.along.at[i]), y(s[k])]);
      if (!half) return svg("path", { d: band(edge(c), edge(c + 1)), class: `wi-class-${c % 8}` });
      return sums.map((s, i) =>
        svg("rect", {
          x: x(i - half),
          width: x(i + half) - x(i - half),
          y: y(s[c + 1]),
          height: Math.max(0, y(s[c]) - y(s[c + 1])),
          class: `wi-class-${c % 8}`,
        }),
      );
    });
    this.legend.replaceChildren(
      ...this.classes
        .slice(0, shown)
        .map((name, c) => h("span", {}, h("i", { class: `wi-class-${c % 8}` }), ` ${name} `)),
    );
    return [...labels, ...areas, ...this.#foot(column, cell, x, domain, width, height)];
  }
}
