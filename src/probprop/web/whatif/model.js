// A fitted model of a table: cells in, predictive distributions out.

import { bounded } from "./bounds.js";
import { calibrated, noiseOf } from "./calibration.js";
import { ClassMixture } from "./classes.js";
import { Joint, overNodes } from "./joint.js";
import { BoxCox, Mixture, Transformed } from "./mixture.js";
import { outputMoments, predictValues } from "./network.js";
import { encodeRamps } from "./piecewise.js";
import { Recalibrated, Recalibration } from "./recalibrated.js";
import { encodeCells } from "./table.js";

export class Model {
  // `exported` is what probprop/report/live.py wrote.
  constructor(exported, kernel) {
    Object.assign(this, exported);
    this.kernel = kernel;
    this.weights ??= this.members.map(() => 1 / this.members.length);
    this.joint = exported.joint ? new Joint(exported.joint) : null;
    const g = this.calibration?.transformation;
    this.g = g ? new BoxCox(g.power, g.unit) : null;
    const shape = this.calibration?.recalibration;
    this.shape = shape ? new Recalibration(kernel, shape) : null;
  }

  // Whether the numbers of a row are too far from the training rows to compute with.
  tooFar(cells) {
    return this.#numbers(cells).some(
      (value, j) => Math.abs((value - this.x_mean[j]) / this.x_scale[j]) > this.largest,
    );
  }

  // For each row of cells, a list of distributions: one of a class, or one for each target.
  predict(rows) {
    const X = rows.map((row) => this.#numbers(row));
    const known = { weights: [1], factor: 0 };
    const completed = X.map((x) =>
      this.joint && x.some(Number.isNaN) ? this.joint.complete(x) : { rows: [x], ...known },
    );
    return this.classes ? this.#predictClasses(completed) : this.#predictValues(X, completed);
  }

  // The numbers of a row, within the bounds of the model.
  #numbers(cells) {
    const x = encodeCells(cells, this.columns, this.n_features, this.takes_gaps);
    return bounded(x, this.bounds);
  }

  // The rows of all nodes, in each encoding that networks take.
  #encoded(completed) {
    return this.encodings.map((encoding) =>
      completed.flatMap(({ rows }) => rows.map((x) => encodeRamps(x, encoding))),
    );
  }

  #predictValues(X, completed) {
    const [A, calibration] = [this.#encoded(completed), this.calibration];
    const h = calibration ? noiseOf(this.kernel, calibration, completed) : null;
    const members = this.members.map((member) => {
      const values = predictValues(this.kernel, member, A[member.encoding]);
      return calibration ? calibrated(values, calibration, X, h, completed) : values;
    });
    const K = this.targets.length;
    return X.map((_, i) =>
      this.targets.map((__, k) => {
        const of = (name) => Float64Array.from(members, (values) => values[name][i * K + k]);
        const mixture = new Mixture(this.kernel, {
          weights: this.weights,
          mean: of("means"),
          epistemic_std: of("epistemicStds"),
          aleatoric_std: of("aleatoricStds"),
          tail: of("tails"),
        });
        if (this.shape) return new Recalibrated(mixture, this.g, this.shape);
        return this.g ? new Transformed(mixture, this.g) : mixture;
      }),
    );
  }

  #predictClasses(completed) {
    const [A, temperature] = [this.#encoded(completed), this.calibration?.temperature ?? 1];
    const cooling = 1 / Math.sqrt(temperature);
    const members = this.members.map((member) => {
      const outputs = outputMoments(this.kernel, member, A[member.encoding]);
      const scale = (factor) => factor / temperature;
      const { mean, variance } = overNodes(completed, outputs.mean, outputs.variance, scale);
      return this.#probabilities(
        mean.map((m) => m * cooling),
        variance,
        completed.length,
      );
    });
    return completed.map((_, i) => [
      new ClassMixture(
        this.kernel,
        this.weights,
        members.map((rows) => rows[i]),
        this.draws,
      ),
    ]);
  }

  // What one network says of the class of each row.
  #probabilities(mean, variance, n) {
    const K = mean.length / n;
    const logP = K > 1 ? this.kernel.classLogProbabilities(mean, variance, K) : null;
    return Array.from({ length: n }, (_, i) => {
      const own = (values) => values.slice(i * K, (i + 1) * K);
      const [m, v] = [own(mean), own(variance)];
      const z = m[0] / Math.sqrt(1 + v[0]);
      const binary = () => this.kernel.normalLogCdf([-z, z]);
      return { mean: m, std: v.map(Math.sqrt), logP: logP ? own(logP) : binary() };
    });
  }
}
