"use strict";
/* The second tab: two classes in the plane, and the probability of the one at every place.
 *
 *   plane = Plane(plot, canvas, learning); plane.learn(points, settings); plane.draw()
 *   plane.wordsAt(place), plane.model()
 */
const Plane = (plot, canvas, learning) => {
  const N_GRID = 61; // in each direction
  const LEVELS = [0.1, 0.5, 0.9];
  const contours = plot.svg.querySelector(".contours");
  let model = null;

  function learn(points, settings) {
    const X = Float64Array.from(points.flatMap(({ x, y }) => [x, y]));
    const y = points.map((point) => point.label);
    model = learning.fit(X, y, { ...settings, classes: true, n_features: 2 });
  }

  // The colors of the classes, and of the page between them, from the style sheet.
  function colors() {
    const style = getComputedStyle(canvas);
    return ["--minus", "--paper", "--plus"].map((name) => {
      const hex = style.getPropertyValue(name).trim().slice(1);
      return [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16));
    });
  }

  function paint(probability) {
    const [minus, paper, plus] = colors();
    const image = new ImageData(N_GRID, N_GRID);
    probability.forEach((p, i) => {
      const side = p > 0.5 ? plus : minus;
      const share = 0.6 * Math.abs(2 * p - 1);
      side.forEach((c, k) => (image.data[4 * i + k] = paper[k] + share * (c - paper[k])));
      image.data[4 * i + 3] = 255;
    });
    [canvas.width, canvas.height] = [N_GRID, N_GRID];
    canvas.getContext("2d").putImageData(image, 0, 0);
    const { left, top, width, height } = plot.frame();
    // The middles of the outer pixels lie on the frame.
    const [w, h] = [width / (N_GRID - 1), height / (N_GRID - 1)];
    const place = { left: left - w / 2, top: top - h / 2, width: width + w, height: height + h };
    for (const [key, value] of Object.entries(place)) canvas.style[key] = `${value}px`;
    canvas.style.clipPath = `inset(${h / 2}px ${w / 2}px)`;
  }

  // The line where the probability is `level`, in every square of the grid (marching squares).
  function contour(probability, level, xs, ys) {
    const parts = [];
    const cut = (x1, y1, p1, x2, y2, p2) => {
      const t = (level - p1) / (p2 - p1);
      return `${plot.px(x1 + t * (x2 - x1)).toFixed(1)},${plot.py(y1 + t * (y2 - y1)).toFixed(1)}`;
    };
    for (let i = 0; i + 1 < N_GRID; ++i)
      for (let j = 0; j + 1 < N_GRID; ++j) {
        const corners = [[i, j], [i, j + 1], [i + 1, j + 1], [i + 1, j]].map(([r, c]) => [
          xs[c],
          ys[r],
          probability[r * N_GRID + c],
        ]);
        const ends = [];
        corners.forEach((corner, k) => {
          const next = corners[(k + 1) % 4];
          if (corner[2] > level !== next[2] > level) ends.push(cut(...corner, ...next));
        });
        for (let k = 0; k + 1 < ends.length; k += 2) parts.push(`M${ends[k]}L${ends[k + 1]}`);
      }
    return parts.join("");
  }

  function draw() {
    const { x, y } = plot.axes();
    const between = ([from, to], i) => from + ((to - from) * i) / (N_GRID - 1);
    const xs = Float64Array.from({ length: N_GRID }, (_, i) => between(x, i));
    const ys = Float64Array.from({ length: N_GRID }, (_, i) => between([y[1], y[0]], i));
    const rows = Float64Array.from({ length: 2 * N_GRID * N_GRID }, (_, i) => {
      const at = i >> 1;
      return i % 2 === 0 ? xs[at % N_GRID] : ys[Math.floor(at / N_GRID)];
    });
    const { probability } = model.predict(rows);
    paint(probability);
    contours.replaceChildren(
      ...LEVELS.map((level) =>
        svgElement("path", {
          d: contour(probability, level, xs, ys),
          class: level === 0.5 ? "even" : "",
        }),
      ),
    );
    return { X: rows, probability };
  }

  function wordsAt({ x, y }) {
    const { probability } = model.predict([x, y]);
    const [blue, orange] = [probability[0], 1 - probability[0]].map((p) => `${(100 * p).toFixed(0)} %`);
    const span = (axis) => plot.axes()[axis][1] - plot.axes()[axis][0];
    const place = `x = ${inWords(x, span("x"))}, y = ${inWords(y, span("y"))}`;
    return `At ${place}: blue ${blue}, orange ${orange}.`;
  }

  return { learn, draw, wordsAt, model: () => model };
};
