// A Gaussian whose noise has a log-normal variance, as a sum of Gaussians: the nodes of the
// trapezoidal rule of probprop/predictive/log_normal.py.

import { lambertW } from "./special.js";

const REACH = 9; // standard deviations of u on either side of the mass
const STEP = 0.5; // in widths of the integrand
const STEP_G = 0.35; // in g, for the strip

let last = { tail: NaN, far: NaN }; // the networks of an ensemble often share them

// Variances e^g, in units of the noise level, and their weights, which sum to 1: with them densities
// and probabilities are exact up to `far` standard deviations of the level from the mean.
export function noiseNodes(tail, far) {
  if (tail === last.tail && far === last.far) return last;
  const sigma = Math.sqrt(tail);
  const w = lambertW(0.5 * (sigma * far) ** 2);
  const pull = 0.5 * sigma * far * (far * Math.exp(-w));
  const [left, right] = [-REACH - 0.5 * sigma, REACH + pull];
  const n = Math.ceil((right - left) / Math.min(STEP / Math.sqrt(1 + w), STEP_G / sigma));
  const step = (right - left) / n;
  const u = Float64Array.from({ length: n + 1 }, (_, i) => left + step * i);
  const weights = u.map((at) => (step * Math.exp(-0.5 * at * at)) / Math.sqrt(2 * Math.PI));
  last = { tail, far, variances: u.map((at) => Math.exp(sigma * at)), weights };
  return last;
}
