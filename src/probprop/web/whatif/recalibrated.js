// PIT recalibration of one target of one row: probprop/distributions/recalibrated.py.

// What was learned about the shape, with the arrays that all rows share.
export class Recalibration {
  constructor(kernel, exported) {
    Object.assign(this, exported);
    this.low ??= -Infinity;
    this.high ??= Infinity;
    const [z, n] = [this.z, this.z.length + 1];
    const middle = Array.from({ length: n }, (_, b) =>
      b === 0 ? z[0] : b === n - 1 ? z[n - 2] : 0.5 * (z[b - 1] + z[b]),
    );
    const masses = (center, width) => {
      const below = kernel.normalCdf(z.map((edge) => (edge - center) / width));
      return Float64Array.from({ length: n }, (_, b) => (below[b] ?? 1) - (below[b - 1] ?? 0));
    };
    this.smoothing = middle.map((center) => masses(center, this.bandwidth));
    this.priorMasses = masses(0, 1);
  }

  // The probability of every bin at (m, log s).
  masses(m, s) {
    const [x, y] = [m, Math.log(s)].map((at, j) => (at - this.center[j]) / this.scale[j]);
    const near = Array.from({ length: this.cells.length / 2 }, (_, i) => {
      const [dx, dy] = [x - this.cells[2 * i], y - this.cells[2 * i + 1]];
      return Math.exp((-0.5 * (dx * dx + dy * dy)) / this.width ** 2);
    });
    const counts = new Float64Array(this.priorMasses.length);
    this.count.forEach((count, k) => (counts[this.bin[k]] += near[this.cell[k]] * count));
    const found = this.priorMasses.map((mass) => this.prior * mass);
    counts.forEach((count, b) => {
      if (count > 0) this.smoothing[b].forEach((mass, j) => (found[j] += count * mass));
    });
    const sum = found.reduce((total, mass) => total + mass, 0);
    return found.map((mass) => mass / sum);
  }
}

const clip = (x, low, high) => Math.min(Math.max(x, low), high);

export class Recalibrated {
  // `mixture` is for the target, or for z = g(y) if there is a transformation g.
  constructor(mixture, g, shape) {
    Object.assign(this, { mixture, g, shape });
    const { low, high } = shape;
    const ends = g ? [low > 0 ? g.forward(low) : -Infinity, g.forward(high)] : [low, high];
    this.center = clip(mixture.mean, ...ends);
    this.mass = shape.masses(this.center, mixture.std);
    let sum = 0;
    this.levels = shape.edges.map((_, j) => (sum += this.mass[j]));
    this.#setMoments();
  }

  #setMoments() {
    const { low, high, edges, z } = this.shape;
    // Moments of transformed targets end at normal scores of 3.
    const first = this.g ? z.findIndex((score) => score >= -3 - 1e-9) : 0;
    const Y = Array.from(edges, (e) =>
      clip(this.#target(clip(e, edges[first], -edges[first])), low, high),
    );
    const F = this.levels;
    // Points at both ends, uniform between two of them.
    const parts = [[F[0], Y[0], Y[0]]];
    for (let j = 1; j < Y.length; j += 1) parts.push([F[j] - F[j - 1], Y[j - 1], Y[j]]);
    parts.push([1 - F.at(-1), Y.at(-1), Y.at(-1)]);
    const mean = parts.reduce((sum, [p, a, b]) => sum + p * (0.5 * a + 0.5 * b), 0);
    const unit = Math.max(Y.at(-1) - Y[0], 2.3e-308);
    const square = (p, a, b) =>
      p * (((0.5 * a + 0.5 * b - mean) / unit) ** 2 + ((0.5 * b - 0.5 * a) / unit) ** 2 / 3);
    const std = unit * Math.sqrt(parts.reduce((sum, part) => sum + square(...part), 0));
    const { epistemicStd, aleatoricStd, std: before } = this.mixture;
    Object.assign(this, { mean, std });
    this.epistemicStd = (std * epistemicStd) / before;
    this.aleatoricStd = (std * aleatoricStd) / before;
  }

  get weights() {
    return this.mixture.weights;
  }

  byNetwork() {
    const means = this.mixture.byNetwork();
    return this.g ? means.map((z) => this.g.inverse(z)) : means;
  }

  doubt() {
    return this.epistemicStd;
  }

  // The target that lies e standard deviations from the mean of the mixture.
  #target(e) {
    const t = this.center + this.mixture.std * e;
    return this.g ? this.g.inverse(t) : t;
  }

  #standardized(y) {
    const t = this.g ? this.g.forward(Math.max(y, 0)) : y;
    return (t - this.center) / this.mixture.std;
  }

  // The bin of a number among the edges, 0 below all of them.
  #binOf(e) {
    let [low, high] = [0, this.shape.edges.length];
    while (low < high) {
      const j = (low + high) >> 1;
      if (this.shape.edges[j] <= e) low = j + 1;
      else high = j;
    }
    return low;
  }

  cdf(y) {
    if (y < this.shape.low || (this.g && y < 0)) return 0;
    if (y >= this.shape.high) return 1;
    const [{ edges, dof }, e] = [this.shape, this.#standardized(y)];
    const j = this.#binOf(e);
    if (j === 0) return this.mass[0] * (e / edges[0]) ** -dof;
    if (j === edges.length) return 1 - this.mass[j] * (e / edges[j - 1]) ** -dof;
    const [a, b] = [this.#target(edges[j - 1]), this.#target(edges[j])];
    return this.levels[j - 1] + this.mass[j] * (b > a ? clip((y - a) / (b - a), 0, 1) : 1);
  }

  pdf(y) {
    const { low, high, edges, dof } = this.shape;
    if (y < low || y > high || (this.g && y <= 0)) return 0;
    const e = this.#standardized(y);
    const j = this.#binOf(e);
    const inner = j > 0 && j < edges.length;
    if (inner) {
      const width = this.#target(edges[j]) - this.#target(edges[j - 1]);
      return this.mass[j] / width;
    }
    const end = edges[j === 0 ? 0 : j - 1];
    const tail = ((this.mass[j] * dof) / Math.abs(end)) * (e / end) ** -(dof + 1);
    const slope = this.g ? Math.exp(this.g.logJacobian(y)) : 1;
    return (tail * slope) / this.mixture.std;
  }

  // The ends of the central interval that contains the target with this probability.
  interval(coverage) {
    const tail = 0.5 * (1 - coverage);
    return [this.#quantile(tail), this.#quantile(1 - tail)];
  }

  #quantile(p) {
    const { edges, dof, low, high } = this.shape;
    let j = this.levels.findIndex((level) => level >= p);
    if (j < 0) j = edges.length;
    let y;
    if (j === 0) y = this.#target(edges[0] * (this.mass[0] / p) ** (1 / dof));
    else if (j === edges.length)
      y = this.#target(edges[j - 1] * (this.mass[j] / Math.max(1 - p, 1e-300)) ** (1 / dof));
    else {
      const [a, b] = [this.#target(edges[j - 1]), this.#target(edges[j])];
      y =
        a + clip((p - this.levels[j - 1]) / (this.levels[j] - this.levels[j - 1]), 0, 1) * (b - a);
    }
    return clip(y, low, high);
  }
}
