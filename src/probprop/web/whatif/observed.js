// The rows of the report, predicted against observed: click one to begin with it.

import { axis, Chart, h, linear, scaled, svg, upright } from "./drawing.js";

const LEFT = 46;

export class Observed {
  // `rows` has observed and predicted, (n, K) each, flat; `chosen(i)` loads a row.
  constructor(target, k, K, rows, range, classes, chosen) {
    Object.assign(this, { target, rows, range, classes, chosen });
    this.n = rows.numbers.length;
    this.observed = Array.from({ length: this.n }, (_, i) => rows.observed[i * K + k]);
    this.predicted = Array.from({ length: this.n }, (_, i) => rows.predicted[i * K + k]);
    this.chart = new Chart(230, `${this.n} rows, predicted against observed ${target}`);
    this.chart.node.classList.add("wi-touch");
    this.chart.node.addEventListener("click", (event) => this.#click(event));
    this.words = "";
    this.legend = h("p", { class: "wi-legend" });
    this.node = h("div", {}, this.chart.node, this.legend);
  }

  show(current) {
    if (current === this.current) return;
    this.current = current;
    this.chart.show((width, height) => this.#draw(current, width, height));
    this.legend.textContent = this.words;
  }

  #click(event) {
    const box = this.chart.node.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const far = this.places.map(([px, py]) => (px - x) ** 2 + (py - y) ** 2);
    const nearest = far.indexOf(Math.min(...far));
    if (far[nearest] < 30 ** 2) this.chosen(nearest);
  }

  #draw(current, width, height) {
    const foot = height - 22;
    const parts = this.classes ? this.#strips(width, foot) : this.#plane(width, foot);
    const dot = (i, name, r) =>
      svg("circle", { cx: this.places[i][0], cy: this.places[i][1], r, class: name });
    return [
      parts,
      this.places.map((_, i) => dot(i, "wi-point", 3)),
      current === null ? null : dot(current, "wi-dot wi-here", 5.5),
    ];
  }

  // What lies beyond the axes, which are the same, is at their edge.
  #plane(width, foot) {
    const { low, high, log } = this.range;
    const [x, y] = [scaled(this.range, [LEFT, width - 8]), scaled(this.range, [foot - 4, 8])];
    const inside = (value) => Math.min(high, Math.max(low, value));
    this.places = this.observed.map((v, i) => [x(inside(v)), y(inside(this.predicted[i]))]);
    const out = (value) => inside(value) !== value;
    const beyond = this.observed.filter((v, i) => out(v) || out(this.predicted[i])).length;
    this.words = "Horizontal: observed; vertical: predicted.";
    if (log) this.words += " Both axes are logarithmic.";
    if (beyond) this.words += ` Outside the axes, drawn at the edge: ${beyond} of ${this.n} rows.`;
    const across = { x1: x(low), y1: y(low), x2: x(high), y2: y(high) };
    return [
      upright(y, LEFT),
      svg("line", { ...across, class: "wi-diagonal" }),
      axis(x, foot, width),
    ];
  }

  // A line for each class that was observed; across, the probability of the positive class of two,
  // or the one that the observed class had been given.
  #strips(width, foot) {
    const K = this.classes.length;
    const left = Math.min(110, 0.3 * width);
    const x = linear([0, 1], [left, width - 12]);
    const y = linear([-0.5, K - 0.5], [8, foot - 4]);
    const room = 0.7 * (y(1) - y(0));
    const shift = (i) => (((i * 7919) % 101) / 101 - 0.5) * room; // so that they do not hide each other
    const shown = (c, p) => (K === 2 && c === 0 ? 1 - p : p);
    this.places = this.observed.map((c, i) => [x(shown(c, this.predicted[i])), y(c) + shift(i)]);
    this.words = `Horizontal: probability of ${K === 2 ? this.classes[1] : "the observed class"}; vertical: observed class.`;
    const most = Math.floor(left / 6.5);
    const name = (text) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
    return [
      this.classes.map((text, c) => [
        svg("line", { x1: left, x2: width - 12, y1: y(c), y2: y(c), class: "wi-grid" }),
        K > 20
          ? null
          : svg(
              "text",
              { x: left - 8, y: y(c) + 4, class: "wi-tick", "text-anchor": "end" },
              svg("title", {}, text),
              name(text),
            ),
      ]),
      axis(x, foot, width, { format: (p) => `${Math.round(100 * p)} %` }),
    ];
  }
}
