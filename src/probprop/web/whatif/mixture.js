// The predictive distribution of one target of one row, as a mixture of its networks:
// probprop/distributions/mixture.py and power.py. The kernel has the integrals.

const OUTSIDE = 5e-5; // probability beyond each end of the 99.99 % interval
const LEAST_WEIGHT = 0.01; // of the networks that together reach such an end
const LARGEST = 0.5 * Number.MAX_VALUE; // half: the hypot of two parts must not overflow
const NO_POWER = 1e-18; // it is the logarithm

// Moments of a mixture; the weights sum to 1.
function mixed(weights, { mean: means, epistemic_std, aleatoric_std }) {
  const mean = weights.reduce((sum, w, s) => sum + w * means[s], 0);
  // An infinite mean has no deviations from it.
  const deviations = means.map((m) => (Number.isFinite(mean) ? m - mean : 0));
  const rooted = (parts) => parts.map((part, s) => Math.sqrt(weights[s]) * part);
  return {
    mean,
    epistemicStd: Math.hypot(...rooted(epistemic_std), ...rooted(deviations)),
    aleatoricStd: Math.hypot(...rooted(aleatoric_std)),
  };
}

export class Mixture {
  // `members` come from the kernel, for one target, in target units; weights sum to 1.
  constructor(kernel, members) {
    this.kernel = kernel;
    this.members = members;
    Object.assign(this, mixed(members.weights, members));
    this.std = Math.hypot(this.epistemicStd, this.aleatoricStd);
  }

  get weights() {
    return this.members.weights;
  }

  // What each network says, and how unsure a single one is.
  byNetwork() {
    return this.members.mean;
  }

  doubt() {
    return this.epistemicStd;
  }

  logpdf(y) {
    return this.kernel.logpdf(this.members, [y])[0];
  }

  pdf(y) {
    return Math.exp(this.logpdf(y));
  }

  cdf(y) {
    return this.kernel.cdf(this.members, [y])[0];
  }

  // The ends of the central interval that contains the target with this probability.
  interval(coverage) {
    const { lower, upper } = this.kernel.interval(this.members, coverage);
    return [lower[0], upper[0]];
  }
}

// ---- Targets behind a Box-Cox transformation

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
    if (z <= this.lowest) return 0;
    return this.unit * Math.exp(this.power ? Math.log1p(this.power * z) / this.power : z);
  }

  logJacobian(y) {
    return (this.power - 1) * Math.log(y / this.unit) - Math.log(this.unit);
  }
}

export class Transformed {
  // `mixture` is for z = g(y).
  constructor(mixture, g) {
    this.mixture = mixture;
    this.g = g;
    const moments = mixture.kernel.powerMoments(mixture.members, g.power);
    for (const name of Object.keys(moments)) moments[name] = moments[name].map((x) => g.unit * x);
    let { mean, epistemicStd, aleatoricStd } = mixed(mixture.members.weights, moments);
    const std = Math.hypot(epistemicStd, aleatoricStd);
    const [low, high] = ends(mixture, g);
    if (std > high - low) {
      if (!Number.isFinite(std)) ({ epistemicStd, aleatoricStd } = mixture);
      const factor = (high - low) / Math.hypot(epistemicStd, aleatoricStd);
      [epistemicStd, aleatoricStd] = [factor * epistemicStd, factor * aleatoricStd];
    }
    Object.assign(this, { mean: Math.min(mean, high), epistemicStd, aleatoricStd });
    this.std = Math.hypot(epistemicStd, aleatoricStd);
  }

  get weights() {
    return this.mixture.weights;
  }

  byNetwork() {
    return this.mixture.byNetwork().map((z) => this.g.inverse(z));
  }

  doubt() {
    return this.epistemicStd;
  }

  pdf(y) {
    if (y <= 0) return 0;
    return Math.exp(this.mixture.logpdf(this.g.forward(y)) + this.g.logJacobian(y));
  }

  cdf(y) {
    if (y > 0) return this.mixture.cdf(this.g.forward(y));
    return y < 0 || !this.g.power ? 0 : this.mixture.cdf(this.g.lowest);
  }

  interval(coverage) {
    return this.mixture.interval(coverage).map((z) => this.g.inverse(z));
  }
}

// Two points inside the 99.99 % interval, which cap the moments: `Ends` of power.py.
function ends({ kernel, members }, g) {
  const { weights, mean, epistemic_std, aleatoric_std } = members;
  const end = (sign) => {
    const each = Array.from(weights, (weight, s) => {
      const c = -kernel.normalQuantile(OUTSIDE / Math.max(weight, LEAST_WEIGHT));
      return { weight, z: mean[s] + sign * c * Math.hypot(epistemic_std[s], aleatoric_std[s]) };
    }).sort((a, b) => sign * (b.z - a.z));
    let sum = 0;
    const last = each.find(({ weight }) => (sum += weight) >= (1 - 1e-9) * LEAST_WEIGHT);
    return Math.min(g.inverse(last.z), LARGEST);
  };
  return [end(-1), end(1)];
}
