// A small program for tools/cross_compile.py: runs every level that the machine has, and prints
// numbers that must be the same on all platforms, up to rounding.
#include <stdio.h>
#include <string.h>

#include "../cpp/gamma.hpp"
#include "../cpp/kernel.hpp"

using namespace probprop;

static bool keep_going(void*) { return true; }

// Numbers in (-1, 1) that depend on the seed alone.
static double draw(unsigned& seed) {
    seed = 1664525u * seed + 1013904223u;
    return double(seed >> 8) / 8388608.0 - 1.0;
}

template <typename T>
static int adf_pass(const Level& level, const Kernels<T>& kernels, const char* type) {
    constexpr int n = 40, n_features = 3, n_hidden = 7;
    constexpr int n_weights = n_hidden * (n_features + 1) + n_hidden + 1;
    const int sizes[] = {n_features, n_hidden, 1};
    unsigned seed = 1;
    T m_w[n_weights], v_w[n_weights];
    double X[n * n_features], y[n];
    for (T& m : m_w) m = T(draw(seed));
    for (T& v : v_w) v = T(0.1);
    for (double& x : X) x = draw(seed);
    for (int i = 0; i < n; ++i) y[i] = X[3 * i] - X[3 * i + 1] * X[3 * i + 2] + 0.1 * draw(seed);
    double alpha = 6.0, beta = 6.0;
    AdfArgs<T> args = {};
    args.sizes = sizes;
    args.n_layers = 2;
    args.m_w = m_w;
    args.v_w = v_w;
    args.X.X = {X, false, n, n_features, n_features, 1};
    args.y = {y, false, n, 1, 1, 1};
    args.power = 1.0;
    args.n_points = n;
    args.alpha = &alpha;
    args.beta = &beta;
    while (strcmp(level.likelihoods[args.likelihood].name, "gaussian") != 0) ++args.likelihood;
    args.poll_every = n;
    args.keep_going = keep_going;
    AdfResult result = {};
    const Status status = kernels.adf_pass(args, result);
    double sum = 0.0;
    for (int i = 0; i < n_weights; ++i) sum += (i + 1) * double(m_w[i]) / double(v_w[i]);
    printf("%s adf_%s %.17g %.17g %.17g %.17g\n", level.name, type, result.log_Z_sum, alpha, beta,
           sum);
    return int(status);
}

static int quantiles(const Level& level) {
    const double weights[] = {1.0, 2.0}, mean[] = {0.5, -1.0}, epistemic[] = {0.3, 0.2},
                 aleatoric[] = {1.0, 0.7}, shape[] = {0.8, 1.5}, at[] = {0.025, 0.5},
                 normal_at[] = {-1.959963984540054, 0.0};
    double out[2];
    MixtureArgs args = {};
    args.query = MixtureQuery::quantile;
    args.noise = NoiseRule::log_normal;
    args.n_members = 2;
    args.n_rows = args.n_targets = 1;
    args.weights = weights;
    args.mean = {mean, 1, 1, 1};
    args.epistemic_std = {epistemic, 1, 1, 1};
    args.aleatoric_std = {aleatoric, 1, 1, 1};
    args.shape = {shape, 1, 1, 1};
    args.n_at = 2;
    args.at = at;
    args.normal_at = normal_at;
    args.out = out;
    args.poll_every = 1;
    args.keep_going = keep_going;
    const Status status = level.mixture(args);
    printf("%s quantiles %.17g %.17g\n", level.name, out[0], out[1]);
    return int(status);
}

int main() {
    const GammaShapeRate g = gamma_moments_by_quadrature(1.5, 1.0, 9.0, 0.5);
    printf("any gamma %.17g %.17g\n", g.alpha, g.beta);
    const Level* levels[4];
    int failed = chosen_level() == nullptr;
    for (int i = 0, n = available_levels(levels); i < n; ++i) {
        failed |= adf_pass(*levels[i], levels[i]->f64, "float64");
        failed |= adf_pass(*levels[i], levels[i]->f32, "float32");
        failed |= quantiles(*levels[i]);
    }
    return failed;
}
