// The predictive distribution of one target of one row, as an equal mixture of its networks:
// probprop/distributions/mixture.py and power.py. The integrals are those of the kernel.

const OUTSIDE = 5e-5; // probability beyond each end of the 99.99 % interval
const MOST = 100; // of more networks, each has 0.01 of the weight for that interval
const LARGEST = 0.5 * Number.MAX_VALUE; // half: the hypot of two parts must not overflow
const NO_POWER = 1e-18; // it is the logarithm

// Moments of an equal mixture.
function mixed({ mean: means, epistemic_std, aleatoric_std }) {
  const root = Math.sqrt(means.length);
  const mean = means.reduce((sum, m) => sum + m, 0) / means.length;
  // An infinite mean has no deviations from it.
  const deviations = means.map((m) => (Number.isFinite(mean) ? m - mean : 0));
  return {
    mean,
    epistemicStd: Math.hypot(...epistemic_std, ...deviations) / root,
    aleatoricStd: Math.hypot(...aleatoric_std) / root,
  };
}

export class Mixture {
  // `members` are those of the kernel, for one target, in target units.
  constructor(kernel, members) {
    this.kernel = kernel;
    this.members = members;
    Object.assign(this, mixed(members));
    this.std = Math.hypot(this.epistemicStd, this.aleatoricStd);
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

  // The ends of the central interval that holds the target with this probability.
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
  // `mixture` is that of z = g(y).
  constructor(mixture, g) {
    this.mixture = mixture;
    this.g = g;
    const moments = mixture.kernel.powerMoments(mixture.members, g.power);
    for (const name of Object.keys(moments)) moments[name] = moments[name].map((x) => g.unit * x);
    let { mean, epistemicStd, aleatoricStd } = mixed(moments);
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
  const { mean, epistemic_std, aleatoric_std } = members;
  const c = -kernel.normalQuantile(OUTSIDE * Math.min(mean.length, MOST));
  const reach = mean.map((_, s) => c * Math.hypot(epistemic_std[s], aleatoric_std[s]));
  const j = Math.ceil(mean.length / MOST);
  const low = mean.map((m, s) => m - reach[s]).sort()[j - 1];
  const high = mean.map((m, s) => m + reach[s]).sort()[mean.length - j];
  return [low, high].map((z) => Math.min(g.inverse(z), LARGEST));
}
