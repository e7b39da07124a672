// From rows to the moments of the outputs of one network, and the noise it gives them:
// probprop/inference/prediction.py and noise.py. The kernel has the forward pass.

const LARGEST_LOG = 20; // bounds on the moments of the logarithm of the noise in predictions
export const LARGEST_VARIANCE = 4;

// Mean and variance of the outputs of every row, standardized: (n, K) each, flat. What is missing in
// a row has the mean and the variance of its feature.
export function outputMoments(kernel, network, rows) {
  const { x_mean: mean, x_scale: scale, missing_variance: variance } = network;
  const D = mean.length;
  const X = new Float64Array(rows.length * D);
  let V = null;
  rows.forEach((row, i) => {
    for (let j = 0; j < D; j += 1) {
      if (Number.isNaN(row[j])) {
        V ??= new Float64Array(rows.length * D);
        V[i * D + j] = variance[j];
      } else {
        X[i * D + j] = (row[j] - mean[j]) / scale[j];
      }
    }
  });
  const outputs = kernel.forward(network, X, V);
  return network.output_layer ? exactLayer(network.output_layer, outputs.mean, X, D) : outputs;
}

// The moments of an exact output layer of one target, whose features are the outputs of the network
// and the standardized inputs.
function exactLayer(layer, hidden, X, D) {
  const { center, axes, coef, variance: ofAxis } = layer;
  const M = center.length;
  const H = M - D;
  const n = X.length / D;
  const mean = new Float64Array(n).fill(layer.intercept[0]);
  const variance = new Float64Array(n).fill(layer.intercept_variance[0]);
  const along = new Float64Array(M);
  for (let i = 0; i < n; i += 1) {
    along.fill(0);
    for (let j = 0; j < M; j += 1) {
      const x = (j < H ? hidden[i * H + j] : X[i * D + j - H]) - center[j];
      if (x !== 0) for (let k = 0; k < M; k += 1) along[k] += x * axes[j * M + k];
    }
    for (let k = 0; k < M; k += 1) {
      mean[i] += along[k] * coef[k];
      variance[i] += along[k] ** 2 * ofAxis[k];
    }
  }
  return { mean, variance };
}

// The logarithm of the noise variance of each row, in units of its level: a Gaussian, within bounds.
export function logScale(kernel, network, rows) {
  const { mean, variance } = outputMoments(kernel, network, rows);
  const K = mean.length / rows.length;
  return {
    mean: mean.map((m) => Math.min(Math.max(m, -LARGEST_LOG), LARGEST_LOG)),
    variance: variance.map((v, i) => Math.min(v, LARGEST_VARIANCE) + network.tail[i % K]),
  };
}

// What a network predicts of rows, in target units, (n, K) each, flat: means, standard deviations of
// the model and of the noise, and the variance of the logarithm of the noise variance.
export function predictValues(kernel, member, rows) {
  const { mean, variance } = outputMoments(kernel, member, rows);
  const K = member.y_scale.length;
  const scale = (i) => member.y_scale[i % K];
  const h = member.noise_network ? logScale(kernel, member.noise_network, rows) : null;
  const tails = h ? h.variance : mean.map((_, i) => member.tail[i % K]);
  const logFactor = (i) => (h ? h.mean[i] : 0) + 0.5 * tails[i];
  return {
    means: mean.map((m, i) => m * scale(i) + member.y_mean[i % K]),
    epistemicStds: variance.map((v, i) => Math.sqrt(v) * scale(i)),
    aleatoricStds: mean.map(
      (_, i) => Math.sqrt(member.noise_variance[i % K] * Math.exp(logFactor(i))) * scale(i),
    ),
    tails,
  };
}
