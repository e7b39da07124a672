// Each column, followed by its piecewise-linear encoding between quantiles:
// probprop/encoding/piecewise.py. Without a state rows stay as they are.

export function encodeRamps(x, state) {
  if (!state) return x;
  const n = state.center.length;
  const encoded = new Float64Array(n + state.column.length);
  for (let j = 0; j < n; j += 1) encoded[j] = (x[j] - state.center[j]) / state.scale[j];
  for (let b = 0; b < state.column.length; b += 1) {
    const [start, end] = [state.start[b], state.end[b]];
    const value = x[state.column[b]];
    if (state.coded?.[state.column[b]]) {
      const isLevel = start <= value && value < end ? 1 : 0;
      encoded[n + b] = (Number.isNaN(value) ? NaN : isLevel) / state.ramp_scale[b];
      continue;
    }
    const inside = Math.min(Math.max(value, start), end); // NaN stays so
    encoded[n + b] = ((inside - start) / (end - start) - state.ramp_center[b]) / state.ramp_scale[b];
  }
  return encoded;
}
