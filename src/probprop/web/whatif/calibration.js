// What cross-validation corrects: probprop/estimators/cv/calibration.py, beyond.py and noise.py.

import { logScale } from "./network.js";
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

// Calibrated values of rows, given those of one network.
export function calibrated(values, calibration, rows, h) {
  const a = Math.sqrt(calibration.factor);
  const stdsModel = values.stdsModel.map((std, i) =>
    Math.hypot(a * std, beyond(rows[i], calibration.range)),
  );
  const noise = (i) => (h ? Math.sqrt(Math.exp(h.mean[i] + 0.5 * h.variance[i])) : 1);
  return {
    means: values.means,
    stdsModel,
    stdsNoise: values.stdsNoise.map((std, i) => a * std * noise(i)),
    tails: h ? h.variance : values.tails,
  };
}

// What the noise network of a calibration says of rows, within the levels seen in training; null
// where there is none.
export function noiseOf(kernel, calibration, rows) {
  const { noise, range } = calibration;
  if (!noise) return null;
  const inside = rows.map((row) => encodeRamps(nearest(row, range), noise.encoding));
  const { mean, variance } = logScale(kernel, noise, inside);
  const { low, high, variance: largest } = noise.levels;
  return {
    mean: mean.map((m) => Math.min(Math.max(m, low), high)),
    variance: variance.map((v) => Math.min(v, largest)),
  };
}
