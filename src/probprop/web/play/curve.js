"use strict";
/* The first tab: a curve through points, with what the model does not know and the noise around it.
 *
 *   curve = Curve(plot, learning); curve.learn(points, settings); curve.draw(functions)
 *   curve.wordsAt(place)
 */
const Curve = (plot, learning) => {
  const N_GRID = 181;
  const N_FUNCTIONS = 7;
  const { svg } = plot;
  const part = (name) => svg.querySelector(`.${name}`);
  let model = null;

  function learn(points, settings) {
    const X = Float64Array.from(points, (point) => point.x);
    const y = Array.from(points, (point) => point.y);
    model = learning.fit(X, y, { ...settings, classes: false, n_features: 1 });
  }

  const grid = () => {
    const [from, to] = plot.axes().x;
    return Float64Array.from({ length: N_GRID }, (_, i) => from + ((to - from) * i) / (N_GRID - 1));
  };

  function draw({ functions }) {
    const X = grid();
    const { mean, std_model, std_noise } = model.predict(X);
    const both = std_model.map((s, i) => Math.hypot(s, std_noise[i]));
    const around = (std, k) => [mean.map((m, i) => m - k * std[i]), mean.map((m, i) => m + k * std[i])];
    part("wide").setAttribute("d", plot.band(X, ...around(both, 2)));
    part("narrow").setAttribute("d", plot.band(X, ...around(std_model, 2)));
    part("mean").setAttribute("d", plot.line(X, mean));
    const drawn = functions ? model.draw(X, N_FUNCTIONS, 1) : [];
    part("functions").replaceChildren(
      ...drawn.map((f) => svgElement("path", { d: plot.line(X, f) })),
    );
    return { X, mean, std_model, std_noise, functions: drawn };
  }

  function wordsAt({ x }) {
    const { mean, std_model, std_noise } = model.predict([x]);
    const [across, up] = ["x", "y"].map((axis) => plot.axes()[axis][1] - plot.axes()[axis][0]);
    const [m, s, e] = [mean, std_model, std_noise].map((a) => inWords(a[0], up));
    return `At x = ${inWords(x, across)}: ${m}, of which the model does not know ±${s}; noise ±${e}.`;
  }

  return { learn, draw, wordsAt };
};
