// The predictive distribution of one target of one row, as an equal mixture of its networks:
// probprop/predictive/gaussian.py, heavy.py and mixture.py. Where the tail of a component is 0, its
// noise is Gaussian.

import { logNormalPdf, logNormalSf } from "./log_normal.js";
import { findRoot, logNdtr, logSumExp, ndtri } from "./special.js";

const LOG_ROOT_TWO_PI = 0.5 * Math.log(2 * Math.PI);

export class Mixture {
  // Each a Float64Array with one number for each network, in target units.
  constructor(means, stdsModel, stdsNoise, tails) {
    Object.assign(this, { means, stdsModel, stdsNoise, tails });
    this.n = means.length;
    this.mean = means.reduce((sum, m) => sum + m, 0) / this.n;
    const root = Math.sqrt(this.n);
    this.stdModel = Math.hypot(...stdsModel, ...means.map((m) => m - this.mean)) / root;
    this.stdNoise = Math.hypot(...stdsNoise) / root;
    this.std = Math.hypot(this.stdModel, this.stdNoise);
  }

  pdf(y) {
    return Math.exp(this.logpdf(y));
  }

  logpdf(y) {
    const each = Array.from({ length: this.n }, (_, s) => this.#logpdf(y, s));
    return logSumExp(each) - Math.log(this.n);
  }

  #logpdf(y, s) {
    const tail = this.tails[s];
    if (tail === 0) {
      const std = Math.hypot(this.stdsModel[s], this.stdsNoise[s]);
      return -0.5 * ((y - this.means[s]) / std) ** 2 - Math.log(std) - LOG_ROOT_TWO_PI;
    }
    const level = this.#level(s);
    const z = (y - this.means[s]) / level;
    return logNormalPdf(z, this.stdsModel[s] / level, tail) - Math.log(level);
  }

  // Root of the median of the noise variance.
  #level(s) {
    return this.stdsNoise[s] * Math.exp(-0.25 * this.tails[s]);
  }

  // Log of the probability beyond a distance from the mean of a component.
  #logBeyond(distance, s) {
    const tail = this.tails[s];
    if (tail === 0) {
      return logNdtr(-distance / Math.hypot(this.stdsModel[s], this.stdsNoise[s]));
    }
    const level = this.#level(s);
    return logNormalSf(distance / level, this.stdsModel[s] / level, tail);
  }

  // Log of the probability below y (sign 1) or above it (sign -1).
  #logTail(y, sign) {
    const each = Array.from({ length: this.n }, (_, s) =>
      this.#logBeyond(-sign * (y - this.means[s]), s),
    );
    return logSumExp(each) - Math.log(this.n);
  }

  cdf(y) {
    return Math.exp(this.#logTail(y, 1));
  }

  // The ends of the central interval that holds the target with this probability.
  interval(level) {
    const outside = 0.5 * (1 - level);
    return [this.#quantile(outside, 1), this.#quantile(outside, -1)];
  }

  quantile(q) {
    return q < 0.5 ? this.#quantile(q, 1) : this.#quantile(1 - q, -1);
  }

  // The target with probability `outside`, at most 1/2, below (sign 1) or above it (sign -1).
  #quantile(outside, sign) {
    const z = ndtri(outside);
    if (this.n === 1 && this.tails[0] === 0) return this.mean + sign * z * this.std;
    const logOutside = Math.log(outside);
    const excess = (u) => this.#logTail(this.mean + sign * this.std * u, sign) - logOutside;
    // From where a Gaussian would have it, outwards and inwards until the bracket holds it.
    let [low, high] = [z - 0.25, z + 0.25];
    for (let step = 0.5; excess(low) > 0 && step < 1e9; step *= 2) low -= step;
    for (let step = 0.5; excess(high) < 0 && step < 1e9; step *= 2) high += step;
    return this.mean + sign * this.std * findRoot(excess, low, high, 1e-10);
  }
}
