"use strict";
/* Quantiles of mixtures of Gaussians, for the intervals of a page.
 *
 *   mixtures = ProbpropMixtures(kernel)
 *   mixtures.quantiles(components, p)       -> (n,); components is a list of {mean, std, weight},
 *                                              the first two (n,), std above 0
 *   mixtures.withLogNormalNoise(mean, v_model, level, m_log, v_log)
 *                                           -> such a list, of weights that sum to 1: the variance
 *                                              is v_model + level exp(h), h normal with moments
 *                                              m_log and v_log; (n,) each
 */
const ProbpropMixtures = (kernel) => {
  const TOLERANCE = 1e-9; // in standard deviations
  const MOST_STEPS = 60;
  // The trapezoidal rule over a standard normal: its error is far below what is cut off, 1e-6.
  const [WIDEST, STEP] = [5, 0.5];
  const nodes = [];
  for (let z = -WIDEST; z <= WIDEST; z += STEP)
    nodes.push({ z, weight: (STEP * Math.exp(-0.5 * z * z)) / Math.sqrt(2 * Math.PI) });

  function withLogNormalNoise(mean, v_model, level, m_log, v_log) {
    const certain = v_log.every((v) => v === 0);
    return (certain ? [{ z: 0, weight: 1 }] : nodes).map(({ z, weight }) => ({
      mean,
      weight,
      std: Float64Array.from(mean, (_, i) =>
        Math.sqrt(v_model[i] + level * Math.exp(m_log[i] + z * Math.sqrt(v_log[i]))),
      ),
    }));
  }

  // Distribution function and density of every row's mixture.
  function evaluate(components, x) {
    const n = x.length;
    const z = new Float64Array(n * components.length);
    components.forEach(({ mean, std }, c) => {
      for (let i = 0; i < n; ++i) z[c * n + i] = (x[i] - mean[i]) / std[i];
    });
    const phi = kernel.normalCdf(z);
    const [cdf, pdf] = [new Float64Array(n), new Float64Array(n)];
    components.forEach(({ std, weight }, c) => {
      for (let i = 0; i < n; ++i) {
        const at = z[c * n + i];
        cdf[i] += weight * phi[c * n + i];
        pdf[i] += (weight * Math.exp(-0.5 * at * at)) / (std[i] * Math.sqrt(2 * Math.PI));
      }
    });
    return { cdf, pdf };
  }

  // Newton's steps inside of a bracket, which is halved where they would leave it.
  function quantiles(components, p) {
    const n = components[0].mean.length;
    const total = components.reduce((sum, { weight }) => sum + weight, 0);
    const z = Math.sqrt(-2 * Math.log(Math.min(p, 1 - p))); // beyond that of each Gaussian
    const ends = (sign, pick) =>
      Float64Array.from({ length: n }, (_, i) =>
        pick(...components.map(({ mean, std }) => mean[i] + sign * z * std[i])),
      );
    const low = ends(-1, Math.min);
    const high = ends(1, Math.max);
    const x = low.map((a, i) => 0.5 * (a + high[i]));
    for (let step = 0; step < MOST_STEPS; ++step) {
      const { cdf, pdf } = evaluate(components, x);
      let moved = 0;
      for (let i = 0; i < n; ++i) {
        const error = cdf[i] / total - p;
        if (error > 0) high[i] = x[i];
        else low[i] = x[i];
        const newton = x[i] - (error * total) / pdf[i];
        const inside = newton > low[i] && newton < high[i];
        const next = inside ? newton : 0.5 * (low[i] + high[i]);
        moved = Math.max(moved, Math.abs(next - x[i]) / components[0].std[i]);
        x[i] = next;
      }
      if (moved < TOLERANCE) break;
    }
    return x;
  }

  return { quantiles, withLogNormalNoise };
};
