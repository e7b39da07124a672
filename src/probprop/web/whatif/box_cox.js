// Targets of which the networks predict a power: probprop/predictive/box_cox.py, transformed.py and
// transformed_moments.py.

import { ndtri } from "./special.js";

const OUTSIDE = 5e-5; // probability beyond each end of the 99.99 % interval
const LARGEST = 0.5 * Number.MAX_VALUE; // half: the hypot of two parts must not overflow
const LARGEST_LOG = 340; // of y in units: its square is a float
const REACH = 9; // standard deviations of u on either side of the mass
const FARTHEST = 38; // the density of u is 0 beyond
const STEP = 0.05; // of u; small for the sake of the kink at a target of 0
const N_COEFFICIENTS = 30;
const NO_POWER = 1e-18; // it is the logarithm

export class BoxCox {
  constructor(power, unit) {
    this.power = power > NO_POWER ? power : 0;
    this.unit = unit;
    this.lowest = this.power ? -1 / this.power : -Infinity; // z of a target of 0
  }

  forward(y) {
    const logY = Math.log(y / this.unit);
    return this.power ? Math.expm1(this.power * logY) / this.power : logY;
  }

  inverse(z) {
    return this.unit * Math.exp(this.logOf(z));
  }

  // Log of the target, in units.
  logOf(z) {
    if (z <= this.lowest) return -Infinity;
    return this.power ? Math.log1p(this.power * z) / this.power : z;
  }

  logJacobian(y) {
    return (this.power - 1) * Math.log(y / this.unit) - Math.log(this.unit);
  }
}

export class Transformed {
  // `mixture` is that of z = g(y).
  constructor(mixture, g) {
    this.mixture = mixture;
    this.g = g;
    const n = mixture.n;
    const each = Array.from({ length: n }, (_, s) =>
      moments(mixture.means[s], mixture.stdsModel[s], mixture.stdsNoise[s], g),
    );
    const mean = each.reduce((sum, m) => sum + m.mean, 0) / n;
    const finite = Number.isFinite(mean);
    const deviations = each.map((m) => (finite ? m.mean - mean : 0));
    let stdModel = Math.hypot(...each.map((m) => m.stdModel), ...deviations) / Math.sqrt(n);
    let stdNoise = Math.hypot(...each.map((m) => m.stdNoise)) / Math.sqrt(n);
    const std = Math.hypot(stdModel, stdNoise);
    const [low, high] = ends(mixture, g);
    if (std > high - low) {
      if (!Number.isFinite(std)) ({ stdModel, stdNoise } = mixture);
      const factor = (high - low) / Math.hypot(stdModel, stdNoise);
      [stdModel, stdNoise] = [factor * stdModel, factor * stdNoise];
    }
    Object.assign(this, { mean: Math.min(mean, high), stdModel, stdNoise });
    this.std = Math.hypot(stdModel, stdNoise);
  }

  pdf(y) {
    if (y <= 0) return 0;
    return this.mixture.pdf(this.g.forward(y)) * Math.exp(this.g.logJacobian(y));
  }

  cdf(y) {
    if (y > 0) return this.mixture.cdf(this.g.forward(y));
    return y < 0 || !this.g.power ? 0 : this.mixture.cdf(this.g.lowest);
  }

  interval(level, tolerance) {
    return this.mixture.interval(level, tolerance).map((z) => this.g.inverse(z));
  }
}

// Two points inside the 99.99 % interval, which cap the moments: `Ends` of transformed_moments.py.
function ends({ n, means, stdsModel, stdsNoise }, g) {
  const j = Math.ceil(n / 100);
  const c = -ndtri((OUTSIDE * n) / j);
  const sorted = (sign) =>
    Float64Array.from(means, (m, s) => m + sign * c * Math.hypot(stdsModel[s], stdsNoise[s])).sort();
  return [sorted(-1)[j - 1], sorted(1)[n - j]].map((z) => Math.min(g.inverse(z), LARGEST));
}

// Of a target whose z = m + s u, u ~ N(0, 1), with the share rho of s^2 the model's.
function moments(m, stdModel, stdNoise, g) {
  const s = Math.hypot(stdModel, stdNoise);
  const rho = (stdModel / s) ** 2;
  const b = 1 + g.power * m;
  const pull = (4 * s) / (b + Math.sqrt(b * b + 8 * g.power * s * s));
  const tooFar = !(pull <= FARTHEST - REACH) && b > 0;
  if (tooFar || g.logOf(m + FARTHEST * s) > LARGEST_LOG)
    return { mean: Infinity, stdModel: Infinity, stdNoise: Infinity };
  const far = Math.min(pull, FARTHEST - REACH) + REACH;
  const { u, weights } = nodes(Math.ceil(far));
  const y = u.map((at) => Math.exp(g.logOf(m + s * at))); // in units
  const [w] = weights;
  let mean = 0;
  y.forEach((value, i) => (mean += w[i] * value));
  let variance = 0;
  y.forEach((value, i) => (variance += w[i] * (value - mean) ** 2));
  let ofModel = 0;
  let rest = variance;
  for (let k = 1; k <= N_COEFFICIENTS; k += 1) {
    let c = 0;
    const own = weights[k];
    for (let i = 0; i < y.length; i += 1) c += own[i] * (y[i] - mean);
    ofModel += rho ** k * c * c;
    rest -= c * c;
  }
  ofModel += Math.max(0, rest) * rho ** (N_COEFFICIENTS + 1);
  ofModel = Math.min(variance, ofModel);
  const stds = [ofModel, variance - ofModel].map((part) => g.unit * Math.sqrt(part));
  return { mean: g.unit * mean, stdModel: stds[0], stdNoise: stds[1] };
}

const tables = new Map(); // of nodes, by where they end

// Nodes u, and weights of 1 and of the Hermite polynomials, normalised under N(0, 1).
function nodes(far) {
  if (!tables.has(far)) {
    const n = Math.ceil((far + REACH) / STEP);
    const u = Float64Array.from({ length: n + 1 }, (_, i) => -REACH + ((far + REACH) * i) / n);
    let w = u.map((at) => Math.exp(-0.5 * at * at));
    const total = w.reduce((sum, value) => sum + value, 0);
    w = w.map((value) => value / total);
    const weights = [w, w.map((value, i) => value * u[i])];
    for (let k = 1; k < N_COEFFICIENTS; k += 1) {
      const [before, last] = [weights[k - 1], weights[k]];
      weights.push(u.map((at, i) => (at * last[i] - Math.sqrt(k) * before[i]) / Math.sqrt(k + 1)));
    }
    tables.set(far, { u, weights });
  }
  return tables.get(far);
}
