"use strict";
/* A pair of axes in an SVG element, as large as the page leaves room for: data to pixels and back.
 *
 *   plot = Plot(svg)                  // <svg> with <g class="axes">
 *   plot.setAxes({x: [from, to], y: [from, to]}), plot.resize()
 *   plot.px(x), plot.py(y), plot.at(event) -> {x, y} in data units
 */
const SVG = "http://www.w3.org/2000/svg";

function svgElement(name, attributes = {}, text = "") {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text) element.textContent = text;
  return element;
}

// Round numbers between two others, about as many as asked for.
function ticks(from, to, wanted) {
  const rough = (to - from) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  const values = [];
  for (let i = Math.ceil(from / step); i * step <= to; ++i) values.push(i * step);
  return values;
}

// A number with the digits that matter on an axis of length `span`.
function inWords(value, span) {
  const digits = Math.max(0, Math.min(6, 2 - Math.floor(Math.log10(span))));
  const text = value.toFixed(digits);
  return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
}

const onAxis = (value) => String(Number(value.toPrecision(6))).replace("-", "−");

const Plot = (svg) => {
  const MARGIN = { left: 44, right: 10, top: 10, bottom: 30 };
  const group = svg.querySelector(".axes");
  const clip = svg.querySelector("clipPath rect");
  let axes = { x: [-1, 1], y: [-1, 1] };
  let [width, height] = [600, 400];

  const inner = () => [width - MARGIN.left - MARGIN.right, height - MARGIN.top - MARGIN.bottom];
  const px = (x) => MARGIN.left + ((x - axes.x[0]) / (axes.x[1] - axes.x[0])) * inner()[0];
  const py = (y) => MARGIN.top + ((axes.y[1] - y) / (axes.y[1] - axes.y[0])) * inner()[1];
  // Inside of the axes, and rounded to about a thousandth of them, so that the code has the same point.
  const nearby = (value, [from, to]) => {
    const step = 10 ** (Math.floor(Math.log10(to - from)) - 3);
    const inside = Math.max(from, Math.min(to, value));
    return Number((Math.round(inside / step) * step).toPrecision(12));
  };
  const clamp = ({ x, y }) => ({ x: nearby(x, axes.x), y: nearby(y, axes.y) });
  const fromPixels = (left, top) => ({
    x: axes.x[0] + ((left - MARGIN.left) / inner()[0]) * (axes.x[1] - axes.x[0]),
    y: axes.y[1] - ((top - MARGIN.top) / inner()[1]) * (axes.y[1] - axes.y[0]),
  });
  function at(event) {
    const box = svg.getBoundingClientRect();
    return fromPixels(event.clientX - box.left, event.clientY - box.top);
  }

  function drawAxes() {
    const [bottom, right] = [height - MARGIN.bottom, width - MARGIN.right];
    const frame = { x: MARGIN.left, y: MARGIN.top, width: inner()[0], height: inner()[1] };
    for (const [key, value] of Object.entries(frame)) clip.setAttribute(key, Math.max(0, value));
    group.replaceChildren();
    const line = `M${MARGIN.left},${MARGIN.top}V${bottom}H${right}`;
    group.append(svgElement("path", { d: line, class: "frame" }));
    for (const x of ticks(...axes.x, width / 90)) {
      const place = { x: px(x), y: bottom + 19, "text-anchor": "middle" };
      group.append(svgElement("path", { d: `M${px(x)},${bottom}v5`, class: "frame" }));
      group.append(svgElement("text", place, onAxis(x)));
    }
    for (const y of ticks(...axes.y, height / 70)) {
      const place = { x: MARGIN.left - 9, y: py(y) + 4, "text-anchor": "end" };
      group.append(svgElement("path", { d: `M${MARGIN.left},${py(y)}h-5`, class: "frame" }));
      group.append(svgElement("text", place, onAxis(y)));
    }
  }
  function resize() {
    const box = svg.getBoundingClientRect();
    if (box.width === 0) return false;
    [width, height] = [box.width, box.height];
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    drawAxes();
    return true;
  }
  function setAxes(given) {
    axes = given;
    drawAxes();
  }

  // The path of a line through points, and of the area between two.
  const corner = (x, y) => `${px(x).toFixed(1)},${py(y).toFixed(1)}`;
  const line = (xs, ys) => `M${Array.from(xs, (x, i) => corner(x, ys[i])).join("L")}`;
  const band = (xs, low, high) =>
    `${line(xs, high)}L${line(Array.from(xs).reverse(), Array.from(low).reverse()).slice(1)}Z`;
  const frame = () => ({ left: MARGIN.left, top: MARGIN.top, width: inner()[0], height: inner()[1] });

  return { svg, px, py, at, clamp, setAxes, resize, line, band, frame, axes: () => axes };
};
