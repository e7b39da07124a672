// The prediction along one column, the other cells as they are: the mean with its band, or the
// probabilities of the classes.

import { bars, reach } from "./controls.js";
import {
  axis,
  band,
  Chart,
  dateText,
  dateTicks,
  h,
  line,
  linear,
  scaled,
  short,
  svg,
  textWidth,
  upright,
  way,
} from "./drawing.js";
import { moment } from "./table.js";

const N_POINTS = 61;
const MOST = 12; // categories, or classes, that are shown
const DAY = 86_400_000;
const LEFT = 46; // pixels for the numbers of the vertical axis
const LONGEST = 22; // letters of a category that are shown

// Where to look along a column: {cells, at, from, to, low, high}, at in numbers; null: nowhere.
export function path(column, cell) {
  if (column.kind === "number") {
    const { from, to } = reach(column);
    const shown = column.log && cell <= 0 ? from : (cell ?? from);
    const ends = [Math.min(from, shown), Math.max(to, shown)];
    const place = scaled({ low: ends[0], high: ends[1], log: column.log }, [0, N_POINTS - 1]);
    const at = Array.from({ length: N_POINTS }, (_, i) => place.inverse(i));
    const { low, high, log } = column;
    return { at, cells: at, from: ends[0], to: ends[1], low, high, log };
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
    this.chart = new Chart(250, `${target} along a column`);
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

  // The scale of the picture across, which says where someone points, and the height of its foot:
  // names that are too long for their place are slanted.
  #across(width, height) {
    const { along } = this;
    const domain = along.names ? [-0.5, along.cells.length - 0.5] : [along.from, along.to];
    this.scale = scaled({ low: domain[0], high: domain[1], log: along.log }, [LEFT, width - 6]);
    this.names = along.names?.map((text) =>
      text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text,
    );
    const longest = Math.max(0, ...(this.names ?? []).map(textWidth));
    this.slanted = longest + 6 > (width - LEFT) / (this.names?.length ?? 1);
    if (!this.names || !this.slanted) return [this.scale, height - 22];
    this.angle = Math.acos(Math.min(0.8, this.scale(0) / longest)); // as flat as the first has room
    return [this.scale, height - 18 - Math.sin(this.angle) * longest];
  }

  #foot(column, cell, x, foot, width) {
    const { along } = this;
    if (along.names) {
      return this.names.map((name, i) => {
        const at = this.slanted
          ? {
              transform: `translate(${x(i) + 4} ${foot + 10}) rotate(${(-180 * this.angle) / Math.PI})`,
              "text-anchor": "end",
            }
          : { x: x(i), y: foot + 14, "text-anchor": "middle" };
        return svg("text", { ...at, class: "wi-tick" }, svg("title", {}, along.names[i]), name);
      });
    }
    const whole = { marks: (n) => x.ticks(n).filter(Number.isInteger), format: String };
    const dates = { marks: (n) => dateTicks([along.from, along.to], n), format: dateText };
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
      ...axis(x, foot, width, along.date ? dates : column.whole ? whole : {}),
      now === null || (along.log && now <= 0)
        ? null
        : svg("line", { x1: x(now), x2: x(now), y1: 6, y2: foot, class: "wi-now" }),
    ];
  }

  // A band that opens may leave the picture: three times the range of the targets is enough.
  #upright(values, foot) {
    const { forward, inverse } = way(this.range);
    const [low, high] = [forward(this.range.low), forward(this.range.high)];
    const most = (this.range.log ? 0.3 : 1) * (high - low);
    const finite = values.map(forward).filter(Number.isFinite);
    const a = Math.max(low - most, Math.min(low, ...finite));
    const b = Math.min(high + most, Math.max(high, ...finite));
    const { log } = this.range;
    const y = scaled({ low: inverse(a), high: inverse(b), log }, [foot - 2, 8]);
    const clamp = (value) => y(inverse(Math.min(b + most, Math.max(a - most, forward(value)))));
    return [clamp, upright(y, LEFT)];
  }

  // What would leave the picture ends at its edge.
  #clipped(width, foot, ...nodes) {
    const id = `wi-clip-${this.id}`;
    const box = { x: LEFT, y: 6, width: width - LEFT, height: foot - 6 };
    return [
      svg("clipPath", { id }, svg("rect", box)),
      svg("g", { "clip-path": `url(#${id})` }, ...nodes),
    ];
  }

  #says(words) {
    const axes = [this.range.log ? "upright" : null, this.along.log ? "horizontal" : null];
    const log = axes.filter(Boolean).map((axis) => ` The ${axis} axis is logarithmic.`);
    this.legend.textContent = words + log.join("");
  }

  #summaries(predicted) {
    return predicted.map((p) => {
      const [lower, upper] = p.interval(0.95);
      return {
        mean: p.mean,
        lower,
        upper,
        in2: [
          Math.max(lower, p.mean - 2 * p.epistemicStd),
          Math.min(upper, p.mean + 2 * p.epistemicStd),
        ],
      };
    });
  }

  #band(column, cell, predicted, width, height) {
    const [x, foot] = this.#across(width, height);
    const each = this.#summaries(predicted);
    const [y, labels] = this.#upright(
      each.flatMap((p) => [p.lower, p.upper]),
      foot,
    );
    const trace = (value) => each.map((p, i) => [x(this.along.at[i]), y(value(p))]);
    this.#says("Band: 95 % predictive interval; inner band: epistemic part. Bars: samples.");
    return [
      ...labels,
      ...this.#clipped(
        width,
        foot,
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
      ...this.#foot(column, cell, x, foot, width),
    ];
  }

  #whiskers(column, cell, predicted, width, height) {
    const [x, foot] = this.#across(width, height);
    const each = this.#summaries(predicted);
    const [y, labels] = this.#upright(
      each.flatMap((p) => [p.lower, p.upper]),
      foot,
    );
    this.#says("Thin: 95 % predictive interval; thick: epistemic part.");
    return [
      ...labels,
      ...this.#clipped(
        width,
        foot,
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
      ...this.#foot(column, cell, x, foot, width),
    ];
  }

  // Probabilities of classes, one on top of the other; of two the positive one at the bottom.
  #shares(column, cell, predicted, width, height) {
    const [x, foot] = this.#across(width, height);
    const y = linear([0, 1], [foot - 2, 8]);
    const order = this.classes.map((_, c) => c).slice(0, MOST);
    if (this.classes.length === 2) order.reverse();
    const labels = upright(y, LEFT, (p) => `${Math.round(100 * p)} %`);
    const sums = predicted.map((p) => {
      let sum = 0;
      return [0, ...order.map((c) => (sum += p.proba[c]))];
    });
    const half = this.along.names ? 0.35 : 0;
    const areas = order.map((c, k) => {
      const edge = (j) => sums.map((s, i) => [x(this.along.at[i]), y(s[j])]);
      if (!half) return svg("path", { d: band(edge(k), edge(k + 1)), class: `wi-class-${c % 8}` });
      return sums.map((s, i) =>
        svg("rect", {
          x: x(i - half),
          width: x(i + half) - x(i - half),
          y: y(s[k + 1]),
          height: Math.max(0, y(s[k]) - y(s[k + 1])),
          class: `wi-class-${c % 8}`,
        }),
      );
    });
    this.legend.replaceChildren(
      ...order.map((c) =>
        h("span", {}, h("i", { class: `wi-class-${c % 8}` }), ` ${this.classes[c]} `),
      ),
    );
    return [...labels, ...areas, ...this.#foot(column, cell, x, foot, width)];
  }
}
