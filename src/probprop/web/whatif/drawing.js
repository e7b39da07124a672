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
  return scale;
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

// An axis at the bottom, at y.
export function axis(scale, domain, y, width, label = null, format = short) {
  const marks = ticks(domain, Math.max(2, Math.floor(width / 52)));
  return [
    svg("line", { x1: scale(domain[0]), x2: scale(domain[1]), y1: y, y2: y, class: "wi-axis" }),
    ...marks.map((at) => tick(scale(at), y, format(at), width)),
    label
      ? svg("text", { x: width, y: y + 30, class: "wi-label", "text-anchor": "end" }, label)
      : null,
  ].filter(Boolean);
}

export function tick(x, y, text, width) {
  const anchor = x < 20 ? "start" : x > width - 20 ? "end" : "middle";
  return svg("text", { x, y: y + 14, class: "wi-tick", "text-anchor": anchor }, text);
}

export function line(points) {
  return points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join("");
}

export function band(lower, upper) {
  return `${line([...upper, ...lower.toReversed()])}Z`;
}

// A short number: at most four digits that count.
export function short(x) {
  if (x === 0) return "0";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : x < 0 ? "−∞" : "unknown";
  const size = Math.abs(x);
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
  const text = (100 * share).toFixed(share > 0.9995 || share < 0.0005 ? 3 : 1);
  return `${text} %`;
}
