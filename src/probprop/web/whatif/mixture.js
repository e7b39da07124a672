// The predictive distribution of one target of one row, as an equal mixture of its networks:
// probprop/predictive/gaussian.py, heavy.py and mixture.py. Where the tail of a component is 0, its
// noise is Gaussian; otherwise it is a sum of Gaussians.

import { noiseNodes } from "./log_normal.js";
import { findRoot, ndtri, normalCdf } from "./special.js";

const ROOT_TWO_PI = Math.sqrt(2 * Math.PI);
const NEAR = 16; // standard deviations of the noise level that always count
const FAR = 8; // of the distribution

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

  // Standard deviations and weights of the Gaussians that each component is a sum of.
  get parts() {
    this.found ??= Array.from({ length: this.n }, (_, s) => this.#parts(s));
    return this.found;
  }

  #parts(s) {
    const [model, noise, tail] = [this.stdsModel[s], this.stdsNoise[s], this.tails[s]];
    if (tail === 0) return { stds: [Math.hypot(model, noise)], weights: [1] };
    const level = noise * Math.exp(-0.25 * tail); // root of the median of the noise variance
    const farthest = Math.abs(this.means[s] - this.mean) + FAR * this.std;
    const far = 2 ** Math.ceil(Math.log2(Math.max(NEAR, farthest / level)));
    const { variances, weights } = noiseNodes(tail, far);
    const ratio = (model / level) ** 2;
    return { stds: variances.map((v) => level * Math.sqrt(ratio + v)), weights };
  }

  // The mean over the components of the sums of `of`, which takes y less the mean, and a std. It is
  // given y less the mean of all: far from 0, y itself has fewer digits.
  #sum(distance, of) {
    let total = 0;
    for (let s = 0; s < this.n; s += 1) {
      const { stds, weights } = this.parts[s];
      const d = distance - (this.means[s] - this.mean);
      for (let i = 0; i < stds.length; i += 1) total += weights[i] * of(d, stds[i]);
    }
    return total / this.n;
  }

  pdf(y) {
    return this.#sum(y - this.mean, (d, std) => Math.exp(-0.5 * (d / std) ** 2) / std) / ROOT_TWO_PI;
  }

  cdf(y) {
    return this.#sum(y - this.mean, (d, std) => normalCdf(d / std));
  }

  // The ends of the central interval that holds the target with this probability, with a tolerance
  // in standard deviations.
  interval(level, tolerance = 1e-10) {
    const outside = 0.5 * (1 - level);
    return [1, -1].map((sign) => this.#quantile(outside, sign, tolerance));
  }

  // The target with probability `outside`, at most 1/2, below (sign 1) or above it (sign -1).
  #quantile(outside, sign, tolerance) {
    const z = ndtri(outside);
    if (this.n === 1 && this.tails[0] === 0) return this.mean + sign * z * this.std;
    const logOutside = Math.log(outside);
    const above = (d, std) => normalCdf((sign * d) / std);
    const excess = (u) => Math.log(this.#sum(sign * this.std * u, above)) - logOutside;
    // From where a Gaussian would have it, outwards and inwards until the bracket holds it.
    let [low, high] = [z - 0.1, z + 0.1];
    for (let step = 0.2; excess(low) > 0 && step < FAR; step *= 2) low -= step;
    for (let step = 0.2; excess(high) < 0 && high < 0; step *= 2) high += step;
    return this.mean + sign * this.std * findRoot(excess, low, high, tolerance);
  }
}
