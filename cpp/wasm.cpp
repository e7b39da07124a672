// The kernel as a WebAssembly module: what src/probprop/web/kernel.js calls; no mathematics.
//
// Numbers are float64. Arrays lie in the module's memory, where `allocate` puts them; a null
// pointer means that an argument is absent. Functions that return int return a Status.
#include <math.h>
#include <stdlib.h>

#include <vector>

#include "kernel.hpp"
#include "normal.hpp"
#include "shuffle.hpp"
#include "train.hpp"

#define EXPORT(type, name) extern "C" __attribute__((export_name(#name))) type name

// Without exceptions a page can only stop; the library's own would first print, which needs files.
void* operator new(size_t n) {
    if (void* memory = malloc(n)) return memory;
    __builtin_trap();
}
void operator delete(void* memory) noexcept { free(memory); }
void operator delete(void* memory, size_t) noexcept { free(memory); }

namespace probprop {

namespace PROBPROP_LEVEL {
extern const Level level;
}
static const Level& level = PROBPROP_LEVEL::level;

static bool go_on(void*) { return true; }  // a page has no Ctrl-C
constexpr int64_t never = INT64_MAX;

static Matrix matrix(const double* data, int n_rows, int n_columns) {
    return {data, false, n_rows, n_columns, n_columns, 1};
}

static int64_t count_weights(const int* sizes, int n_layers) {
    int64_t n = 0;
    for (int l = 0; l < n_layers; ++l) n += int64_t(sizes[l + 1]) * (sizes[l] + 1);
    return n;
}

// ---- Memory, names, random numbers

EXPORT(void*, allocate)(size_t n_bytes) { return malloc(n_bytes > 0 ? n_bytes : 1); }
EXPORT(void, release)(void* memory) { free(memory); }

EXPORT(int, n_likelihoods)() { return level.n_likelihoods; }
EXPORT(int, n_targets)(int likelihood, int n_outputs) {
    return level.likelihoods[likelihood].n_targets(n_outputs);
}
EXPORT(int, n_noise)(int likelihood, int n_outputs) {
    return level.likelihoods[likelihood].n_noise(n_outputs);
}
EXPORT(const char*, likelihood_name)(int index) { return level.likelihoods[index].name; }

// numpy.random.RandomState, bit for bit.
struct RandomState {
    Mt19937 bits;
    bool has_second;
    double second;  // of the last pair of normals
};

EXPORT(RandomState*, new_random_state)(uint32_t seed) {
    RandomState* random = new RandomState{};
    for (int i = 0; i < Mt19937::size; ++i) {
        random->bits.key[i] = seed;
        seed = 1812433253u * (seed ^ (seed >> 30)) + uint32_t(i) + 1u;
    }
    random->bits.position = Mt19937::size;
    return random;
}
EXPORT(void, delete_random_state)(RandomState* random) { delete random; }
EXPORT(uint32_t, random_bits)(RandomState* random) { return random->bits.next(); }

static double uniform(Mt19937& bits) {
    const uint32_t high = bits.next() >> 5, low = bits.next() >> 6;
    return (high * 67108864.0 + low) / 9007199254740992.0;
}

// By the polar method of Marsaglia, as standard_normal of a RandomState.
EXPORT(void, standard_normals)(RandomState* random, int n, double* out) {
    for (int i = 0; i < n; ++i) {
        if (random->has_second) {
            random->has_second = false;
            out[i] = random->second;
            continue;
        }
        double x, y, r2;
        do {
            x = 2.0 * uniform(random->bits) - 1.0;
            y = 2.0 * uniform(random->bits) - 1.0;
            r2 = x * x + y * y;
        } while (r2 >= 1.0 || r2 == 0.0);
        const double f = sqrt(-2.0 * log(r2) / r2);
        random->second = f * x;
        random->has_second = true;
        out[i] = f * y;
    }
}

// ---- Rows: a matrix, or lists of the inputs that are not 0. The arrays must outlive them.

struct PageRows {
    Rows rows;
    std::vector<int64_t> indptr, first_knot, first_term;
    Basis basis;
};

EXPORT(PageRows*, new_rows)(const double* X, int n_rows, int n_columns) {
    return new PageRows{
        {matrix(X, n_rows, n_columns), nullptr, nullptr, nullptr, {}}, {}, {}, {}, {}};
}
EXPORT(PageRows*, new_compressed_rows)(const int* indptr, const int* indices, const double* values,
                                       int n_rows, int n_inputs) {
    PageRows* page = new_rows(values, n_rows, n_inputs);
    page->indptr.assign(indptr, indptr + n_rows + 1);
    page->rows.indptr = page->indptr.data();
    page->rows.indices = indices;
    return page;
}
EXPORT(PageRows*, new_encoded_rows)(const double* X, int n_rows, int n_columns,
                                    const int* first_knot, const double* knots,
                                    const double* origin, const int* first_term, const int* input,
                                    const double* at_origin, const double* slope, int n_inputs) {
    PageRows* page = new_rows(X, n_rows, n_columns);
    page->first_knot.assign(first_knot, first_knot + n_columns + 1);
    page->first_term.assign(first_term, first_term + first_knot[n_columns] + n_columns + 1);
    page->basis = {n_columns, n_inputs,  page->first_knot.data(),
                   knots,     origin,    page->first_term.data(),
                   input,     at_origin, slope};
    page->rows.basis = &page->basis;
    return page;
}
EXPORT(void, delete_rows)(PageRows* page) { delete page; }

// ---- Prediction

static PredictArgs<double> predict_args(const int* sizes, int n_layers, const double* m_w,
                                        const double* v_w, const PageRows* X, const double* X_var,
                                        double* m, double* v) {
    return {sizes, n_layers, m_w, v_w, X->rows, {}, X_var, m, v, never, go_on, nullptr};
}

EXPORT(int, predict)(const int* sizes, int n_layers, const double* m_w, const double* v_w,
                     const PageRows* X, const double* X_var, double* m, double* v) {
    const auto args = predict_args(sizes, n_layers, m_w, v_w, X, X_var, m, v);
    return int(level.f64.predict(&args, 1));
}

EXPORT(int, gradient)(const int* sizes, int n_layers, const double* m_w, const double* v_w,
                      const PageRows* X, double* m, double* v, double* dm_dx, double* dv_dx) {
    return int(level.f64.gradient(
        {predict_args(sizes, n_layers, m_w, v_w, X, nullptr, m, v), dm_dx, dv_dx}));
}

// A network of one output with the known weights w, flat as m_w.
EXPORT(int, sampled)(const int* sizes, int n_layers, const double* w, const PageRows* X,
                     double* f) {
    std::vector<const double*> layers;
    for (int l = 0; l < n_layers; ++l) layers.push_back(w + count_weights(sizes, l));
    const std::vector<double> zeros(size_t(sizes[0]), 0.0), ones(size_t(sizes[0]), 1.0);
    return int(level.sampled({sizes, n_layers, layers.data(), X->rows, zeros.data(), ones.data(),
                              0.0, 1.0, f, nullptr}));
}

EXPORT(int, class_log_probabilities)(const double* m, const double* v, int n_rows, int n_classes,
                                     double* log_p) {
    return int(level.class_log_probabilities(
        {m, v, n_rows, n_classes, log_p, never, go_on, nullptr, nullptr}));
}

// log Z of residuals d with a log-normal noise variance, and its derivatives, (5, n).
EXPORT(void, scale_mixtures)(const double* d, const double* v, const double* mu, const double* var,
                             int n, double* out) {
    level.scale_mixtures({d, v, mu, var, n, out});
}

// The distribution function of the normal distribution.
EXPORT(void, normal_cdf)(const double* z, int n, double* out) {
    for (int i = 0; i < n; ++i) out[i] = 0.5 * erfc(-0.7071067811865476 * z[i]);
}

// Its logarithm, also where the function itself underflows.
EXPORT(void, log_normal_cdf)(const double* z, int n, double* out) {
    for (int i = 0; i < n; ++i) {
        const double x = fabs(z[i]);
        const PROBPROP_LEVEL::NormalParts at =
            PROBPROP_LEVEL::normal_parts(PROBPROP_LEVEL::splat(-x));
        const double log_tail = log(at.mantissa[0]) - 0.5 * x * x;
        out[i] = z[i] < 0.0 ? log_tail : log1p(-exp(log_tail));
    }
}

// ---- Predictive distributions

// Mixtures of n_members networks with these weights for n_rows targets, (n_members, n_rows) each.
// Without a tail the noise is Gaussian, otherwise tail is the variance of the logarithm of its
// variance.
struct Mixtures {
    int n_members, n_rows;
    const double *weights, *mean, *epistemic_std, *aleatoric_std, *tail;
};

static int ask(MixtureQuery query, const Mixtures& p, int n_at, const double* at,
               const double* normal_at, double* out) {
    static const double zero = 0.0;
    const auto stack = [&](const double* data) { return Stack{data, p.n_rows, 1, 0}; };
    return int(level.mixture(
        {query, p.tail == nullptr ? NoiseRule::gaussian : NoiseRule::log_normal, p.n_members,
         p.n_rows, 1, p.weights, stack(p.mean), stack(p.epistemic_std), stack(p.aleatoric_std),
         p.tail == nullptr ? Stack{&zero, 0, 0, 0} : stack(p.tail), n_at, at, normal_at, nullptr,
         out, never, go_on, nullptr}));
}

// Of targets y, (n_at, n_rows), as `out`.
EXPORT(int, mixture_logpdf)(int n_members, int n_rows, const double* weights, const double* mean,
                            const double* epistemic_std, const double* aleatoric_std,
                            const double* tail, const double* y, int n_at, double* out) {
    const Mixtures p = {n_members, n_rows, weights, mean, epistemic_std, aleatoric_std, tail};
    return ask(MixtureQuery::logpdf, p, n_at, y, nullptr, out);
}
EXPORT(int, mixture_cdf)(int n_members, int n_rows, const double* weights, const double* mean,
                         const double* epistemic_std, const double* aleatoric_std,
                         const double* tail, const double* y, int n_at, double* out) {
    const Mixtures p = {n_members, n_rows, weights, mean, epistemic_std, aleatoric_std, tail};
    return ask(MixtureQuery::cdf, p, n_at, y, nullptr, out);
}

// The quantile of the standard normal for a probability of at most 1/2. Noise with a tail of 0 is
// Gaussian, and its quantiles depend on no normal quantile but to start from.
EXPORT(double, normal_quantile)(double p) {
    const double zero = 0.0, one = 1.0, start = -1.0;
    double z = 0.0;
    ask(MixtureQuery::quantile, {1, 1, &one, &zero, &one, &zero, &zero}, 1, &p, &start, &z);
    return z;
}

// The ends of central intervals, (2, n_rows).
EXPORT(int, mixture_interval)(int n_members, int n_rows, const double* weights, const double* mean,
                              const double* epistemic_std, const double* aleatoric_std,
                              const double* tail, double coverage, double* out) {
    const Mixtures p = {n_members, n_rows, weights, mean, epistemic_std, aleatoric_std, tail};
    const double outside = 0.5 * (1.0 - coverage), z = normal_quantile(outside);
    const double at[] = {outside, outside}, normal_at[] = {z, -z};
    return ask(MixtureQuery::quantile, p, 2, at, normal_at, out);
}

// Mean and standard deviations of model and noise, (3, n), of targets behind a Box-Cox
// transformation, in its unit.
EXPORT(int, power_moments)(const double* mean, const double* epistemic_std,
                           const double* aleatoric_std, int n, double power, double* out) {
    return int(level.power_moments(
        {mean, epistemic_std, aleatoric_std, n, power, out, never, go_on, nullptr}));
}

// ---- Training: an object that gets all arguments, then runs once.

struct Trainer {
    TrainArgs<double> args;
    std::vector<int64_t> counts;
    std::vector<double> noise, prior, tail;
};

// The posterior, read and written: factors are v_hat_nat, a_hat_nat, b_hat_nat, (3, n_weights);
// noise is alpha, beta, (2, K); prior is alpha, beta; tail is (n_outputs,).
EXPORT(Trainer*, new_trainer)(int likelihood, const int* sizes, int n_layers, double* m_w,
                              double* v_w, double* factors, double* noise, double* prior,
                              double* tail) {
    Trainer* trainer = new Trainer{};
    TrainArgs<double>& args = trainer->args;
    args.pass.likelihood = likelihood;
    args.pass.sizes = sizes;
    args.pass.n_layers = n_layers;
    args.pass.m_w = m_w;
    args.pass.v_w = v_w;
    args.pass.power = 1.0;
    args.pass.poll_every = never;
    const int n_outputs = sizes[n_layers];
    args.n_weights = count_weights(sizes, n_layers);
    args.n_noise = level.likelihoods[likelihood].n_noise(n_outputs);
    args.n_tail = n_outputs;
    args.v_hat_nat = factors;
    args.a_hat_nat = factors + args.n_weights;
    args.b_hat_nat = factors + 2 * args.n_weights;
    args.pass.alpha = noise;
    args.pass.beta = noise + args.n_noise;
    args.alpha_prior = prior;
    args.beta_prior = prior + 1;
    args.pass.tail = args.tail = tail;
    return trainer;
}
EXPORT(void, delete_trainer)(Trainer* trainer) { delete trainer; }

// Rows of standardized numbers; returns why the targets do not fit the likelihood, or null.
EXPORT(const char*, set_rows)(Trainer* trainer, const PageRows* X, const double* X_var,
                              const double* y) {
    AdfArgs<double>& pass = trainer->args.pass;
    const int n_outputs = pass.sizes[pass.n_layers];
    const LikelihoodInfo& likelihood = level.likelihoods[pass.likelihood];
    pass.X = X->rows;
    pass.X_var = X_var;
    pass.n_points = X->rows.X.n_rows;
    pass.y = matrix(y, int(pass.n_points), likelihood.n_targets(n_outputs));
    return likelihood.objection(pass.y, n_outputs);
}

// refine and tail_rate are (n_epochs,); without random the rows come in the order given.
EXPORT(void, set_epochs)(Trainer* trainer, int n_epochs, const bool* refine,
                         double informative_ratio, const double* tail_rate, RandomState* random) {
    TrainArgs<double>& args = trainer->args;
    args.n_epochs = n_epochs;
    args.refine = refine;
    args.sweep = {args.pass.sizes, args.pass.n_layers, nullptr, nullptr, 0, informative_ratio};
    args.tail_rate = tail_rate;
    args.random = random == nullptr ? nullptr : &random->bits;
}

// The bound on the evidence of the network.
EXPORT(void, set_memory)(Trainer* trainer, double capacity, int every, double alpha, double beta) {
    trainer->args.pass.memory = {trainer->args.v_hat_nat, capacity, every, alpha, beta};
}

// The network of the noise, and the power of its likelihood in each epoch; `watched` is room for
// (n, 3, n_outputs) numbers, `gamma` alpha and beta of a scale, which stay as they are. Its
// evidence is bounded where v_hat_nat is not null.
EXPORT(void, set_watcher)(Trainer* trainer, const int* sizes, int n_layers, double* m_w,
                          double* v_w, double* tail, const double* power, double* watched,
                          double* gamma, int likelihood, const double* v_hat_nat, double capacity,
                          int every) {
    TrainArgs<double>& args = trainer->args;
    const int n_outputs = args.pass.sizes[args.pass.n_layers];
    AdfArgs<double> pass = args.pass;
    for (int64_t i = 0; i < args.pass.n_points * 3 * n_outputs; ++i) watched[i] = 1.0;
    pass.sizes = sizes;
    pass.n_layers = n_layers;
    pass.m_w = m_w;
    pass.v_w = v_w;
    pass.tail = tail;
    pass.y = matrix(watched, int(args.pass.n_points), 3 * n_outputs);
    pass.alpha = gamma;
    pass.beta = gamma + 1;
    pass.likelihood = likelihood;
    pass.memory = {v_hat_nat, capacity, every, gamma[0], gamma[1]};
    args.pass.watched = watched;
    args.watcher = {pass, count_weights(sizes, n_layers), tail, power};
}

// Make the epochs. Written: log_Z_sum (n_epochs,), counts (n_epochs, 4) as numbers.
EXPORT(int, run_trainer)(Trainer* trainer, double* log_Z_sum, double* counts) {
    TrainArgs<double>& args = trainer->args;
    const size_t n = size_t(args.n_epochs);
    trainer->counts.resize(4 * n);
    trainer->noise.resize(2 * n * size_t(args.n_noise));
    trainer->prior.resize(2 * n);
    trainer->tail.resize(n * size_t(args.n_tail));
    TrainResult result = {0,
                          log_Z_sum,
                          trainer->counts.data(),
                          trainer->noise.data(),
                          trainer->prior.data(),
                          trainer->tail.data()};
    Training<double> training(args);
    const Status status = training.run(level.f64.adf_pass, go_on, nullptr, result);
    for (size_t i = 0; i < 4 * n; ++i) counts[i] = double(trainer->counts[i]);
    return int(status);
}

}  // namespace probprop
