"use strict";
/* The first tab: a curve through points, with its epistemic and its predictive interval.
 *
 *   curve = Curve(plot, learning); curve.learn(points, settings); curve.draw(functions)
 *   curve.wordsAt(place), curve.model()
 */
const Curve = (plot, learning) => {
  const N_GRID = 151;
  const WIDTH = 1.96; // standard deviations, of a Gaussian's 95 %
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
    const { mean, epistemic_std, aleatoric_std, lower, upper } = model.predict(X);
    const [low, high] = [-WIDTH, WIDTH].map((k) => mean.map((m, i) => m + k * epistemic_std[i]));
    part("wide").setAttribute("d", plot.band(X, lower, upper));
    part("narrow").setAttribute("d", plot.band(X, low, high));
    part("mean").setAttribute("d", plot.line(X, mean));
    const drawn = functions ? model.draw(X, N_FUNCTIONS, 1) : [];
    part("functions").replaceChildren(
      ...drawn.map((f) => svgElement("path", { d: plot.line(X, f) })),
    );
    return { X, mean, epistemic_std, aleatoric_std, lower, upper, functions: drawn };
  }

  function wordsAt({ x }) {
    const predicted = model.predict([x]);
    const [across, up] = ["x", "y"].map((axis) => plot.axes()[axis][1] - plot.axes()[axis][0]);
    const word = (name) => inWords(predicted[name][0], up);
    return (
      `At x = ${inWords(x, across)}: ${word("mean")}, from ${word("lower")} to ${word("upper")}; ` +
      `epistemic std ${word("epistemic_std")}, aleatoric std ${word("aleatoric_std")}.`
    );
  }

  return { learn, draw, wordsAt, model: () => model };
};
