// Values beyond the training range grow ever more slowly: probprop/encoding/bounds.py. Without bounds
// rows stay as they are.

export function bounded(x, bounds) {
  if (!bounds) return x;
  const { low, high, growth } = bounds;
  return x.map((value, j) => {
    if (!(value < low[j] || value > high[j])) return value; // NaN stays so
    const end = value > high[j] ? high[j] : low[j];
    const distance = growth[j] / (1 + (growth[j] / Math.abs(value - end)) ** 3) ** (1 / 3);
    return end + Math.sign(value - end) * distance;
  });
}
