// What cross-validation corrects: probprop/estimators/cv/calibration.py.

import { overNodes } from "./joint.js";
import { LARGEST_VARIANCE, logScale } from "./network.js";
import { encodeRamps } from "./piecewise.js";

// The nearest row inside the range of the training rows; what is missing stays so.
function nearest(row, { low, high }) {
  return row.map((x, j) => Math.min(Math.max(x, low[j]), high[j]));
}

// The standard deviation that a row has for lying outside of the range.
function beyond(row, { low, high, scale, slope }) {
  const inside = nearest(row, { low, high });
  const distances = row.map((x, j) => (Number.isNaN(x) ? 0 : (x - inside[j]) / scale[j]));
  return slope * Math.hypot(...distances);
}

// Calibrated values of rows, given those of one network at all nodes of the completed rows. The
// noise of a network is the same everywhere.
export function calibrated(values, calibration, rows, h, completed) {
  const a = Math.sqrt(calibration.factor);
  const variances = values.epistemicStds.map((std) => std * std);
  const scale = (factor) => factor / calibration.factor;
  const { mean, variance } = overNodes(completed, values.means, variances, scale);
  const noise = (i) => (h ? Math.sqrt(Math.exp(h.mean[i] + 0.5 * h.variance[i])) : 1);
  return {
    means: mean,
    epistemicStds: variance.map((v, i) =>
      Math.hypot(a * Math.sqrt(v), beyond(rows[i], calibration.range)),
    ),
    aleatoricStds: mean.map((_, i) => a * values.aleatoricStds[0] * noise(i)),
    tails: h ? h.variance : mean.map(() => values.tails[0]),
  };
}

// What the noise network of a calibration says of completed rows, within the levels seen in
// training; null where there is none.
export function noiseOf(kernel, calibration, completed) {
  const { noise, range } = calibration;
  if (!noise) return null;
  const inside = completed.flatMap(({ rows }) =>
    rows.map((row) => encodeRamps(nearest(row, range), noise.encoding)),
  );
  const h = logScale(kernel, noise, inside);
  const { low, high, variance: largest } = noise.levels;
  const means = h.mean.map((m) => Math.min(Math.max(m, low), high));
  const variances = h.variance.map((v) => Math.min(v, largest));
  const { mean, variance } = overNodes(completed, means, variances, () => 1);
  return { mean, variance: variance.map((v) => Math.min(v, LARGEST_VARIANCE)) };
}
