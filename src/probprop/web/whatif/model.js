// A fitted model of a table: cells in, predictive distributions out.

import { BoxCox, Transformed } from "./box_cox.js";
import { bounded } from "./bounds.js";
import { calibrated, noiseOf } from "./calibration.js";
import { ClassMixture } from "./classes.js";
import { Mixture } from "./mixture.js";
import { outputMoments, predictValues } from "./network.js";
import { encodeRamps } from "./piecewise.js";
import { logNdtr } from "./special.js";
import { encodeCells } from "./table.js";

export class Model {
  // `exported` is what probprop/report/live/exported.py wrote.
  constructor(exported, kernel) {
    Object.assign(this, exported);
    this.kernel = kernel;
    const g = this.calibration?.transformation;
    this.g = g ? new BoxCox(g.power, g.unit) : null;
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
    const A = X.map((x) => encodeRamps(x, this.encoding));
    return this.classes ? this.#predictClasses(A) : this.#predictValues(X, A);
  }

  // The numbers of a row, within the bounds of the model.
  #numbers(cells) {
    const x = encodeCells(cells, this.columns, this.n_features, this.takes_gaps);
    return bounded(x, this.bounds);
  }

  #predictValues(X, A) {
    const h = this.calibration ? noiseOf(this.kernel, this.calibration, X) : null;
    const members = this.members.map((member) => {
      const values = predictValues(this.kernel, member, A);
      return this.calibration ? calibrated(values, this.calibration, X, h) : values;
    });
    const K = this.targets.length;
    const names = ["means", "stdsModel", "stdsNoise", "tails"];
    return X.map((_, i) =>
      this.targets.map((__, k) => {
        const of = (name) => Float64Array.from(members, (values) => values[name][i * K + k]);
        const mixture = new Mixture(...names.map(of));
        return this.g ? new Transformed(mixture, this.g) : mixture;
      }),
    );
  }

  #predictClasses(A) {
    const cooling = 1 / Math.sqrt(this.calibration?.temperature ?? 1);
    const members = this.members.map((member) => {
      const { mean, variance } = outputMoments(this.kernel, member, A);
      return this.#probabilities(
        mean.map((m) => m * cooling),
        variance,
        A.length,
      );
    });
    return A.map((_, i) => [
      new ClassMixture(
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
      return { mean: m, std: v.map(Math.sqrt), logP: logP ? own(logP) : [logNdtr(-z), logNdtr(z)] };
    });
  }
}
