// Missing values, completed from those that are present: probprop/encoding/missing.py.

import { encodeRamps } from "./piecewise.js";

const UNIFORM = 0.1; // share of the weight that all nodes have alike

// The lower Cholesky factor of a symmetric matrix, a list of rows.
function cholesky(matrix) {
  const L = matrix.map((row) => new Float64Array(row.length));
  for (let i = 0; i < matrix.length; i += 1) {
    for (let j = 0; j <= i; j += 1) {
      let sum = matrix[i][j];
      for (let k = 0; k < j; k += 1) sum -= L[i][k] * L[j][k];
      L[i][j] = i === j ? Math.sqrt(sum) : sum / L[j][j];
    }
  }
  return L;
}

// The solution of L y = b.
function forward(L, b) {
  const y = Float64Array.from(b);
  for (let i = 0; i < y.length; i += 1) {
    for (let k = 0; k < i; k += 1) y[i] -= L[i][k] * y[k];
    y[i] /= L[i][i];
  }
  return y;
}

// The solution of L' y = b.
function backward(L, b) {
  const y = Float64Array.from(b);
  for (let i = y.length - 1; i >= 0; i -= 1) {
    for (let k = i + 1; k < y.length; k += 1) y[i] -= L[k][i] * y[k];
    y[i] /= L[i][i];
  }
  return y;
}

const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);

// The value at x of the function that is linear between points and constant beyond them.
function interpolated(x, xs, ys) {
  if (x <= xs[0]) return ys[0];
  const i = xs.findIndex((end) => x < end);
  if (i < 0) return ys[ys.length - 1];
  return ys[i - 1] + ((ys[i] - ys[i - 1]) / (xs[i] - xs[i - 1])) * (x - xs[i - 1]);
}

export class Joint {
  // `exported` is what probprop/report/live.py wrote.
  constructor({ column, value, score, discrete, encoding, covariance, ...rest }) {
    const { spread, factor, nodes, n_nodes } = rest;
    const n = discrete.length;
    const own = (values, j) => values.filter((_, i) => column[i] === j);
    this.tables = Array.from({ length: n }, (_, j) => ({
      value: own(value, j),
      score: own(score, j),
      discrete: discrete[j] === 1,
    }));
    Object.assign(this, { encoding, covariance, spread, factor });
    this.nodes = Array.from({ length: n_nodes }, (_, k) => nodes.slice(k * n, (k + 1) * n));
    this.columnOfInput = [...Array(n).keys(), ...encoding.column];
    this.found = new Map(); // what follows from which features are missing
  }

  // An entry of the covariance, of which the lower triangle is there.
  #entry(i, j) {
    const [row, column] = i < j ? [j, i] : [i, j];
    return this.covariance[(row * (row + 1)) / 2 + column];
  }

  // Coefficients of the inputs that are present, for each that is not, and a root of the covariance
  // that is left.
  #given(missing) {
    const key = missing.join();
    if (!this.found.has(key)) this.found.set(key, this.#solved(new Set(missing)));
    return this.found.get(key);
  }

  #solved(missing) {
    const places = [...this.columnOfInput.keys()];
    const m = places.filter((i) => missing.has(this.columnOfInput[i]));
    if (!this.covariance) return { m, o: [], coefficients: m.map(() => []) };
    const o = places.filter((i) => !missing.has(this.columnOfInput[i]));
    const block = (rows, columns) =>
      rows.map((i) => Float64Array.from(columns, (k) => this.#entry(i, k)));
    const L = cholesky(block(o, o));
    const across = block(m, o);
    const coefficients = across.map((row) => backward(L, forward(L, row)));
    const left = block(m, m).map((row, i) => row.map((s, k) => s - dot(across[k], coefficients[i])));
    return { m, o, coefficients, root: cholesky(left), alone: cholesky(block(m, m)) };
  }

  // The rows that x, with NaN where a value is missing, may be, with their weights, and the factor of
  // the variance between what is predicted of them.
  complete(x) {
    const missing = [...x.keys()].filter((j) => Number.isNaN(x[j]));
    const { m, o, coefficients, root, alone } = this.#given(missing);
    const scores = x.map((value, j) => {
      const table = this.tables[j];
      return Number.isNaN(value) ? NaN : interpolated(value, table.value, table.score);
    });
    const known = encodeRamps(scores, this.encoding);
    const present = o.map((i) => known[i]);
    const mean = coefficients.map((row) => dot(row, present));
    const rows = [];
    const surprises = this.nodes.map((node) => {
      const [row, u] = [Float64Array.from(x), Float64Array.from(scores)];
      missing.forEach((j, k) => {
        const at = mean[k] + (root ? this.spread * dot(root[k].subarray(0, k + 1), node) : node[k]);
        const wanted = at * this.encoding.scale[j] + this.encoding.center[j];
        [row[j], u[j]] = nearest(wanted, this.tables[j]);
      });
      rows.push(row);
      if (m.length === missing.length) return 0; // there are no ramps
      const completed = encodeRamps(u, this.encoding);
      const inputs = m.map((i) => completed[i]);
      const given = inputs.map((a, k) => a - mean[k]);
      return surprise(given, root, missing.length) - surprise(inputs, alone, missing.length);
    });
    const least = Math.min(...surprises);
    const likely = surprises.map((surprise) => Math.exp(least - surprise));
    const sum = likely.reduce((total, p) => total + p, 0);
    const weights = likely.map((p) => ((1 - UNIFORM) * p) / sum + UNIFORM / likely.length);
    const factor = this.factor[missing.length > 1 ? x.length : missing[0]];
    return { rows, weights, factor };
  }
}

// Minus the log density of ramps given the scores before them, per ramp.
function surprise(off, root, nScores) {
  const ramps = forward(root, off).subarray(nScores);
  return (0.5 * dot(ramps, ramps)) / ramps.length;
}

// The value that a feature may have, and its score, nearest to a score.
function nearest(u, { value, score, discrete }) {
  if (!discrete) {
    const last = score[score.length - 1];
    return [interpolated(u, score, value), Math.min(Math.max(u, score[0]), last)];
  }
  let at = 0;
  while (at + 1 < score.length && u > 0.5 * (score[at] + score[at + 1])) at += 1;
  return [value[at], score[at]];
}

// Means and variances over the nodes of every row, (n, K) each, flat, given those of all nodes. The
// variance between nodes is multiplied by `scale` of the factor of the row.
export function overNodes(completed, mean, variance, scale) {
  const K = mean.length / completed.reduce((n, { rows }) => n + rows.length, 0);
  const moments = { mean: [], variance: [] };
  let start = 0;
  for (const { rows, weights, factor } of completed) {
    for (let k = 0; k < K; k += 1) {
      const at = (i) => (start + i) * K + k;
      const center = dot(weights, rows.map((_, i) => mean[at(i)]));
      const within = dot(weights, rows.map((_, i) => variance[at(i)]));
      const between = dot(weights, rows.map((_, i) => (mean[at(i)] - center) ** 2));
      moments.mean.push(center);
      moments.variance.push(rows.length > 1 ? within + scale(factor) * between : within);
    }
    start += rows.length;
  }
  return { mean: Float64Array.from(moments.mean), variance: Float64Array.from(moments.variance) };
}
