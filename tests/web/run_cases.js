"use strict";
// Runs the cases of wasm_cases.py with a kernel; one answer for each. In node and in a browser.

const RUN = {
  forward: (kernel, { network, X, X_var }) => kernel.forward(network, X, X_var),
  gradient: (kernel, { network, X }) => kernel.gradient(network, X),
  sampled: (kernel, { sizes, w, X }) => ({ f: kernel.sampled(sizes, w, X) }),
  classes: (kernel, { mean, variance, n_classes }) => ({
    log_p: kernel.classLogProbabilities(mean, variance, n_classes),
  }),
  scale: (kernel, { d, v, mu, variance }) => kernel.scaleMixtures(d, v, mu, variance),
  normal: (kernel, { z, p }) => ({
    p: kernel.normalCdf(z),
    log_p: kernel.normalLogCdf(z),
    quantile: p.map((one) => kernel.normalQuantile(one)),
  }),
  mixture: (kernel, { members, y, coverage }) => ({
    logpdf: kernel.logpdf(members, y),
    cdf: kernel.cdf(members, y),
    ...kernel.interval(members, coverage),
  }),
  power: (kernel, { members, power }) => kernel.powerMoments(members, power),
  random: (kernel, { seed, n }) => {
    const random = kernel.randomState(seed);
    const answer = { bits: [random.bits(), random.bits()], normals: random.normals(n) };
    random.free();
    return answer;
  },
  // As an estimator; needs learning.js.
  fit: (kernel, { X, y, X_new, settings }) => {
    const model = ProbpropLearning(kernel).fit(X, y, settings);
    const drawn = model.draw(X_new, 2, 5).flatMap((f) => Array.from(f));
    return { ...model.predict(X_new), m_w: model.posterior.m_w, drawn };
  },
  train: (kernel, { seed, ...task }) => {
    const random = seed === null ? null : kernel.randomState(seed);
    const { posterior, log_Z_sum, counts } = kernel.train({ ...task, random });
    const after = random ? random.bits() : 0;
    random?.free();
    const { noise_network, ...network } = posterior;
    const of_noise = noise_network ?? { m_w: [], v_w: [], tail: [] };
    return {
      ...network,
      noise_m_w: of_noise.m_w,
      noise_v_w: of_noise.v_w,
      noise_tail: of_noise.tail,
      log_Z_sum,
      counts,
      after,
    };
  },
  refusal: (kernel, { seed, ...task }) => {
    try {
      kernel.train(task);
    } catch (error) {
      return { message: error.message };
    }
    return { message: "" };
  },
};

function runCases(kernel, cases) {
  const plain = (value) => (ArrayBuffer.isView(value) ? Array.from(value) : value);
  return cases.map(({ kind, ...given }) => {
    const answer = RUN[kind](kernel, given);
    return Object.fromEntries(Object.entries(answer).map(([name, value]) => [name, plain(value)]));
  });
}
