// A Gaussian whose noise has a log-normal variance: probprop/predictive/log_normal.py.

import { lambertW, logNdtr } from "./special.js";

const REACH = 9; // standard deviations of u on either side of the mass
const STEP = 0.5; // in widths of the integrand
const STEP_G = 0.35; // in g, for the strip
const HALF_LOG_TWO_PI = 0.5 * Math.log(2 * Math.PI);

const logDensity = (z, std) => -0.5 * (z / std) ** 2 - Math.log(std) - HALF_LOG_TWO_PI;
const logAbove = (z, std) => logNdtr(-z / std);

// Log density of z, in units of the noise level; `ratio` is the standard deviation of the model.
export function logNormalPdf(z, ratio, tail) {
  return logIntegral(logDensity, z, ratio, tail);
}

// Log of the probability above z.
export function logNormalSf(z, ratio, tail) {
  return logIntegral(logAbove, z, ratio, tail);
}

function logIntegral(term, z, ratio, tail) {
  if (tail === 0) return term(z, Math.hypot(ratio, 1));
  const sigma = Math.sqrt(tail);
  const far = Math.min(Math.abs(z), 1e150);
  const w = lambertW(0.5 * (sigma * far) ** 2);
  const pull = 0.5 * sigma * far * (far * Math.exp(-w));
  const left = -REACH - 0.5 * sigma;
  const right = REACH + pull;
  const widest = Math.min(STEP / Math.sqrt(1 + w), STEP_G / sigma);
  const n = Math.ceil((right - left) / widest);
  const step = (right - left) / n;
  let top = -Infinity;
  let sum = 0;
  for (let i = 0; i <= n; i += 1) {
    const u = left + step * i;
    const logF = term(z, Math.sqrt(ratio * ratio + Math.exp(sigma * u))) - 0.5 * u * u;
    if (logF > top) {
      sum = sum * Math.exp(top - logF) + 1;
      top = logF;
    } else {
      sum += Math.exp(logF - top);
    }
  }
  return top + Math.log(sum * step) - HALF_LOG_TWO_PI;
}
