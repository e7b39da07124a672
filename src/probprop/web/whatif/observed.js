// The rows of the report, predicted against observed: click one to begin with it.

import { axis, Chart, h, linear, short, svg, ticks } from "./drawing.js";

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
    this.node = h("div", {}, this.chart.node);
  }

  show(current) {
    if (current === this.current) return;
    this.current = current;
    this.chart.show((width, height) => this.#draw(current, width, height));
  }

  #click(event) {
    const box = this.chart.node.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const far = this.places.map(([px, py]) => (px - x) ** 2 + (py - y) ** 2);
    const nearest = far.indexOf(Math.min(...far));
    if (far[nearest] < 30 ** 2) this.chosen(nearest);
  }

  #draw(current, width, height) {
    const foot = height - 34;
    const parts = this.classes ? this.#strips(width, foot) : this.#plane(width, foot);
    const dot = (i, name, r) =>
      svg("circle", { cx: this.places[i][0], cy: this.places[i][1], r, class: name });
    return [
      parts,
      this.places.map((_, i) => dot(i, "wi-point", 3)),
      current === null ? null : dot(current, "wi-dot wi-here", 5.5),
    ];
  }

  #plane(width, foot) {
    const [low, high] = this.range;
    const all = [...this.predicted, ...this.observed];
    const domain = [Math.min(low, ...all), Math.max(high, ...all)];
    const [x, y] = [linear(domain, [LEFT, width - 8]), linear(domain, [foot - 4, 8])];
    this.places = this.observed.map((value, i) => [x(this.predicted[i]), y(value)]);
    const across = { x1: x(domain[0]), y1: y(domain[0]), x2: x(domain[1]), y2: y(domain[1]) };
    return [
      svg("line", { ...across, class: "wi-grid" }),
      ticks(domain, 5).map((v) =>
        svg("text", { x: LEFT - 6, y: y(v) + 4, class: "wi-tick", "text-anchor": "end" }, short(v)),
      ),
      axis(x, domain, foot, width, `predicted ${this.target}; upwards: observed`),
    ];
  }

  // A line for each class that was observed; across, the probability it had been given.
  #strips(width, foot) {
    const K = this.classes.length;
    const left = Math.min(110, 0.3 * width);
    const x = linear([0, 1], [left, width - 8]);
    const y = linear([-0.5, K - 0.5], [8, foot - 4]);
    const room = 0.7 * (y(1) - y(0));
    const shift = (i) => (((i * 7919) % 101) / 101 - 0.5) * room; // so that they do not hide each other
    this.places = this.observed.map((c, i) => [x(this.predicted[i]), y(c) + shift(i)]);
    const most = Math.floor(left / 6.5);
    const name = (text) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
    return [
      this.classes.map((text, c) => [
        svg("line", { x1: left, x2: width - 8, y1: y(c), y2: y(c), class: "wi-grid" }),
        K > 20
          ? null
          : svg(
              "text",
              { x: left - 8, y: y(c) + 4, class: "wi-tick", "text-anchor": "end" },
              name(text),
            ),
      ]),
      axis(x, [0, 1], foot, width, "probability of the class that was observed"),
    ];
  }
}
