// Elements, scales and numbers as the panels draw them. Names and cells become text nodes or
// attributes, never markup.

const SVG = "http://www.w3.org/2000/svg";

function build(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style")
      node.style.cssText = value; // an attribute would need a looser policy
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null) node.setAttribute(name, String(value));
  }
  node.append(...children.flat().filter((child) => child !== null));
  return node;
}

// h("p", {class: "note"}, "text") and svg("path", {d}).
export function h(name, attributes, ...children) {
  return build(document.createElement(name), attributes, children);
}

export function svg(name, attributes, ...children) {
  return build(document.createElementNS(SVG, name), attributes, children);
}

// A picture as wide as its place, which `draw` fills at every change of either.
export class Chart {
  constructor(height, label) {
    this.height = height;
    this.node = svg("svg", { class: "wi-chart", height, role: "img", "aria-label": label });
    this.draw = null;
    new ResizeObserver(() => this.redraw()).observe(this.node);
  }

  get width() {
    return Math.max(160, this.node.clientWidth || 320);
  }

  // `draw` returns the elements of a picture of this width and height.
  show(draw, label) {
    this.draw = draw;
    if (label) this.node.setAttribute("aria-label", label);
    this.redraw();
  }

  redraw() {
    if (!this.draw) return;
    const width = this.width;
    this.node.setAttribute("viewBox", `0 0 ${width} ${this.height}`);
    this.node.replaceChildren(...this.draw(width, this.height).flat(3).filter(Boolean));
  }
}

// The line from [a, b] to [from, to].
export function linear([a, b], [from, to]) {
  const scale = (x) => from + ((x - a) / (b - a || 1)) * (to - from);
  scale.inverse = (at) => a + ((at - from) / (to - from)) * (b - a);
  scale.ticks = (most) => ticks([a, b], most);
  scale.domain = [a, b];
  return scale;
}

// The scale of a target: `range` has low, high and log.
export function scaled({ low, high, log }, pixels) {
  if (!log) return linear([low, high], pixels);
  const { forward, inverse } = way({ log });
  const of = linear([forward(low), forward(high)], pixels);
  const scale = (x) => of(forward(x));
  scale.inverse = (at) => inverse(of.inverse(at));
  scale.ticks = (most) => decades(low, high, most);
  scale.domain = [low, high];
  return scale;
}

// Where a scale is a line: the logarithm, or the number itself.
export function way({ log }) {
  return log
    ? { forward: (x) => Math.log(Math.max(x, 1e-300)), inverse: Math.exp }
    : { forward: (x) => x, inverse: (x) => x };
}

function decades(low, high, most) {
  const [first, last] = [low, high].map((x) => Math.floor(Math.log10(x)));
  const powers = Array.from({ length: last - first + 1 }, (_, i) => 10 ** (first + i));
  const choices = [[1, 2, 5], [1, 3], [1]].map((factors) =>
    powers.flatMap((power) => factors.map((f) => f * power)).filter((x) => x >= low && x <= high),
  );
  return choices.find((marks) => marks.length <= most) ?? choices.at(-1);
}

export function ticks([a, b], most) {
  if (!(b > a) || !Number.isFinite(b - a)) return [];
  const rough = (b - a) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  const first = Math.ceil(a / step);
  const n = Math.floor(b / step + 1e-9) - first;
  return Array.from({ length: n + 1 }, (_, i) => (first + i) * step);
}

const DAY = 86_400_000; // milliseconds

// Moments at round dates: years, months or days, at most `most`.
export function dateTicks([a, b], most) {
  const months = [1, 3, 6, 12, 24, 60, 120, 240, 600, 1200];
  const step = months.find((m) => (b - a) / (m * 30.4 * DAY) <= most) ?? 6000;
  if ((b - a) / (30.4 * DAY) < 2) return ticks([a / DAY, b / DAY], most).map((t) => t * DAY);
  const start = new Date(a);
  const first = Math.ceil((12 * start.getUTCFullYear() + start.getUTCMonth()) / step);
  return Array.from({ length: most + 2 }, (_, i) =>
    Date.UTC(2000, (first + i) * step - 24_000, 1),
  ).filter((t) => t >= a && t <= b);
}

// A date as short as all of them allow: the year, the month or the day.
export function dateText(t, all) {
  const days = all.map((at) => new Date(at).toISOString().slice(5, 10));
  const length = days.every((day) => day === "01-01")
    ? 4
    : days.every((day) => day.endsWith("-01"))
      ? 7
      : 10;
  return new Date(t).toISOString().slice(0, length);
}

// A number on an axis, where there is little room: 1.5M.
function brief(x) {
  if (!(Math.abs(x) >= 1e5)) return short(x);
  return compact(x);
}

function compact(x, options) {
  return new Intl.NumberFormat("en", { notation: "compact", ...options }).format(x).replace("-", "−");
}

// Pixels that a text takes on an axis.
export function textWidth(text) {
  const pen = (textWidth.pen ??= document.createElement("canvas").getContext("2d"));
  pen.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}

// An axis at the bottom, at y; marks are left out until their texts have room.
export function axis(scale, y, width, { format = brief, marks = scale.ticks } = {}) {
  const [from, to] = scale.domain.map(scale);
  let most = Math.max(2, Math.floor(width / 52));
  let drawn;
  do {
    const at = marks(most);
    drawn = at.map((x) => [scale(x), format(x, at)]);
    most -= 1;
  } while (most > 1 && touch(drawn, width));
  return [
    svg("line", { x1: from, x2: to, y1: y, y2: y, class: "wi-axis" }),
    ...drawn.map(([x, text]) => tick(x, y, text, width)),
  ];
}

function touch(drawn, width) {
  return drawn.some(([x, text], i) => {
    if (!i) return false;
    const [before, other] = drawn[i - 1];
    return span(x, text, width)[0] < span(before, other, width)[1] + 6;
  });
}

// Where the text of a mark begins and ends, inside the picture.
function span(x, text, width) {
  const size = textWidth(text);
  const start = Math.min(Math.max(0, x - 0.5 * size), width - size);
  return [start, start + size];
}

// Marks of a scale at the left, with lines across.
export function upright(scale, left, format = brief) {
  return scale
    .ticks(5)
    .map((value) => [
      svg("line", { x1: left, x2: "100%", y1: scale(value), y2: scale(value), class: "wi-grid" }),
      svg(
        "text",
        { x: left - 6, y: scale(value) + 4, class: "wi-tick", "text-anchor": "end" },
        format(value),
      ),
    ]);
}

function tick(x, y, text, width) {
  const [start, end] = span(x, text, width);
  const anchor = start === 0 ? "start" : end === width ? "end" : "middle";
  const at = { start: Math.max(0, start), end, middle: x }[anchor];
  return svg("text", { x: at, y: y + 14, class: "wi-tick", "text-anchor": anchor }, text);
}

export function line(points) {
  return points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join("");
}

export function band(lower, upper) {
  return `${line([...upper, ...lower.toReversed()])}Z`;
}

// A short number: at most four digits that count, as 1.14M above a million.
export function short(x) {
  if (x === 0) return "0";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : x < 0 ? "−∞" : "unknown";
  const size = Math.abs(x);
  if (size >= 1e6 && size < 1e12) return compact(x, { maximumSignificantDigits: 4 });
  const text = size >= 1e6 || size < 1e-4 ? x.toExponential(2) : String(Number(x.toPrecision(4)));
  return text.replace("-", "−");
}

// A number rounded to the place of the fourth digit of `scale` or of its own, the finer one, as
// `probprop predict` writes it.
export function rounded(x, scale) {
  if (!Number.isFinite(x)) return short(x);
  const size = Math.min(Math.abs(x), scale);
  if (!(size > 0 && Number.isFinite(size))) return String(x).replace("-", "−");
  const decimals = 3 - Math.floor(Math.log10(size));
  const power = 10 ** Math.abs(decimals);
  const value = decimals >= 0 ? Math.round(x * power) / power : Math.round(x / power) * power;
  return (Number.isFinite(value) ? String(value) : String(x)).replace("-", "−");
}

// A change of a probability, in hundredths.
export function points(change) {
  return `${(100 * change).toFixed(1).replace("-", "−")} %`;
}

export function percent(share) {
  if (share === 0 || share === 1) return `${100 * share} %`;
  const text = (100 * share).toFixed(share > 0.9995 || share < 0.0005 ? 3 : 1);
  return `${text} %`;
}
