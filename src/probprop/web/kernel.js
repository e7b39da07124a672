"use strict";
/* The kernel of probprop in a page: cpp/ as WebAssembly (kernel.wasm), and what calls it.
 *
 * A classic script without dependencies, which defines ProbpropKernel:
 *
 *   kernel = await ProbpropKernel.load(bytes)            // of kernel.wasm
 *   kernel = await ProbpropKernel.loadPacked(text)       // the same, gzip and base64, as in a page
 *
 * A page needs script-src 'wasm-unsafe-eval'. Names are as in the Python package. Arrays are flat
 * and row-major, of numbers in standardized units; results are new Float64Arrays.
 * A network is {sizes, m_w, v_w}: sizes counts the units of each layer, [n_features, ..., K];
 * m_w and v_w hold the layers one after the other, input to output, each (n_out, n_in + 1) with the
 * bias last, as in a Posterior. X may also list only the inputs that are not 0: compressed rows,
 * {indptr, indices, values}, or {X, basis} with the arrays of a Basis (cpp/kernel.hpp), by whose
 * columns derivatives are then taken.
 *
 *   kernel.forward(network, X, X_var = null)   -> {mean, variance}, (n, K) each, without noise;
 *                                                 X_var: variances of the entries of X
 *   kernel.gradient(network, X)                -> {mean, variance, dm_dx, dv_dx}, of one output
 *   kernel.sampled(sizes, w, X)                -> (n,), of one network with weights w, one output
 *   kernel.classLogProbabilities(mean, variance, n_classes) -> (n, n_classes), multinomial
 *   kernel.scaleMixtures(d, v, mu, variance)   -> {log_Z, d_mu, d_var, d_m, d_v}, (n,) each: of
 *                                                 residuals d whose log noise variance is normal
 *   kernel.normalCdf(z)                        -> (n,); normalLogCdf(z) is its logarithm
 *   kernel.normalQuantile(p)                   -> a number; p is at most 1/2
 *   kernel.logpdf(members, y)                  -> (n_at, n), as y; kernel.cdf(members, y) alike
 *   kernel.interval(members, coverage)         -> {lower, upper}, (n,) each
 *   kernel.powerMoments(members, power)        -> {mean, epistemic_std, aleatoric_std}, as those of
 *                                                 members: of targets behind a Box-Cox
 *                                                 transformation, in its unit
 *   kernel.randomState(seed)                   -> numpy.random.RandomState: normals(n), bits(),
 *                                                 free()
 *   kernel.train(task)                         -> {posterior, log_Z_sum, counts}
 *
 * Members are a mixture of networks for each of n targets, {weights, mean, epistemic_std,
 * aleatoric_std, tail}: weights, (n_members,), above 0, and the rest, (n_members, n) each, in any
 * units, as a Mixture with log-normal noise.
 *
 * A task is {posterior, likelihood, X, y, refine} and, if wanted, {X_var, random, memory,
 * tail_rate, watch, informative_ratio}, as Task in inference/task.py. A posterior is a network with
 * {v_hat_nat, a_hat_nat, b_hat_nat, alpha_noise, beta_noise, alpha_prior, beta_prior, tail,
 * noise_network}; memory is {capacity, noise_shape, noise_rate}; watch is {power, capacity or null}.
 */
const ProbpropKernel = (() => {
  const INFORMATIVE_RATIO = 8;
  const SCALE_GAMMA = [2, 1]; // a scale has no noise of its own
  const FAILURES = ["", "interrupted", "there is not enough memory", "X contains a value too large"];

  const check = (condition, message) => {
    if (!condition) throw new RangeError(message);
  };
  const countWeights = (sizes) =>
    sizes.slice(1).reduce((sum, n_out, l) => sum + n_out * (sizes[l] + 1), 0);
  // Updates between two tempering steps, as Memory.every.
  const every = (capacity) => Math.max(1, Math.floor(Math.min(64, capacity / 64)));

  function checkNetwork(network) {
    const { sizes, m_w, v_w } = network;
    const fits = sizes.length >= 2 && sizes.every((n) => Number.isInteger(n) && n > 0);
    check(fits, "sizes must hold an input and an output layer, each of a unit or more");
    const n = countWeights(sizes);
    check(m_w.length === n && v_w.length === n, `these sizes need ${n} weights, got ${m_w.length}`);
  }
  // The rows of X, and the columns by which derivatives are taken.
  function shapeOf(X, sizes) {
    const inputs = X.indptr ? X.indices : X.basis ? X.basis.input : [];
    check(inputs.every((j) => j >= 0 && j < sizes[0]), "an index of X is of no input");
    if (X.indptr) return [X.indptr.length - 1, sizes[0]];
    const n_columns = X.basis ? X.basis.first_knot.length - 1 : sizes[0];
    const entries = X.basis ? X.X : X;
    check(entries.length % n_columns === 0, `X must have ${n_columns} entries in each row`);
    return [entries.length / n_columns, n_columns];
  }
  // The number of targets that members predict.
  function countTargets({ weights, mean, epistemic_std, aleatoric_std, tail }) {
    const fits = [epistemic_std, aleatoric_std, tail].every((a) => a.length === mean.length);
    check(fits && mean.length % weights.length === 0, "the arrays of members differ in length");
    return mean.length / weights.length;
  }
  function succeed(status) {
    if (status !== 0) throw new Error(`The kernel stopped: ${FAILURES[status]}.`);
  }

  // Arrays in the module's memory during one call.
  class Scope {
    constructor(wasm) {
      this.wasm = wasm;
      this.pointers = [];
      this.listed = [];
    }
    // The rows of X, for networks of these sizes.
    rows(X, sizes) {
      const [n, n_columns] = shapeOf(X, sizes);
      const integers = (values) => this.put(Int32Array, values);
      let pointer;
      if (X.indptr) {
        const lists = [integers(X.indptr), integers(X.indices), this.numbers(X.values)];
        pointer = this.wasm.new_compressed_rows(...lists, n, sizes[0]);
      } else if (X.basis) {
        const { first_knot, knots, origin, first_term, input, at_origin, slope } = X.basis;
        const intervals = [integers(first_knot), this.numbers(knots), this.numbers(origin)];
        const terms = [integers(first_term), integers(input), this.numbers(at_origin)];
        const basis = [...intervals, ...terms, this.numbers(slope), sizes[0]];
        pointer = this.wasm.new_encoded_rows(this.numbers(X.X), n, n_columns, ...basis);
      } else {
        pointer = this.wasm.new_rows(this.numbers(X), n, n_columns);
      }
      this.listed.push(pointer);
      return pointer;
    }
    room(n_bytes) {
      const pointer = this.wasm.allocate(n_bytes) >>> 0;
      if (pointer === 0) throw new Error(`The kernel stopped: ${FAILURES[2]}.`);
      this.pointers.push(pointer);
      return pointer;
    }
    put(Type, values) {
      const pointer = this.room(values.length * Type.BYTES_PER_ELEMENT);
      new Type(this.wasm.memory.buffer, pointer, values.length).set(values);
      return pointer;
    }
    numbers(values) {
      return this.put(Float64Array, values);
    }
    optional(values) {
      return values ? this.numbers(values) : 0;
    }
    get(pointer, n) {
      return new Float64Array(this.wasm.memory.buffer, pointer, n).slice();
    }
    text(pointer) {
      const bytes = new Uint8Array(this.wasm.memory.buffer, pointer);
      return String.fromCharCode(...bytes.subarray(0, bytes.indexOf(0)));
    }
    network(network) {
      const { sizes, m_w, v_w } = network;
      const at = [this.put(Int32Array, sizes), sizes.length - 1];
      return [...at, this.numbers(m_w), this.numbers(v_w)];
    }
    members(members) {
      const { weights, mean, epistemic_std, aleatoric_std, tail } = members;
      const arrays = [weights, mean, epistemic_std, aleatoric_std].map((a) => this.numbers(a));
      const heavy = tail.some((t) => t > 0);
      const n_members = weights.length;
      return [n_members, mean.length / n_members, ...arrays, heavy ? this.numbers(tail) : 0];
    }
    free() {
      for (const pointer of this.listed) this.wasm.delete_rows(pointer);
      for (const pointer of this.pointers) this.wasm.release(pointer);
    }
  }

  class RandomState {
    constructor(wasm, seed) {
      this.wasm = wasm;
      this.pointer = wasm.new_random_state(seed >>> 0);
    }
    normals(n) {
      const scope = new Scope(this.wasm);
      try {
        const out = scope.room(8 * n);
        this.wasm.standard_normals(this.pointer, n, out);
        return scope.get(out, n);
      } finally {
        scope.free();
      }
    }
    bits() {
      return this.wasm.random_bits(this.pointer) >>> 0;
    }
    free() {
      this.wasm.delete_random_state(this.pointer);
      this.pointer = 0;
    }
  }

  class Kernel {
    constructor(wasm) {
      this.wasm = wasm;
      this.likelihoods = this.within((scope) =>
        Array.from({ length: wasm.n_likelihoods() }, (_, i) => scope.text(wasm.likelihood_name(i))),
      );
    }
    within(use) {
      const scope = new Scope(this.wasm);
      try {
        return use(scope);
      } finally {
        scope.free();
      }
    }
    randomState(seed) {
      return new RandomState(this.wasm, seed);
    }

    forward(network, X, X_var = null) {
      checkNetwork(network);
      const [n] = shapeOf(X, network.sizes);
      const size = n * network.sizes.at(-1);
      check(!X_var || X_var.length === X.length, "X and X_var must have the same shape");
      return this.within((scope) => {
        const [m, v] = [scope.room(8 * size), scope.room(8 * size)];
        const rows = [scope.rows(X, network.sizes), scope.optional(X_var)];
        succeed(this.wasm.predict(...scope.network(network), ...rows, m, v));
        return { mean: scope.get(m, size), variance: scope.get(v, size) };
      });
    }

    gradient(network, X) {
      checkNetwork(network);
      check(network.sizes.at(-1) === 1, "the gradient needs one output");
      const [n, n_columns] = shapeOf(X, network.sizes);
      return this.within((scope) => {
        const lengths = [n, n, n * n_columns, n * n_columns];
        const out = lengths.map((length) => scope.room(8 * length));
        const args = [...scope.network(network), scope.rows(X, network.sizes), ...out];
        succeed(this.wasm.gradient(...args));
        const [mean, variance, dm_dx, dv_dx] = out.map((p, i) => scope.get(p, lengths[i]));
        return { mean, variance, dm_dx, dv_dx };
      });
    }

    sampled(sizes, w, X) {
      checkNetwork({ sizes, m_w: w, v_w: w });
      check(sizes.at(-1) === 1, "a sampled network has one output");
      const [n] = shapeOf(X, sizes);
      return this.within((scope) => {
        const f = scope.room(8 * n);
        const layers = [scope.put(Int32Array, sizes), sizes.length - 1, scope.numbers(w)];
        succeed(this.wasm.sampled(...layers, scope.rows(X, sizes), f));
        return scope.get(f, n);
      });
    }

    classLogProbabilities(mean, variance, n_classes) {
      check(mean.length === variance.length, "mean and variance must have the same shape");
      check(mean.length % n_classes === 0, `mean must have ${n_classes} entries in each row`);
      return this.within((scope) => {
        const out = scope.room(8 * mean.length);
        const moments = [scope.numbers(mean), scope.numbers(variance)];
        const shape = [mean.length / n_classes, n_classes];
        succeed(this.wasm.class_log_probabilities(...moments, ...shape, out));
        return scope.get(out, mean.length);
      });
    }

    scaleMixtures(d, v, mu, variance) {
      const n = d.length;
      const all = [d, v, mu, variance];
      check(all.every((a) => a.length === n), "d, v, mu and variance must have the same length");
      return this.within((scope) => {
        const out = scope.room(8 * 5 * n);
        this.wasm.scale_mixtures(...all.map((a) => scope.numbers(a)), n, out);
        const rows = [0, 1, 2, 3, 4].map((i) => scope.get(out + 8 * i * n, n));
        const [log_Z, d_mu, d_var, d_m, d_v] = rows;
        return { log_Z, d_mu, d_var, d_m, d_v };
      });
    }

    normalCdf(z) {
      return this.within((scope) => {
        const out = scope.room(8 * z.length);
        this.wasm.normal_cdf(scope.numbers(z), z.length, out);
        return scope.get(out, z.length);
      });
    }

    normalLogCdf(z) {
      return this.within((scope) => {
        const out = scope.room(8 * z.length);
        this.wasm.log_normal_cdf(scope.numbers(z), z.length, out);
        return scope.get(out, z.length);
      });
    }

    normalQuantile(p) {
      check(p > 0 && p <= 0.5, `p must be above 0 and at most 0.5, got ${p}`);
      return this.wasm.normal_quantile(p);
    }

    logpdf(members, y) {
      return this.ofTargets(this.wasm.mixture_logpdf, members, y);
    }

    cdf(members, y) {
      return this.ofTargets(this.wasm.mixture_cdf, members, y);
    }

    ofTargets(query, members, y) {
      const n = countTargets(members);
      check(y.length % n === 0, `y must have ${n} entries in each row`);
      return this.within((scope) => {
        const out = scope.room(8 * y.length);
        succeed(query(...scope.members(members), scope.numbers(y), y.length / n, out));
        return scope.get(out, y.length);
      });
    }

    interval(members, coverage) {
      const n = countTargets(members);
      check(coverage > 0 && coverage < 1, `coverage must be between 0 and 1, got ${coverage}`);
      return this.within((scope) => {
        const out = scope.room(8 * 2 * n);
        succeed(this.wasm.mixture_interval(...scope.members(members), coverage, out));
        return { lower: scope.get(out, n), upper: scope.get(out + 8 * n, n) };
      });
    }

    powerMoments(members, power) {
      countTargets(members);
      const n = members.mean.length;
      return this.within((scope) => {
        const out = scope.room(8 * 3 * n);
        const [, , , mean, model, noise] = scope.members(members);
        succeed(this.wasm.power_moments(mean, model, noise, n, power, out));
        const [m, epistemic_std, aleatoric_std] = [0, 1, 2].map((i) => scope.get(out + 8 * i * n, n));
        return { mean: m, epistemic_std, aleatoric_std };
      });
    }

    likelihoodIndex(name) {
      const index = this.likelihoods.indexOf(name);
      check(index >= 0, `the likelihood must be one of ${this.likelihoods.join(", ")}, got ${name}`);
      return index;
    }

    train(task) {
      const { posterior } = task;
      checkNetwork(posterior);
      const likelihood = this.likelihoodIndex(task.likelihood);
      return this.within((scope) => {
        const { sizes } = posterior;
        const n_weights = countWeights(sizes);
        const factors = [posterior.v_hat_nat, posterior.a_hat_nat, posterior.b_hat_nat];
        check(factors.every((f) => f.length === n_weights), "the prior factors do not fit sizes");
        const K = this.wasm.n_noise(likelihood, sizes.at(-1));
        check(posterior.alpha_noise.length === K, `there must be ${K} noise precision(s)`);
        const [p_sizes, n_layers, m_w, v_w] = scope.network(posterior);
        const p_factors = scope.numbers(factors.flatMap((f) => Array.from(f)));
        const noise = scope.numbers([...posterior.alpha_noise, ...posterior.beta_noise]);
        const prior = scope.numbers([posterior.alpha_prior, posterior.beta_prior]);
        const tail = scope.numbers(posterior.tail);
        const state = [m_w, v_w, p_factors, noise, prior, tail];
        const trainer = this.wasm.new_trainer(likelihood, p_sizes, n_layers, ...state);
        try {
          const watched = this.tell(trainer, task, scope);
          const n_epochs = task.refine.length;
          const [log_Z, counts] = [scope.room(8 * n_epochs), scope.room(32 * n_epochs)];
          succeed(this.wasm.run_trainer(trainer, log_Z, counts));
          const factor = (i) => scope.get(p_factors + 8 * i * n_weights, n_weights);
          const [alpha_prior, beta_prior] = scope.get(prior, 2);
          const after = {
            sizes,
            m_w: scope.get(m_w, n_weights),
            v_w: scope.get(v_w, n_weights),
            v_hat_nat: factor(0),
            a_hat_nat: factor(1),
            b_hat_nat: factor(2),
            alpha_noise: scope.get(noise, K),
            beta_noise: scope.get(noise + 8 * K, K),
            alpha_prior,
            beta_prior,
            tail: scope.get(tail, sizes.at(-1)),
            noise_network: watched ? watched() : posterior.noise_network,
          };
          return {
            posterior: after,
            log_Z_sum: scope.get(log_Z, n_epochs),
            counts: scope.get(counts, 4 * n_epochs),
          };
        } finally {
          this.wasm.delete_trainer(trainer);
        }
      });
    }

    // Tell a trainer its rows and epochs; returns what reads the network of the noise, if any.
    tell(trainer, task, scope) {
      const { posterior, X, y, memory, watch } = task;
      const [n] = shapeOf(X, posterior.sizes);
      check(!task.X_var || task.X_var.length === X.length, "X and X_var must have the same shape");
      const width = this.wasm.n_targets(this.likelihoodIndex(task.likelihood), posterior.sizes.at(-1));
      check(y.length === n * width, `y must have ${n * width} entries, got ${y.length}`);
      const rows = [scope.rows(X, posterior.sizes), scope.optional(task.X_var), scope.numbers(y)];
      const objection = this.wasm.set_rows(trainer, ...rows);
      if (objection !== 0) throw new RangeError(scope.text(objection));
      this.wasm.set_epochs(
        trainer,
        task.refine.length,
        scope.put(Uint8Array, Array.from(task.refine, Number)),
        task.informative_ratio ?? INFORMATIVE_RATIO,
        scope.optional(task.tail_rate),
        task.random ? task.random.pointer : 0,
      );
      if (memory) {
        const { capacity, noise_shape, noise_rate } = memory;
        this.wasm.set_memory(trainer, capacity, every(capacity), noise_shape, noise_rate);
      }
      const network = posterior.noise_network;
      if (!network || !watch) return null;
      checkNetwork(network);
      const [sizes, n_layers, m_w, v_w] = scope.network(network);
      const tail = scope.numbers(network.tail);
      const bounded = watch.capacity !== null;
      this.wasm.set_watcher(
        trainer,
        ...[sizes, n_layers, m_w, v_w, tail],
        scope.numbers(watch.power),
        scope.room(8 * 3 * n * posterior.sizes.at(-1)),
        scope.numbers(SCALE_GAMMA),
        this.likelihoodIndex("scale"),
        bounded ? scope.numbers(network.v_hat_nat) : 0,
        ...(bounded ? [watch.capacity, every(watch.capacity)] : [0, 0]),
      );
      return () => ({
        ...network,
        m_w: scope.get(m_w, network.m_w.length),
        v_w: scope.get(v_w, network.v_w.length),
        tail: scope.get(tail, network.tail.length),
      });
    }
  }

  async function load(bytes) {
    const { instance } = await WebAssembly.instantiate(bytes, {});
    instance.exports._initialize();
    return new Kernel(instance.exports);
  }

  async function loadPacked(text) {
    const packed = Uint8Array.from(atob(text.trim()), (character) => character.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    return load(await new Response(stream).arrayBuffer());
  }

  return { load, loadPacked, countWeights };
})();
