// The predictive distribution of a class: probprop/predictive/classes.py and cv/temperature.py.

import { logNdtr, logSumExp, ndtr, normalCdf } from "./special.js";

// H(Phi(f)) is close to log 2 exp(-f^2/(2 a)).
const BUMP_VARIANCE = 0.5 * Math.PI * Math.log(2);
const STEPS = Array.from({ length: 81 }, (_, i) => -10 + 0.25 * i);
const WINNER = Float64Array.from({ length: 35 }, (_, i) => -5 + 0.4 * i);

// Of one row, by several networks; each member has logP, (n_classes,), and the moments of its
// outputs in units of their noise. `draws` are normal numbers, (n_draws, n_classes).
export class ClassMixture {
  constructor(members, draws) {
    this.members = members;
    this.draws = draws;
    const n = members[0].logP.length;
    const logs = Array.from({ length: n }, (_, c) => logSumExp(members.map((p) => p.logP[c])));
    this.logP = logs.map((log) => log - Math.log(members.length));
    this.proba = this.logP.map(Math.exp);
  }

  get entropy() {
    return this.proba.reduce((sum, p, c) => sum - (p > 0 ? p * this.logP[c] : 0), 0);
  }

  // What the networks themselves take to be random, in nats.
  get entropyNoise() {
    if (this.noise === undefined) {
      const each = this.members.map((p) => entropyNoise(p, this.draws));
      this.noise = each.reduce((sum, h) => sum + h, 0) / each.length;
    }
    return this.noise;
  }

  // What more data could remove.
  get entropyModel() {
    return Math.max(0, this.entropy - this.entropyNoise);
  }
}

function entropyNoise({ mean, std, logP }, draws) {
  if (mean.length === 1) {
    const entropy = binaryEntropy(mean[0] / Math.hypot(1, std[0]));
    return entropy - Math.max(0, entropy - expectedBinaryEntropy(mean[0], std[0]));
  }
  const entropy = -logP.reduce((sum, log) => sum + Math.exp(log) * log, 0);
  return entropy - Math.min(entropy, drawnInformation(mean, std, draws));
}

// Of a label of probability Phi(z).
function binaryEntropy(z) {
  return -(ndtr(z) * logNdtr(z) + ndtr(-z) * logNdtr(-z));
}

// E[H(Phi(f))] for f ~ N(m, s^2), by the trapezoidal rule.
function expectedBinaryEntropy(m, s) {
  const vSum = s * s + BUMP_VARIANCE;
  const width = s * Math.sqrt(BUMP_VARIANCE / vSum);
  let sum = 0;
  for (const step of STEPS) {
    const deviation = width * step - (m * s * s) / vSum;
    const density = Math.exp(-0.5 * (deviation / s) ** 2) / (Math.sqrt(2 * Math.PI) * s);
    sum += density * binaryEntropy(m + deviation);
  }
  return width * 0.25 * sum;
}

const entropyOf = (p) => p.reduce((sum, x) => sum - (x > 0 ? x * Math.log(x) : 0), 0);

// H(E[p]) - E[H(p)] over draws of the outputs.
function drawnInformation(mean, std, draws) {
  const K = mean.length;
  const n = draws.length / K;
  const total = new Float64Array(K);
  let expected = 0;
  const f = new Float64Array(K);
  for (let i = 0; i < n; i += 1) {
    for (let k = 0; k < K; k += 1) f[k] = mean[k] + std[k] * draws[i * K + k];
    const p = knownProbabilities(f);
    p.forEach((x, k) => (total[k] += x / n));
    expected += entropyOf(p) / n;
  }
  return Math.max(0, entropyOf(total) - expected);
}

// The probability of every class when the outputs are known: the density of the largest noisy
// output is divided among the classes. It is never far below the others, so no factor underflows.
function knownProbabilities(f) {
  const K = f.length;
  const p = new Float64Array(K);
  const [below, bell] = [new Float64Array(K), new Float64Array(K)];
  let top = -Infinity;
  for (let k = 0; k < K; k += 1) top = Math.max(top, f[k]);
  for (let i = 0; i < WINNER.length; i += 1) {
    let all = 1;
    for (let k = 0; k < K; k += 1) {
      const z = top - f[k] + WINNER[i];
      below[k] = normalCdf(z);
      bell[k] = Math.exp(-0.5 * z * z);
      all *= below[k];
    }
    for (let k = 0; k < K; k += 1) p[k] += (all / below[k]) * bell[k];
  }
  let sum = 0;
  for (let k = 0; k < K; k += 1) sum += p[k];
  for (let k = 0; k < K; k += 1) p[k] /= sum;
  return p;
}
