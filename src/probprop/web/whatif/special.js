// Functions of the normal distribution, accurate in both tails, and a search for roots.

// Chebyshev series of (1 + 2x) erfcx(x) in t = (x - 3.75)/(x + 3.75), for x from 0 to infinity.
const ERFCX = Float64Array.of(
  1.1775789345674017,
  -0.004590054580646478,
  -0.08424913336651792,
  0.05920993999819189,
  -0.026658668435305753,
  0.009074997670705265,
  -0.002413163540417608,
  0.0004907758365258086,
  -6.916973302501207e-5,
  4.13902798607301e-6,
  7.74038306619849e-7,
  -2.1886401049234397e-7,
  1.076499946567091e-8,
  4.521959811218287e-9,
  -7.754400208831351e-10,
  -6.318088340886684e-11,
  2.86879501093067e-11,
  1.9455868545777347e-13,
  -9.65469674843344e-13,
  3.25254814814874e-14,
  3.3478119482868056e-14,
  -1.864562880419313e-15,
  -1.2507950530688648e-15,
  7.418235256624044e-17,
  5.068148904796111e-17,
);
const HALF_LOG_TWO_PI = 0.5 * Math.log(2 * Math.PI);

// exp(x^2) erfc(x) of x >= 0, by Clenshaw's recurrence.
function erfcx(x) {
  if (x > 1e150) return 0;
  const t = (x - 3.75) / (x + 3.75);
  let following = 0;
  let after = 0;
  for (let k = ERFCX.length - 1; k > 0; k -= 1) {
    const here = ERFCX[k] + 2 * t * following - after;
    after = following;
    following = here;
  }
  return (ERFCX[0] + t * following - after) / (1 + 2 * x);
}

// Phi(z), the probability of a standard normal below z.
export function ndtr(z) {
  const tail = 0.5 * erfcx(Math.abs(z) * Math.SQRT1_2) * Math.exp(-0.5 * z * z);
  return z < 0 ? tail : 1 - tail;
}

// Phi at nodes between -8 and 8, from which a Taylor series goes to any z there: many times faster.
const [LOWEST, PER_UNIT] = [-8, 64];
const NODES = Float64Array.from({ length: 16 * PER_UNIT + 1 }, (_, i) => LOWEST + i / PER_UNIT);
const NODES_CDF = NODES.map(ndtr);
const NODES_PDF = NODES.map((z) => Math.exp(-0.5 * z * z) / Math.sqrt(2 * Math.PI));

// Phi(z), with an error of 1e-14.
export function normalCdf(z) {
  if (!(z > -8 && z < 8)) return ndtr(z);
  const node = Math.round((z - LOWEST) * PER_UNIT);
  const a = NODES[node];
  const d = z - a;
  const a2 = a * a;
  const third = d / 3;
  // The derivatives of the density are Hermite polynomials times it.
  const series =
    1 -
    0.5 * d * (a - third * (a2 - 1 - 0.25 * d * (a * (a2 - 3) - 0.2 * d * (a2 * (a2 - 6) + 3))));
  return NODES_CDF[node] + NODES_PDF[node] * d * series;
}

// log Phi(z), also where Phi(z) would underflow.
export function logNdtr(z) {
  const factor = 0.5 * erfcx(Math.abs(z) * Math.SQRT1_2);
  return z < 0 ? Math.log(factor) - 0.5 * z * z : Math.log1p(-factor * Math.exp(-0.5 * z * z));
}

// The z with Phi(z) = p, by Newton's method on log Phi, which is concave: it never overshoots twice.
export function ndtri(p) {
  if (p > 0.5) return -ndtri(1 - p);
  const logP = Math.log(p);
  let z = -Math.sqrt(Math.max(0, -2 * logP - 1));
  for (let i = 0; i < 100; i += 1) {
    const logPhi = logNdtr(z);
    const step = (logPhi - logP) * Math.exp(logPhi + 0.5 * z * z + HALF_LOG_TWO_PI);
    z -= step;
    if (Math.abs(step) < 1e-15 * (1 + Math.abs(z))) break;
  }
  return z;
}

// The w >= 0 with w exp(w) = x, of x >= 0, by Newton's method on w + log w = log x.
export function lambertW(x) {
  if (x < 1e-12) return x;
  let w = Math.log1p(x);
  for (let i = 0; i < 50; i += 1) {
    const step = (w * (w + Math.log(w / x))) / (1 + w);
    w -= step;
    if (Math.abs(step) < 1e-15 * w) break;
  }
  return w;
}

export function logSumExp(values) {
  let top = -Infinity;
  for (const value of values) top = Math.max(top, value);
  if (!Number.isFinite(top)) return top;
  let sum = 0;
  for (const value of values) sum += Math.exp(value - top);
  return top + Math.log(sum);
}

// A root of f between low and high, where it changes its sign: the false position method with the
// weights of Anderson and Bjorck, and a bisection where that does not shrink the bracket.
export function findRoot(f, low, high, tolerance) {
  let [a, b] = [low, high];
  let [fa, fb] = [f(a), f(b)];
  if (fa === 0) return a;
  if (fb === 0) return b;
  for (let i = 0; i < 200 && Math.abs(b - a) > tolerance; i += 1) {
    const width = Math.abs(b - a);
    let x = b - (fb * (b - a)) / (fb - fa);
    if (!(Math.abs(x - a) < width && Math.abs(x - b) < width) || i % 8 === 7) x = 0.5 * (a + b);
    if (x === a || x === b) break;
    const fx = f(x);
    if (fx === 0) return x;
    if (fx > 0 !== fb > 0) {
      [a, fa] = [b, fb];
    } else {
      const weight = 1 - fx / fb;
      fa *= weight > 0 ? weight : 0.5;
    }
    if (Math.abs(x - b) < 0.5 * tolerance) return x;
    [b, fb] = [x, fx];
  }
  return b;
}
