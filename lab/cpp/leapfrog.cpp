// The module probprop_lab.baselines._leapfrog: chains of Hamiltonian Monte Carlo on small networks.
//
// The model of src/probprop_lab/baselines/hmc_sampler.py, in u = sqrt(lambda) w and
// log lambda, with the noise precision gamma integrated out:
//
//     p(y | w) = integral of Gam(gamma | c, d) prod_i N(y_i | f_i, 1/gamma)
//              = const (d + sum_i (f_i - y_i)^2 / 2)^-(c + n/2).
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <stdexcept>
#include <tuple>
#include <vector>

namespace nb = nanobind;
using namespace nb::literals;

// One more build of the loop, for machines with AVX2, where the loader can choose between them.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
#define PROBPROP_CLONES __attribute__((flatten, target_clones("default", "avx2")))
#else
#define PROBPROP_CLONES
#endif

namespace probprop {
namespace {

struct Density {
    std::vector<int> sizes;  // units per layer, the input first and the one output last
    bool probit;             // else ReLU
    int n;                   // rows
    const double* X;         // (n_features, n): a feature's values lie side by side
    const double* y;         // (n,)
    double a, b, c, d;       // shapes and rates of the Gammas of lambda and gamma
};

// Computes the potential, which is -log p(y, u, log lambda), and its gradient.
class Potential {
  public:
    explicit Potential(const Density& density)
        : p(density), m((p.n + 7) / 8 * 8), z(p.sizes.size()), d_z(p.sizes.size()) {
        for (size_t layer = 0; layer < p.sizes.size(); ++layer) {
            z[layer].resize(static_cast<size_t>(p.sizes[layer]) * static_cast<size_t>(m));
            d_z[layer].resize(z[layer].size());
            if (layer > 0) n_weights += p.sizes[layer] * (p.sizes[layer - 1] + 1);
        }
        for (int j = 0; j < p.sizes[0]; ++j)
            for (int i = 0; i < p.n; ++i) z[0][j * m + i] = p.X[j * p.n + i];
        const double log_2pi = 1.8378770664093454836;
        constant = 0.5 * log_2pi * (n_weights + p.n) + std::lgamma(p.a) - p.a * std::log(p.b) +
                   std::lgamma(p.c) - p.c * std::log(p.d) - std::lgamma(p.c + 0.5 * p.n);
    }

    int n_parameters() const { return n_weights + 1; }

    // q: u of every layer, (n_out, n_in + 1) with the bias last, then log lambda.
    double operator()(const double* q, double* gradient) {
        const double log_lambda = q[n_weights], lambda = std::exp(log_lambda);
        const double shrink = 1.0 / std::sqrt(lambda);  // w = shrink * u
        forward(q, shrink);

        const double* f = z.back().data();
        double* d_f = d_z.back().data();  // 0 after the n rows, as is the gradient
        double sse = 0.0;
        for (int i = 0; i < p.n; ++i) {
            d_f[i] = f[i] - p.y[i];
            sse += d_f[i] * d_f[i];
        }
        const double shape = p.c + 0.5 * p.n, rate = p.d + 0.5 * sse;  // of gamma given the weights
        for (int i = 0; i < p.n; ++i) d_f[i] *= shape / rate;

        backward(q, shrink, gradient);  // by w, times shrink
        double square = 0.0, inner = 0.0;
#pragma omp simd reduction(+ : square, inner)
        for (int j = 0; j < n_weights; ++j) {
            square += q[j] * q[j];
            inner += q[j] * gradient[j];
            gradient[j] += q[j];
        }
        gradient[n_weights] = p.b * lambda - p.a - 0.5 * inner;
        return constant + 0.5 * square + p.b * lambda - p.a * log_lambda + shape * std::log(rate);
    }

  private:
    void forward(const double* u, double shrink) {
        for (size_t layer = 0; layer + 1 < p.sizes.size(); ++layer) {
            const int n_in = p.sizes[layer], n_out = p.sizes[layer + 1];
            const double scale = shrink / std::sqrt(n_in + 1.0);
            double* out = z[layer + 1].data();
            for (int k = 0; k < n_out; ++k, u += n_in + 1, out += m) {
                for (int i = 0; i < m; ++i) out[i] = scale * u[n_in];
                for (int j = 0; j < n_in; ++j)
                    add_multiple(scale * u[j], z[layer].data() + j * m, out);
            }
            if (layer + 2 < p.sizes.size()) activate(z[layer + 1], d_z[layer + 1]);
        }
    }

    // Replaces activations by outputs; their derivatives are kept in the place of the gradient.
    void activate(std::vector<double>& outputs, std::vector<double>& slopes) const {
        double* __restrict out = outputs.data(), * __restrict slope = slopes.data();
        if (p.probit) {
            for (size_t i = 0; i < outputs.size(); ++i) {
                slope[i] = 0.39894228040143267794 * std::exp(-0.5 * out[i] * out[i]);
                out[i] = 0.5 * std::erfc(-0.70710678118654752440 * out[i]);
            }
        } else {
            for (size_t i = 0; i < outputs.size(); ++i) {
                slope[i] = out[i] > 0.0 ? 1.0 : 0.0;
                out[i] = out[i] > 0.0 ? out[i] : 0.0;
            }
        }
    }

    void backward(const double* u, double shrink, double* gradient) {
        u += n_weights;
        gradient += n_weights;
        for (size_t layer = p.sizes.size() - 1; layer-- > 0;) {
            const int n_in = p.sizes[layer], n_out = p.sizes[layer + 1];
            const double scale = shrink / std::sqrt(n_in + 1.0);
            u -= n_out * (n_in + 1);
            gradient -= n_out * (n_in + 1);
            if (layer > 0) d_in.assign(z[layer].size(), 0.0);
            for (int k = 0; k < n_out; ++k) {
                const double* d_out = d_z[layer + 1].data() + k * m;
                const int row = k * (n_in + 1);
                for (int j = 0; j < n_in; ++j) {
                    gradient[row + j] = scale * dot(d_out, z[layer].data() + j * m);
                    if (layer > 0) add_multiple(scale * u[row + j], d_out, d_in.data() + j * m);
                }
                gradient[row + n_in] = scale * sum(d_out);
            }
            if (layer == 0) break;
            double* __restrict d = d_z[layer].data();
            for (size_t i = 0; i < d_in.size(); ++i) d[i] *= d_in[i];
        }
    }

    // Over the rows of a unit, m of them.
    void add_multiple(double w, const double* __restrict in, double* __restrict out) const {
        for (int block = 0; block < m; block += 8)
            for (int i = 0; i < 8; ++i) out[block + i] += w * in[block + i];
    }
    double dot(const double* __restrict x, const double* __restrict y) const {
        double sums[8] = {};
        for (int block = 0; block < m; block += 8)
            for (int i = 0; i < 8; ++i) sums[i] += x[block + i] * y[block + i];
        return (sums[0] + sums[1] + sums[2] + sums[3]) + (sums[4] + sums[5] + sums[6] + sums[7]);
    }
    double sum(const double* x) const {
        double sums[8] = {};
        for (int block = 0; block < m; block += 8)
            for (int i = 0; i < 8; ++i) sums[i] += x[block + i];
        return (sums[0] + sums[1] + sums[2] + sums[3]) + (sums[4] + sums[5] + sums[6] + sums[7]);
    }

    Density p;
    int m;                                    // n rounded up to whole blocks of 8
    std::vector<std::vector<double>> z, d_z;  // (n_units, m) per layer: outputs, and the gradient
    std::vector<double> d_in;
    int n_weights = 0;
    double constant = 0.0;
};

// One trajectory, in place; the gradient is taken at the position, before and after.
// Returns the potential at its end; not finite if it diverged.
PROBPROP_CLONES double leapfrog(Potential& potential, double* position, double* momentum,
                                double* gradient, const double* inverse_mass, double step,
                                int n_steps) {
    const int n = potential.n_parameters();
    double energy = 0.0;
    for (int k = 0; k < n_steps && std::isfinite(energy); ++k) {
        for (int j = 0; j < n; ++j) {
            momentum[j] -= 0.5 * step * gradient[j];
            position[j] += step * inverse_mass[j] * momentum[j];
        }
        energy = potential(position, gradient);
        for (int j = 0; j < n; ++j) momentum[j] -= 0.5 * step * gradient[j];
    }
    return energy;
}

using In1 = nb::ndarray<const double, nb::shape<-1>, nb::c_contig, nb::device::cpu>;
using In2 = nb::ndarray<const double, nb::shape<-1, -1>, nb::c_contig, nb::device::cpu>;
using InOut2 = nb::ndarray<double, nb::shape<-1, -1>, nb::c_contig, nb::device::cpu>;
using Out1 = nb::ndarray<nb::numpy, double, nb::shape<-1>, nb::c_contig>;

void check(bool condition, const char* message) {
    if (!condition) throw std::invalid_argument(message);
}

Out1 move(InOut2 position, InOut2 momentum, InOut2 gradient, In1 inverse_mass, double step,
          int n_steps, In2 X, In1 y, const std::vector<int>& hidden_layer_sizes,
          std::tuple<double, double, double, double> hyperprior, bool probit) {
    Density density = {{static_cast<int>(X.shape(0))},
                       probit,
                       static_cast<int>(X.shape(1)),
                       X.data(),
                       y.data(),
                       0,
                       0,
                       0,
                       0};
    std::tie(density.a, density.b, density.c, density.d) = hyperprior;
    for (int size : hidden_layer_sizes) density.sizes.push_back(size);
    density.sizes.push_back(1);
    Potential potential(density);
    const size_t n_chains = position.shape(0), n = static_cast<size_t>(potential.n_parameters());
    check(y.shape(0) == X.shape(1), "X and y differ in their rows");
    check(position.shape(1) == n, "the positions do not fit the network");
    check(momentum.shape(0) == n_chains && momentum.shape(1) == n, "the momenta do not fit");
    check(gradient.shape(0) == n_chains && gradient.shape(1) == n, "the gradients do not fit");
    check(inverse_mass.shape(0) == n, "the inverse mass does not fit");
    double* data = new double[n_chains + 1];
    nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<double*>(p); });
    Out1 energy(data, {n_chains}, owner);
    nb::gil_scoped_release release;
    for (size_t chain = 0; chain < n_chains; ++chain) {
        double* q = position.data() + chain * n;
        double* g = gradient.data() + chain * n;
        energy.data()[chain] = n_steps == 0 ? potential(q, g)
                                            : leapfrog(potential, q, momentum.data() + chain * n, g,
                                                       inverse_mass.data(), step, n_steps);
    }
    return energy;
}

}  // namespace
}  // namespace probprop

NB_MODULE(_leapfrog, m) {
    m.def("move", &probprop::move, "position"_a, "momentum"_a, "gradient"_a, "inverse_mass"_a,
          "step"_a, "n_steps"_a, "X"_a, "y"_a, "hidden_layer_sizes"_a, "hyperprior"_a, "probit"_a,
          "Moves chains by leapfrog steps, in place, and returns their potentials, (n_chains,).");
}
