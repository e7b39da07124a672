"use strict";
/* PBPRegressor and PBPClassifier in a page, for few columns: what inference/training.py decides, given
 * to the kernel. The same seed gives the numbers of Python. Needs kernel.js.
 *
 *   learning = ProbpropLearning(kernel)
 *   model = learning.fit(X, y, settings)     X: rows, flat; y: values, or +1 and -1 for classes
 *   model.predict(X)                         -> {mean, epistemic_std, aleatoric_std, lower, upper},
 *                                               the last the ends of 95 % intervals, in target
 *                                               units; for classes {probability} of +1
 *   model.draw(X, n_functions, seed)         -> functions drawn from the posterior, on these rows
 *
 * Settings: {classes: false, n_features: 1, hidden: [50], n_epochs: 40, evidence_cap: null
 * (of classes 10), noise: "constant" or "input", noise_tail: "gaussian" or "heavy", seed: 0}.
 */
const ProbpropLearning = (kernel) => {
  const DEFAULTS = {
    classes: false,
    n_features: 1,
    hidden: [50],
    n_epochs: 40,
    noise: "constant",
    noise_tail: "gaussian",
    seed: 0,
  };
  const LEVEL = 0.95; // of the intervals
  const CLASS_EVIDENCE_CAP = 10;
  const PRIOR = [6, 6]; // shape and rate, of the weights and of the noise
  const UNIT_NOISE = [2, 1]; // of a class
  // Of the network of the noise, as in inference/noise.py and plan.py.
  const NOISE_PRIOR = [6, 3];
  const NOISE_HIDDEN = [20];
  const PASSES = 4;
  const FEW_ROWS = 100;
  const LEFT_ALONE = 1 / 8;
  const TAIL_BURN_IN = 20;
  const FIRST_TAIL = 1;
  const LARGEST_LOG = 20;
  const LARGEST_VARIANCE = 4;

  // ---- Before the first row

  function initialPosterior(sizes, [shape, rate], [noise_shape, noise_rate], random) {
    const n_weights = ProbpropKernel.countWeights(sizes);
    const m_w = random.normals(n_weights);
    let at = 0;
    for (let l = 0; l + 1 < sizes.length; ++l) {
      const root = Math.sqrt(sizes[l] + 1);
      for (const end = at + sizes[l + 1] * (sizes[l] + 1); at < end; ++at) m_w[at] /= root;
    }
    const v_prior = rate / (shape - 1);
    const filled = (value) => new Float64Array(n_weights).fill(value);
    return {
      sizes,
      m_w,
      v_w: filled(v_prior),
      v_hat_nat: filled(1 / v_prior),
      a_hat_nat: filled(0),
      b_hat_nat: filled(0),
      alpha_noise: [noise_shape],
      beta_noise: [noise_rate],
      alpha_prior: shape,
      beta_prior: rate,
      tail: [0],
      noise_network: null,
    };
  }

  // The network of the noise: its head is zero. Its seed leaves the other network as it is.
  function startNoiseNetwork(n_features, seed) {
    const before = kernel.randomState(seed);
    const random = kernel.randomState(before.bits() & 0x7fffffff);
    const network = initialPosterior([n_features, ...NOISE_HIDDEN, 1], NOISE_PRIOR, [2, 1], random);
    network.m_w.fill(0, network.m_w.length - NOISE_HIDDEN.at(-1) - 1);
    before.free();
    random.free();
    return network;
  }

  function moments(values, n, stride, offset) {
    let [mean, variance] = [0, 0];
    for (let i = 0; i < n; ++i) mean += values[i * stride + offset] / n;
    for (let i = 0; i < n; ++i) variance += (values[i * stride + offset] - mean) ** 2 / n;
    return { mean, scale: variance > 0 ? Math.sqrt(variance) : 1 };
  }

  function standardizer(X, y, { classes, n_features }) {
    const n = y.length;
    const columns = Array.from({ length: n_features }, (_, j) => moments(X, n, n_features, j));
    const target = classes || n === 0 ? { mean: 0, scale: 1 } : moments(y, n, 1, 0);
    const ofRows = (rows) =>
      Float64Array.from(rows, (x, i) => {
        const { mean, scale } = columns[i % n_features];
        return (x - mean) / scale;
      });
    return { target, ofRows, ofTargets: (y) => y.map((v) => (v - target.mean) / target.scale) };
  }

  // ---- Training

  // How the network of the noise learns in epochs first to last, counted from 1.
  function watch(first, last, n, { n_epochs, n_features, evidence_cap }) {
    const left_alone = Math.floor(LEFT_ALONE * n_epochs);
    const passes = PASSES * Math.min(1, n / (FEW_ROWS * Math.min(n_features, 3))) ** 2;
    const each = Math.min(1, passes / (n_epochs - left_alone));
    const power = [];
    for (let epoch = first; epoch <= last; ++epoch) power.push(epoch > left_alone ? each : 0);
    const bounded = evidence_cap !== null && power.some((p) => p > 0);
    return { power, capacity: bounded ? (evidence_cap * n) / each : null };
  }

  function withFirstTails(posterior) {
    const noise_network = posterior.noise_network && {
      ...posterior.noise_network,
      tail: [FIRST_TAIL],
    };
    const [alpha_noise, beta_noise] = [[PRIOR[0]], [PRIOR[1]]];
    return { ...posterior, alpha_noise, beta_noise, tail: [FIRST_TAIL], noise_network };
  }

  function fit(X, y, given = {}) {
    const cap = given.classes ? CLASS_EVIDENCE_CAP : null;
    const settings = { ...DEFAULTS, evidence_cap: cap, ...given };
    const { classes, n_features, n_epochs, evidence_cap, seed } = settings;
    const heavy = !classes && settings.noise_tail === "heavy";
    const noise_prior = classes ? UNIT_NOISE : PRIOR;
    const units = standardizer(X, y, settings);
    const random = kernel.randomState(seed);
    const sizes = [n_features, ...settings.hidden, 1];
    let posterior = initialPosterior(sizes, PRIOR, noise_prior, random);
    const likelihood = classes ? "probit" : heavy ? "heavy" : "gaussian";
    if (!classes && settings.noise === "input")
      posterior.noise_network = startNoiseNetwork(n_features, seed);
    const n = y.length;
    const rows = { X: units.ofRows(X), y: units.ofTargets(y), random, likelihood };
    const [noise_shape, noise_rate] = noise_prior;
    const bound = { capacity: evidence_cap * n, noise_shape, noise_rate };
    const epochs = (first, last, tail_rate) => {
      if (last < first) return;
      const refine = Array(last - first + 1).fill(true);
      ({ posterior } = kernel.train({
        ...rows,
        posterior,
        refine,
        memory: evidence_cap === null ? null : bound,
        tail_rate: heavy ? refine.map(() => tail_rate) : null,
        watch: posterior.noise_network && watch(first, last, n, settings),
      }));
    };
    if (n > 0) {
      const burnIn = heavy ? Math.min(TAIL_BURN_IN, Math.floor(n_epochs / 2)) : 0;
      epochs(1, burnIn, 0);
      if (heavy) posterior = withFirstTails(posterior);
      epochs(burnIn + 1, n_epochs, 1);
    }
    random.free();
    return fitted(posterior, units, settings);
  }

  // ---- Predictions

  function fitted(posterior, units, { classes }) {
    const level = posterior.beta_noise[0] / (posterior.alpha_noise[0] - 1);
    const { mean: y_mean, scale: y_scale } = units.target;

    // Moments of the logarithm of the noise variance in units of the level.
    function logNoise(rows, n) {
      const network = posterior.noise_network;
      if (!network)
        return { m_log: new Float64Array(n), v_log: new Float64Array(n).fill(posterior.tail[0]) };
      const { mean, variance } = kernel.forward(network, rows);
      return {
        m_log: mean.map((m) => Math.max(-LARGEST_LOG, Math.min(LARGEST_LOG, m))),
        v_log: variance.map((v) => Math.min(LARGEST_VARIANCE, v) + network.tail[0]),
      };
    }

    function predict(X) {
      const rows = units.ofRows(X);
      const { mean, variance } = kernel.forward(posterior, rows);
      if (classes) {
        const z = mean.map((m, i) => m / Math.sqrt(1 + variance[i]));
        return { probability: kernel.normalCdf(z) };
      }
      const { m_log, v_log } = logNoise(rows, mean.length);
      const noise = (m, i) => Math.sqrt(level * Math.exp(m + 0.5 * v_log[i])) * y_scale;
      const predicted = {
        mean: mean.map((m) => m * y_scale + y_mean),
        epistemic_std: variance.map((v) => Math.sqrt(v) * y_scale),
        aleatoric_std: m_log.map(noise),
      };
      return { ...predicted, ...kernel.interval({ weights: [1], ...predicted, tail: v_log }, LEVEL) };
    }

    function draw(X, n_functions, seed) {
      const [random, rows] = [kernel.randomState(seed), units.ofRows(X)];
      const functions = Array.from({ length: n_functions }, () => {
        const z = random.normals(posterior.m_w.length);
        const w = posterior.m_w.map((m, i) => m + Math.sqrt(posterior.v_w[i]) * z[i]);
        return kernel.sampled(posterior.sizes, w, rows).map((value) => value * y_scale + y_mean);
      });
      random.free();
      return functions;
    }

    return { posterior, predict, draw };
  }

  return { fit };
};
