// The predictive distribution of a class: probprop/distributions/classes.py.

// H(Phi(f)) is close to log 2 exp(-f^2/(2 a)).
const BUMP_VARIANCE = 0.5 * Math.PI * Math.log(2);
const STEPS = Array.from({ length: 81 }, (_, i) => -10 + 0.25 * i);
const WINNER = Float64Array.from({ length: 35 }, (_, i) => -5 + 0.4 * i);

// Of one row, by several networks, whose weights sum to 1; each member has logP, (n_classes,), and
// the moments of its outputs in units of their noise. `draws` are normal numbers, (n_draws,
// n_classes).
export class ClassMixture {
  constructor(kernel, weights, members, draws) {
    Object.assign(this, { kernel, weights, members, draws });
    const n = members[0].logP.length;
    const ofClass = (c) => members.map((p, s) => p.logP[c] + Math.log(weights[s]));
    this.logP = Array.from({ length: n }, (_, c) => logSumExp(ofClass(c)));
    this.proba = this.logP.map(Math.exp);
  }

  byNetwork(c) {
    return this.members.map((p) => Math.exp(p.logP[c]));
  }

  // How unsure a single network is of its probability; not known of more than two classes.
  doubt() {
    const [{ mean, std }] = this.members;
    if (mean.length > 1) return NaN;
    const [low, high] = this.kernel.normalCdf([mean[0] - std[0], mean[0] + std[0]]);
    return 0.5 * (high - low);
  }

  get entropy() {
    return this.proba.reduce((sum, p, c) => sum - (p > 0 ? p * this.logP[c] : 0), 0);
  }

  // What the networks themselves take to be random, in nats.
  get entropyNoise() {
    if (this.noise === undefined) {
      const each = this.members.map((p) => entropyNoise(this.kernel, p, this.draws));
      this.noise = each.reduce((sum, h, s) => sum + this.weights[s] * h, 0);
    }
    return this.noise;
  }

  // What more data could remove.
  get entropyModel() {
    return Math.max(0, this.entropy - this.entropyNoise);
  }
}

function logSumExp(values) {
  let top = -Infinity;
  for (const value of values) top = Math.max(top, value);
  if (!Number.isFinite(top)) return top;
  let sum = 0;
  for (const value of values) sum += Math.exp(value - top);
  return top + Math.log(sum);
}

function entropyNoise(kernel, { mean, std, logP }, draws) {
  if (mean.length === 1) {
    const [entropy] = binaryEntropies(kernel, [mean[0] / Math.hypot(1, std[0])]);
    return Math.min(entropy, expectedBinaryEntropy(kernel, mean[0], std[0]));
  }
  const entropy = -logP.reduce((sum, log) => sum + Math.exp(log) * log, 0);
  return entropy - Math.min(entropy, drawnInformation(kernel, mean, std, draws));
}

// Of labels of probability Phi(z).
function binaryEntropies(kernel, z) {
  const [below, above] = [z, z.map((x) => -x)].map((at) => kernel.normalLogCdf(at));
  return below.map((log, i) => -(Math.exp(log) * log + Math.exp(above[i]) * above[i]));
}

// E[H(Phi(f))] for f ~ N(m, s^2), by the trapezoidal rule.
function expectedBinaryEntropy(kernel, m, s) {
  const vSum = s * s + BUMP_VARIANCE;
  const width = s * Math.sqrt(BUMP_VARIANCE / vSum);
  const deviations = STEPS.map((step) => width * step - (m * s * s) / vSum);
  const entropies = binaryEntropies(
    kernel,
    deviations.map((d) => m + d),
  );
  let sum = 0;
  deviations.forEach((d, i) => (sum += Math.exp(-0.5 * (d / s) ** 2) * entropies[i]));
  return (width * 0.25 * sum) / (Math.sqrt(2 * Math.PI) * s);
}

const entropyOf = (p) => p.reduce((sum, x) => sum - (x > 0 ? x * Math.log(x) : 0), 0);

// H(E[p]) - E[H(p)] over draws of the outputs.
function drawnInformation(kernel, mean, std, draws) {
  const K = mean.length;
  const n = draws.length / K;
  const total = new Float64Array(K);
  let expected = 0;
  const f = new Float64Array(K);
  for (let i = 0; i < n; i += 1) {
    for (let k = 0; k < K; k += 1) f[k] = mean[k] + std[k] * draws[i * K + k];
    const p = knownProbabilities(kernel, f);
    p.forEach((x, k) => (total[k] += x / n));
    expected += entropyOf(p) / n;
  }
  return Math.max(0, entropyOf(total) - expected);
}

// The probability of every class when the outputs are known: the density of the largest noisy
// output is divided among the classes. It is never far below the others, so no factor underflows.
function knownProbabilities(kernel, f) {
  const K = f.length;
  const p = new Float64Array(K);
  const z = new Float64Array(WINNER.length * K);
  let top = -Infinity;
  for (let k = 0; k < K; k += 1) top = Math.max(top, f[k]);
  for (let i = 0; i < z.length; i += 1) z[i] = top - f[i % K] + WINNER[Math.floor(i / K)];
  const below = kernel.normalCdf(z);
  for (let start = 0; start < z.length; start += K) {
    let all = 1;
    for (let k = 0; k < K; k += 1) all *= below[start + k];
    for (let k = 0; k < K; k += 1) {
      const at = start + k;
      p[k] += (all / below[at]) * Math.exp(-0.5 * z[at] * z[at]);
    }
  }
  let sum = 0;
  for (let k = 0; k < K; k += 1) sum += p[k];
  for (let k = 0; k < K; k += 1) p[k] /= sum;
  return p;
}
