// Epoch after epoch: ADF passes over blocks of points, each followed by a refinement of the prior
// factors ([PBP15] sections 3.3 and 3.4). The readable twin is in src/probprop/inference/engine.py.
#pragma once

#include <vector>

#include "kernel.hpp"
#include "prior.hpp"
#include "shuffle.hpp"

namespace probprop {

// The network of the noise, which is trained on the residuals of the network of the mean: they are
// the targets of its pass. Its prior factors stay as they are.
template <typename T>
struct Watcher {
    AdfArgs<T> pass;
    int64_t n_weights;
    double* tail;         // tails of the noise around its predicted level, (n_tail,)
    const double* power;  // (n_epochs,) of the likelihood: 0, it is not trained; null: in no epoch
};

// The posterior, flat, read and written; `pass` has the weights and the noise.
template <typename T>
struct TrainArgs {
    AdfArgs<T> pass;
    int64_t n_weights;
    int n_noise, n_tail;
    double* tail;             // (n_tail,), one per output
    const double* tail_rate;  // (n_epochs,): step size of each epoch; null: they stay
    double *v_hat_nat, *a_hat_nat, *b_hat_nat;  // (n_weights,) each
    double *alpha_prior, *beta_prior;
    SweepArgs sweep;  // its `due` are (n_epochs, n_features)
    int64_t n_epochs;
    const bool* refine;     // (n_epochs,): after that epoch
    Mt19937* random;        // shuffles the points before every epoch; null: no shuffling
    const int64_t* orders;  // (n_epochs, n): the orders themselves; null: there are none
    Watcher<T> watcher;
};

// What each epoch observed; the arrays have a row for each.
struct TrainResult {
    int64_t n_epochs;   // whole ones that were made
    double* log_Z_sum;  // (n_epochs,)
    int64_t* counts;    // (n_epochs, 4): undone, guarded, skipped points, skipped factors
    double* noise;      // (n_epochs, 2, n_noise): alpha and beta after it
    double* prior;      // (n_epochs, 2)
    double* tail;       // (n_epochs, n_tail)
};

// A tail after a step on the mean of log Z, whose slope by it is d_tail: 2 (1 + tail)^2 is the
// inverse of the Fisher information of a variance, in which a single residual counts 1.
inline double learned_tail(double tail, double d_tail, double rate) {
    constexpr double largest_tail = 4.0;  // as LARGEST_TAIL in reference/likelihoods.py
    const double moved = tail + rate * (2.0 * (1.0 + tail) * (1.0 + tail) * d_tail);
    return moved > largest_tail ? largest_tail : moved > 0.0 ? moved : 0.0;
}

// The state before an epoch, restored if the epoch is interrupted. A pass writes the
// weights when it ends, and nothing after the last pass is interrupted; so an epoch of a single
// pass leaves weights and factors as they were.
template <typename T>
class Checkpoint {
  public:
    explicit Checkpoint(const TrainArgs<T>& args) : args(args) {
        const size_t n = one_pass() ? 0 : static_cast<size_t>(args.n_weights);
        weights.resize(2 * (n + static_cast<size_t>(args.watcher.n_weights)));
        others.resize(3 * n + 2 * static_cast<size_t>(args.n_noise) + 2 +
                      2 * static_cast<size_t>(args.n_tail));
    }
    void save() { copy<true>(); }
    void restore() { copy<false>(); }

  private:
    bool one_pass() const { return args.watcher.power == nullptr; }
    template <bool saving, typename U>
    static void move(U*& kept, U* state, int64_t n) {
        for (int64_t i = 0; i < n; ++i) (saving ? kept : state)[i] = (saving ? state : kept)[i];
        kept += n;
    }
    template <bool saving>
    void copy() {
        T* kept = weights.data();
        const int64_t n = one_pass() ? 0 : args.n_weights;
        move<saving>(kept, args.pass.m_w, n);
        move<saving>(kept, args.pass.v_w, n);
        move<saving>(kept, args.watcher.pass.m_w, args.watcher.n_weights);
        move<saving>(kept, args.watcher.pass.v_w, args.watcher.n_weights);
        double* other = others.data();
        for (double* a : {args.v_hat_nat, args.a_hat_nat, args.b_hat_nat})
            move<saving>(other, a, n);
        for (double* a : {args.pass.alpha, args.pass.beta}) move<saving>(other, a, args.n_noise);
        for (double* a : {args.alpha_prior, args.beta_prior}) move<saving>(other, a, 1);
        move<saving>(other, args.tail, args.n_tail);
        if (args.watcher.power != nullptr) move<saving>(other, args.watcher.tail, args.n_tail);
    }

    const TrainArgs<T>& args;
    std::vector<T> weights;
    std::vector<double> others;
};

// The orders of the epochs, one at a time.
class Orders {
  public:
    Orders(Mt19937* random, const int64_t* given, int64_t n) : random(random), given(given), n(n) {
        if (random == nullptr) return;
        if (n <= INT32_MAX)
            narrow.resize(static_cast<size_t>(n));
        else
            wide.resize(static_cast<size_t>(n));
    }
    Order next() {
        if (random == nullptr) {
            const Order order = {nullptr, given};
            if (given != nullptr) given += n;
            return order;
        }
        if (wide.empty()) {
            permutation(*random, n, narrow.data());
            return {narrow.data(), nullptr};
        }
        permutation(*random, n, wide.data());
        return {nullptr, wide.data()};
    }

  private:
    Mt19937* random;
    const int64_t* given;
    int64_t n;
    std::vector<int32_t> narrow;
    std::vector<int64_t> wide;
};

// Everything a training needs while it runs, so that running it allocates nothing here.
template <typename T>
class Training {
  public:
    explicit Training(const TrainArgs<T>& args)
        : args(args), checkpoint(this->args), orders(args.random, args.orders, args.pass.n_points) {
        if (args.pass.memory.v_hat_nat != nullptr)
            precisions.resize(static_cast<size_t>(args.n_weights));
        if (args.tail_rate != nullptr) d_tail_sum.resize(2 * static_cast<size_t>(args.n_tail));
    }

    // Run the epochs; after an interrupt the state is the one after the last complete epoch.
    template <typename Pass>
    Status run(Pass adf_pass, bool (*keep_going)(void*), void* context, TrainResult& result) {
        args.pass.keep_going = keep_going;
        args.pass.context = context;
        for (result.n_epochs = 0; result.n_epochs < args.n_epochs; ++result.n_epochs) {
            checkpoint.save();
            const Status status = epoch(adf_pass, result);
            if (status != Status::ok) {
                checkpoint.restore();
                return status;
            }
        }
        return Status::ok;
    }

  private:
    template <typename Pass>
    Status epoch(Pass adf_pass, TrainResult& result) {
        const int64_t e = result.n_epochs, n = args.pass.n_points;
        const Order order = orders.next();
        int64_t* counts = result.counts + 4 * e;
        for (int i = 0; i < 4; ++i) counts[i] = 0;
        for (double& sum : d_tail_sum) sum = 0.0;
        if (!d_tail_sum.empty()) args.pass.d_tail_sum = d_tail_sum.data();
        const bool watching = args.watcher.power != nullptr && args.watcher.power[e] > 0.0;
        if (!args.pass.keep_going(args.pass.context)) return Status::interrupted;
        AdfArgs<T> pass = args.pass;
        pass.order = order;
        if (!watching) pass.watched = nullptr;
        if (!precisions.empty()) {
            for (size_t i = 0; i < precisions.size(); ++i)
                precisions[i] = static_cast<T>(args.v_hat_nat[i]);
            pass.memory.v_hat_nat = precisions.data();
        }
        AdfResult passed = {};
        const Status status = adf_pass(pass, passed);
        if (status != Status::ok) return status;
        result.log_Z_sum[e] = passed.log_Z_sum;
        counts[0] += passed.n_undone;
        counts[1] += passed.n_guarded;
        counts[2] += passed.n_skipped;
        if (watching) {
            AdfArgs<T> watch = args.watcher.pass;
            watch.order = order;
            watch.n_points = n;
            watch.power = args.watcher.power[e];
            watch.keep_going = args.pass.keep_going;
            watch.context = args.pass.context;
            if (!d_tail_sum.empty()) watch.d_tail_sum = d_tail_sum.data() + args.n_tail;
            AdfResult watched = {};
            const Status of_noise = adf_pass(watch, watched);
            if (of_noise != Status::ok) return of_noise;
            counts[0] += watched.n_undone;
            counts[2] += watched.n_skipped - passed.n_skipped;  // it skips what was skipped
        }
        if (args.refine[e]) counts[3] += refined(e);
        const int64_t n_used = n - counts[2];
        for (int k = 0; k < args.n_tail; ++k) {
            if (!d_tail_sum.empty() && n_used > 0) {
                const double rate = args.tail_rate[e], per_point = 1.0 / double(n_used);
                args.tail[k] = learned_tail(args.tail[k], d_tail_sum[k] * per_point, rate);
                if (watching)
                    args.watcher.tail[k] = learned_tail(
                        args.watcher.tail[k], d_tail_sum[args.n_tail + k] * per_point, rate);
            }
            result.tail[e * args.n_tail + k] = args.tail[k];
        }
        for (int k = 0; k < args.n_noise; ++k) {
            result.noise[(2 * e) * args.n_noise + k] = args.pass.alpha[k];
            result.noise[(2 * e + 1) * args.n_noise + k] = args.pass.beta[k];
        }
        result.prior[2 * e] = *args.alpha_prior;
        result.prior[2 * e + 1] = *args.beta_prior;
        return Status::ok;
    }

    int64_t refined(int64_t e) {
        SweepArgs sweep = args.sweep;
        if (sweep.due != nullptr) sweep.due += e * sweep.sizes[0];
        const Factors<T> factors = {args.pass.m_w, args.pass.v_w, args.v_hat_nat, args.a_hat_nat,
                                    args.b_hat_nat};
        const SweepResult swept = refine_prior(factors, *args.alpha_prior, *args.beta_prior, sweep);
        *args.alpha_prior = swept.alpha;
        *args.beta_prior = swept.beta;
        return swept.n_skipped;
    }

    TrainArgs<T> args;
    Checkpoint<T> checkpoint;
    Orders orders;
    std::vector<T> precisions;
    std::vector<double> d_tail_sum;
};

}  // namespace probprop
