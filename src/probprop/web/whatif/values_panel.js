// What is predicted of a number: its density, its interval, and what it is unsure of.

import { axis, band, Chart, h, line, linear, rounded, scaled, svg, way } from "./drawing.js";

const LEVEL = 0.95;
const N_POINTS = 120;
const NARROW = 0.05; // a distribution narrower than this share of the axis gets an axis of its own

// The axis of a target: where its rows lie, and the interval, unless that is a thin line there.
function rangeOf([lower, upper], range) {
  const { forward, inverse } = way(range);
  const [low, high] = [forward(range.low), forward(range.high)];
  const [a, b] = [Math.max(forward(lower), 2 * low - high), forward(upper)];
  const margin = 0.6 * (b - a);
  const own = [a - margin, b + margin];
  const ends =
    b - a < NARROW * (high - low) ? own : [Math.min(low, own[0]), Math.max(high, own[1])];
  return { low: inverse(ends[0]), high: inverse(ends[1]), log: range.log };
}

export class ValuesPanel {
  constructor(target, range) {
    this.target = target;
    this.range = range;
    this.answer = h("p", { class: "wi-answer" });
    this.chart = new Chart(150, `Predictive density of ${target}`);
    this.split = h("div", { class: "wi-split", role: "img" });
    const note = range.log ? h("p", { class: "wi-legend" }, "The axis is logarithmic.") : null;
    this.node = h("div", { class: "wi-panel" }, this.answer, this.chart.node, note, this.split);
  }

  // For the line that stays in sight.
  get brief() {
    return `${this.target} ${this.mean} ± ${this.std}`;
  }

  // For screen readers.
  get words() {
    return `${this.target}: ${this.mean} ± ${this.std}; 95 % between ${this.lower} and ${this.upper}`;
  }

  show(predicted) {
    const [lower, upper] = predicted.interval(LEVEL);
    const { mean, std, epistemicStd, aleatoricStd } = predicted;
    this.mean = rounded(mean, std);
    this.std = rounded(std, std);
    [this.lower, this.upper] = [rounded(lower, std), rounded(upper, std)];
    const number = (name, kind, value, text) =>
      h(kind, { "data-name": name, "data-value": value }, text);
    this.answer.replaceChildren(
      number("mean", "strong", mean, this.mean),
      " ± ",
      number("std", "span", std, this.std),
      h(
        "span",
        { class: "wi-between" },
        "95 % between ",
        number("lower", "span", lower, this.lower),
        " and ",
        number("upper", "span", upper, this.upper),
      ),
    );
    this.#showSplit(epistemicStd, aleatoricStd, std);
    const finite = [lower, upper, mean].every(Number.isFinite);
    this.chart.show(
      (width, height) => (finite ? this.#density(predicted, lower, upper, width, height) : []),
      this.words,
    );
  }

  // Variances add up, so their shares are what the bar is divided by.
  #showSplit(epistemicStd, aleatoricStd, std) {
    const share = Number.isFinite(std) && std > 0 ? (epistemicStd / std) ** 2 : 0.5;
    const part = (name, value) => h("span", { class: name, style: `flex-grow:${value}` });
    const words = [
      `epistemic: ${rounded(epistemicStd, epistemicStd)}`,
      `aleatoric: ${rounded(aleatoricStd, aleatoricStd)}`,
    ];
    this.split.setAttribute("aria-label", `Standard deviations. ${words.join("; ")}`);
    this.split.replaceChildren(
      h("div", {}, part("wi-model", share), part("wi-noise", 1 - share)),
      h(
        "p",
        { "data-name": "epistemic_std", "data-value": epistemicStd },
        h("i", { class: "wi-model" }),
        ` ${words[0]}`,
      ),
      h(
        "p",
        { "data-name": "aleatoric_std", "data-value": aleatoricStd },
        h("i", { class: "wi-noise" }),
        ` ${words[1]}`,
      ),
    );
  }

  #density(predicted, lower, upper, width, height) {
    const range = rangeOf([lower, upper], this.range);
    const { forward, inverse } = way(range);
    const x = scaled(range, [4, width - 4]);
    const foot = height - 22;
    // More points where the density is, so that a narrow one is smooth.
    const [a, b] = [Math.max(forward(lower), forward(range.low)), forward(upper)];
    const near = linear([0, N_POINTS - 1], [a - 0.7 * (b - a), b + 0.7 * (b - a)]);
    const at = Array.from({ length: N_POINTS }, (_, i) => inverse(near(i))).filter(
      (y) => y >= range.low && y <= range.high,
    );
    // On a logarithmic axis the density of the logarithm, whose area is the probability too.
    const density = at.map((y) => predicted.pdf(y) * (range.log ? y : 1));
    const most = Math.max(...density);
    const up = linear([0, most], [foot, 8]);
    const curve = at.map((y, i) => [x(y), up(density[i])]);
    const floor = (points) => points.map(([px]) => [px, foot]);
    const inside = curve.filter((_, i) => at[i] >= lower && at[i] <= upper);
    const model = [
      Math.max(range.low, predicted.mean - 2 * predicted.epistemicStd),
      Math.min(range.high, predicted.mean + 2 * predicted.epistemicStd),
    ];
    const rail = {
      x: x(model[0]),
      width: Math.max(2, x(model[1]) - x(model[0])),
      y: foot - 4,
      height: 4,
    };
    return [
      svg("path", { d: band(floor(curve), curve), class: "wi-noise-area" }),
      svg("path", { d: band(floor(inside), inside), class: "wi-inside-area" }),
      svg("path", { d: line(curve), class: "wi-line" }),
      svg("rect", { ...rail, class: "wi-model-bar" }),
      svg("line", {
        x1: x(predicted.mean),
        x2: x(predicted.mean),
        y1: 6,
        y2: foot,
        class: "wi-mean",
      }),
      ...axis(x, foot, width),
    ];
  }
}
