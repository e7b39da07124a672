// A mixture of predictive distributions: log density, probability, quantiles, CRPS of many rows.
//
//     p(y) = sum_s w_s E[N(y | mean_s, epistemic_std_s^2 + V)],
//
// where V, the noise variance, is aleatoric_std_s^2 (Gaussian noise), log-normal with the mean
// aleatoric_std_s^2 and the variance `shape` of its logarithm, or 1/gamma with gamma from a Gamma
// of the shape `shape`, E[1/gamma] = aleatoric_std_s^2 (Student-t noise, see student_t.hpp).
//
// Log-normal noise, in units of its median: with sigma^2 = shape and u ~ N(0, 1) the integrand
// N(z | 0, v + e^(sigma u)) N(u | 0, 1), or Phi(-z/sqrt(v + e^(sigma u))) instead of the first
// factor, is a Gaussian in u times something smooth, which a large z pulls to the right: by no more
// than the w/sigma with w e^w = sigma^2 z^2/2. The trapezoidal rule converges geometrically: its
// step follows the width of the integrand there, and the strip |Im sigma u| < pi/2 in which it is
// tame.
//
// Everything is computed from differences y - mean_s, so that targets whose mean is large compared
// with their spread lose no digits.
#pragma once

#include <math.h>
#include <stdlib.h>

#include "arena.hpp"
#include "kernel.hpp"
#include "power.hpp"
#include "scale_mixture.hpp"
#include "student_t.hpp"

namespace probprop {
namespace PROBPROP_LEVEL {

struct MixtureRule {
    static constexpr double reach = 9.0, u_last = 39.0;  // exp(-39^2/2) is 0
    static constexpr double step = 0.5, step_g = 0.35;
    static constexpr double coarse = 1.5;          // times longer steps, for the CRPS: 1e-9
    static constexpr double z_last = 40.0;         // Phi(-40) is 0
    static constexpr double far_last = 1e150;      // squares overflow beyond
    static constexpr double least_ratio = 1e-100;  // of noise to model: less is not seen
    static constexpr int max_steps = 200;          // of a search, which halves its bracket
};

// ---- Members

// The nodes of a member with log-normal noise: its tail at z is the sum of weight Phi(-z inv_std).
struct Nodes {
    double *inv_std, *weight;  // (n,), padded to whole vectors
    int64_t n, capacity;
    double far;  // the largest |z|, in medians of the noise, that they are made for
};

// The members of one row and target; arrays of n, padded to whole vectors with a weight of 0.
struct Members {
    int64_t n, n_padded;
    NoiseRule noise;
    double *mean, *epistemic_std, *aleatoric_std, *shape;
    double *std, *weight;  // of the target; as given
    double total_weight;
    double coarseness;  // of the nodes
    Nodes* nodes;
    StudentPrior* priors;

    explicit Members(Arena& arena, const MixtureArgs& args) { take(arena, args); }
    Members(const Members&) = delete;
    ~Members() {
        if (nodes != nullptr)
            for (int64_t s = 0; s < n; ++s) release_aligned(nodes[s].inv_std);
    }

    void take(Arena& arena, const MixtureArgs& args) {
        constexpr int64_t lanes = Simd<double>::lanes;
        n = args.n_members;
        n_padded = (n + lanes - 1) / lanes * lanes;
        noise = args.noise;
        coarseness = args.query == MixtureQuery::crps ? MixtureRule::coarse : 1.0;
        double** arrays[] = {&mean, &epistemic_std, &aleatoric_std, &shape, &std, &weight};
        for (double** array : arrays) *array = arena.take<double>(size_t(n_padded));
        nodes = arena.take<Nodes>(size_t(n));
        priors = arena.take<StudentPrior>(size_t(n));
    }
};

PROBPROP_INLINE double hypotenuse(double a, double b) {  // of two that are 0 or more
    const double large = a > b ? a : b, small = a > b ? b : a;
    const double ratio = large > 0.0 ? small / large : 0.0;
    return large * __builtin_sqrt(1.0 + ratio * ratio);
}

PROBPROP_INLINE double entry(const Stack& a, int64_t s, int64_t row, int64_t target) {
    return a.data[s * a.per_member + row * a.per_row + target * a.per_target];
}

static void load_members(const MixtureArgs& args, int64_t row, int64_t target, Members& members) {
    for (int64_t s = 0; s < members.n_padded; ++s) {
        const bool there = s < members.n;
        members.weight[s] = there ? args.weights[s] : 0.0;
        members.mean[s] = there ? entry(args.mean, s, row, target) : 0.0;
        members.epistemic_std[s] = there ? entry(args.epistemic_std, s, row, target) : 0.0;
        members.aleatoric_std[s] = there ? entry(args.aleatoric_std, s, row, target) : 1.0;
        members.shape[s] = there ? entry(args.shape, s, row, target) : 0.0;
        members.std[s] = hypotenuse(members.epistemic_std[s], members.aleatoric_std[s]);
    }
    VecF64 total = {};
    for (int64_t s = 0; s < members.n_padded; s += Simd<double>::lanes)
        total += load<double>(members.weight + s);
    members.total_weight = sum_lanes<double>(total);
    for (int64_t s = 0; s < members.n; ++s) {
        members.nodes[s].n = 0;
        if (members.noise == NoiseRule::student_t && members.priors[s].alpha != members.shape[s])
            members.priors[s] = student_prior(members.shape[s]);
    }
}

// Mean (in two parts, the second small) and standard deviation of the mixture, in target units.
struct Unit {
    double first, shift, std;

    double residual(double y) const { return ((y - first) - shift) / std; }
    double target(double residual) const { return first + (shift + std * residual); }
};

// Change to residuals from the mixture's mean, in units of its standard deviation.
static Unit standardize(Members& members) {
    double shift = 0.0, unit = 0.0, square = 0.0;
    for (int64_t s = 0; s < members.n; ++s)
        shift += members.weight[s] / members.total_weight * (members.mean[s] - members.mean[0]);
    const double first = members.mean[0];
    for (int64_t s = 0; s < members.n; ++s) {
        members.mean[s] = (members.mean[s] - first) - shift;
        const double size = hypotenuse(fabs(members.mean[s]), members.std[s]);
        if (members.weight[s] > 0.0 && size > unit) unit = size;
    }
    for (int64_t s = 0; s < members.n; ++s) {
        const double size = hypotenuse(fabs(members.mean[s]), members.std[s]) / unit;
        if (members.weight[s] > 0.0)
            square += members.weight[s] / members.total_weight * size * size;
    }
    unit *= __builtin_sqrt(square);
    for (int64_t s = 0; s < members.n; ++s) {
        members.mean[s] /= unit;
        members.epistemic_std[s] /= unit;
        members.aleatoric_std[s] /= unit;
        members.std[s] /= unit;
    }
    return {first, shift, unit};
}

// ---- Log-normal noise

// Member s in units of the larger of model and noise: variances of both, the noise at its median.
struct HeavyMember {
    double unit, v, e, sigma;
};

static HeavyMember heavy_member(const Members& members, int64_t s) {
    const double median = members.aleatoric_std[s] * exp(-0.25 * members.shape[s]);
    const double unit = median > members.epistemic_std[s] ? median : members.epistemic_std[s];
    const double a = members.epistemic_std[s] / unit, b = median / unit;
    const double seen = b > MixtureRule::least_ratio ? b : MixtureRule::least_ratio;
    return {unit, a * a, seen * seen, __builtin_sqrt(members.shape[s])};
}

// The root of w e^w = x, roughly: it places nodes.
static double lambert_w(double log_x) {
    double w = log_x > 1.0 ? log_x - log(log_x) : exp(log_x) / (1.0 + exp(log_x));
    for (int i = 0; i < 4 && w > 0.0; ++i) w -= (w + log(w) - log_x) / (1.0 + 1.0 / w);
    return w > 0.0 ? w : 0.0;
}

// Make the nodes of a member for |z| up to `far` medians of the noise; false if there is no memory.
static bool make_nodes(const HeavyMember& member, double far, double coarseness, Nodes& nodes) {
    using R = MixtureRule;
    constexpr int64_t lanes = Simd<double>::lanes;
    const double sigma = member.sigma;
    far = far < R::far_last ? far : R::far_last;
    const double root = sigma * far > 0.0 ? lambert_w(2.0 * log(sigma * far) - log_2) : 0.0;
    // Nor does w exceed sigma^2 times the steepest slope of the integrand in sigma u, (z^2/v +
    // 1)/2.
    const double above = far > 1.0 ? far : 1.0;
    const double steepest = 0.5 * sigma * sigma * (above * above * (member.e / member.v) + 1.0);
    const double w = root < steepest ? root : steepest;
    const double pull = sigma > 0.0 ? w / sigma : 0.0;
    const double left = sigma > 0.0 ? -R::reach - 0.5 * sigma : 0.0;
    const double right =
        sigma > 0.0 ? (pull < R::u_last - R::reach ? R::reach + pull : R::u_last) : 0.0;
    const double by_width = R::step / __builtin_sqrt(1.0 + w);
    const double widest =
        coarseness * (by_width * sigma < R::step_g ? by_width : R::step_g / sigma);
    nodes.n = int64_t((right - left) / widest) + (sigma > 0.0 ? 2 : 1);
    nodes.far = far;
    const int64_t padded = (nodes.n + lanes - 1) / lanes * lanes;
    if (padded > nodes.capacity) {
        release_aligned(nodes.inv_std);
        nodes.capacity = 0;
        nodes.inv_std = static_cast<double*>(aligned_memory(size_t(2 * padded) * sizeof(double)));
        if (nodes.inv_std == nullptr) return false;
        nodes.capacity = padded;
    }
    nodes.weight = nodes.inv_std + nodes.capacity;
    const double step = nodes.n > 1 ? (right - left) / double(nodes.n - 1) : 0.0;
    VecF64 index, sum = {};
    for (int i = 0; i < lanes; ++i) index[i] = i;
    for (int64_t j = 0; j < padded; j += lanes, index += double(lanes)) {
        const VecF64 u = left + step * index, g = sigma * u;
        const VecF64 down = max(exp_nonpositive<double>(-abs<double>(g)), splat(1e-300));
        const VecF64 e_g = g > 0.0 ? 1.0 / down : down;
        const VecF64 density = exp_nonpositive<double>(-0.5 * u * u);
        const VecF64 weight = index < double(nodes.n) ? density : VecF64{};
        store<double>(nodes.inv_std + j, 1.0 / sqrt(member.v + member.e * e_g));
        store<double>(nodes.weight + j, weight);
        sum += weight;
    }
    // The weights add to 1: the error of that is less than exp(-40), but for rounding.
    const double scale = 1.0 / sum_lanes<double>(sum);
    for (int64_t j = 0; j < padded; j += lanes)
        store<double>(nodes.weight + j, scale * load<double>(nodes.weight + j));
    return true;
}

// ---- Probability and density

// The probability of a target below a point, and the density there.
struct Lower {
    double p, density;
};

PROBPROP_INLINE void add_lower(VecF64 z, VecF64 weight, VecF64 inv_std, VecF64& p,
                               VecF64& density) {
    const VecF64 end = splat(MixtureRule::z_last);
    z = max(min(z, end), -end);
    const NormalParts at = normal_parts(z);
    const VecF64 below = weight * (at.mantissa * exp_nonpositive<double>(lower_exponent(z)));
    p += below;
    density += below * at.ratio * inv_std;
}

// Of the distance `sign (y - mean_s)` from every member: sign -1 is the upper tail.
static bool lower_tail(Members& members, double y, double sign, Lower& out) {
    constexpr int lanes = Simd<double>::lanes;
    VecF64 p = {}, density = {};
    if (members.noise == NoiseRule::gaussian) {
        for (int64_t s = 0; s < members.n_padded; s += lanes) {
            const VecF64 inv_std = 1.0 / load<double>(members.std + s);
            const VecF64 z = (sign * (y - load<double>(members.mean + s))) * inv_std;
            add_lower(z, load<double>(members.weight + s), inv_std, p, density);
        }
    }
    for (int64_t s = 0; s < members.n && members.noise == NoiseRule::log_normal; ++s) {
        const double d = sign * (y - members.mean[s]);
        const HeavyMember member = heavy_member(members, s);
        const double z = d / member.unit, far = fabs(z) / __builtin_sqrt(member.e);
        Nodes& nodes = members.nodes[s];
        if (nodes.n == 0 || (far > nodes.far && nodes.far < MixtureRule::far_last))
            if (!make_nodes(member, nodes.n == 0 ? far : 1.5 * far, members.coarseness, nodes))
                return false;
        VecF64 own_p = {}, own_density = {};
        for (int64_t j = 0; j < nodes.n; j += lanes) {
            const VecF64 inv_std = load<double>(nodes.inv_std + j);
            add_lower(z * inv_std, load<double>(nodes.weight + j), inv_std, own_p, own_density);
        }
        p += members.weight[s] * own_p;
        density += members.weight[s] / member.unit * own_density;
    }
    for (int64_t s = 0; s < members.n && members.noise == NoiseRule::student_t; ++s) {
        const double d = sign * (y - members.mean[s]);
        if (__builtin_isinf(d)) {
            p[0] += d > 0.0 ? members.weight[s] : 0.0;
            continue;
        }
        const StudentT at =
            student_t(d, members.epistemic_std[s], members.aleatoric_std[s], members.priors[s]);
        p[0] += members.weight[s] * (d > 0.0 ? -expm1(at.log_tail) : exp(at.log_tail));
        density[0] += members.weight[s] * exp(at.log_density);
    }
    out = {sum_lanes<double>(p) / members.total_weight,
           sum_lanes<double>(density) / members.total_weight};
    return true;
}

static double member_logpdf(const Members& members, int64_t s, double d) {
    if (__builtin_isinf(d)) return -INFINITY;
    if (members.noise == NoiseRule::student_t)
        return student_t(d, members.epistemic_std[s], members.aleatoric_std[s], members.priors[s])
            .log_density;
    if (members.noise == NoiseRule::log_normal) {
        const HeavyMember member = heavy_member(members, s);
        const double z = d / member.unit;
        if (!(fabs(z) <= ScaleRule::d_max)) return -INFINITY;
        return scale_mixture(z, member.v, log(member.e), members.shape[s]).log_Z - log(member.unit);
    }
    const double z = d / members.std[s];
    return -0.5 * z * z - log(members.std[s]) + log(density_at_0);
}

// `scratch` has room for one number per member.
static double logpdf(const Members& members, double y, double* scratch) {
    double top = -INFINITY;
    for (int64_t s = 0; s < members.n; ++s) {
        scratch[s] = members.weight[s] > 0.0 ? member_logpdf(members, s, y - members.mean[s]) +
                                                   log(members.weight[s] / members.total_weight)
                                             : -INFINITY;
        if (scratch[s] > top) top = scratch[s];
    }
    if (__builtin_isinf(top)) return top;
    double sum = 0.0;
    for (int64_t s = 0; s < members.n; ++s) sum += exp(scratch[s] - top);
    return top + log(sum);
}

// ---- Quantiles

// The residual with probability `tail` <= 1/2 below it (sign 1) or above it (sign -1), of members
// in standard units; z is the normal quantile of the tail, at most 0.
static bool quantile(Members& members, double tail, double z, double sign, double& out) {
    // Newton's method on log p as a function of x, residual = sign sinh(x): p is near a power of
    // the residual in heavy tails. By Chebyshev's inequality tail <= (std/residual)^2/2 where the
    // distribution of a member is symmetric.
    double low = INFINITY, high = -INFINITY;
    const double lowest = members.noise == NoiseRule::gaussian ? z : -__builtin_sqrt(0.5 / tail);
    const double highest = members.noise == NoiseRule::gaussian ? z : 0.0;
    for (int64_t s = 0; s < members.n; ++s) {
        if (!(members.weight[s] > 0.0)) continue;
        const double own = sign * members.mean[s];
        const double from = own + lowest * members.std[s], to = own + highest * members.std[s];
        low = from < low ? from : low;
        high = to > high ? to : high;
    }
    if (members.n == 1 && tail == 0.5) {
        out = members.mean[0];
        return true;
    }
    const double margin = 1e-9;  // for the rounding
    low = asinh(low - margin * (1.0 + fabs(low)));
    high = asinh(high + margin * (1.0 + fabs(high)));
    double x = asinh(z), before = high - low, last = INFINITY;
    if (!(low < x && x < high)) x = 0.5 * (low + high);
    for (int i = 0; i < MixtureRule::max_steps; ++i) {
        Lower at;
        const double residual = sinh(x);
        if (!lower_tail(members, sign * residual, sign, at)) return false;
        const double excess = log(at.p / tail);
        (excess < 0.0 ? low : high) = x;
        const double step = excess * at.p / (at.density * cosh(x));
        const bool good = low <= x - step && x - step <= high && fabs(step) <= 0.5 * before;
        const double next = good ? x - step : 0.5 * (low + high);
        before = fabs(next - x);
        if (fabs(excess) < 1e-15 || before <= 2e-16 * (1e-3 + fabs(x))) break;
        x = next;
        // Where it converges quadratically, the next excess would be below 1e-16.
        if (good && fabs(excess) < 3e-9 && fabs(excess) < 10.0 * last * last) break;
        last = excess;
    }
    out = sign * sinh(x);
    return true;
}

// ---- CRPS

// E|X| of X ~ N(m, s^2), sums of it over lanes.
PROBPROP_INLINE VecF64 mean_abs(VecF64 m, VecF64 s) {
    const VecF64 end = splat(MixtureRule::z_last), z = m / s;
    const VecF64 x = min(abs<double>(z), end);
    const NormalParts at = normal_parts(x);  // Phi and phi/Phi of x >= 0
    return s * (2.0 * (at.ratio * at.mantissa)) + abs<double>(m) * (2.0 * at.mantissa - 1.0);
}

// sum_s w_s E|X - X_s| with X ~ N(m, s^2): members in standard units, Gaussian noise.
static double mean_distance(const Members& members, double m, double std) {
    VecF64 sum = {};
    for (int64_t s = 0; s < members.n_padded; s += Simd<double>::lanes) {
        const VecF64 own = load<double>(members.std + s);
        const VecF64 gap = m - load<double>(members.mean + s);
        sum += load<double>(members.weight + s) * mean_abs(gap, sqrt(own * own + std * std));
    }
    return sum_lanes<double>(sum) / members.total_weight;
}

// The targets behind a transformation: y(z), in units of the transformation, and dy/dz.
struct BoxCox {
    double power;
    Unit unit;  // of z

    double lowest() const {  // the residual of a target of 0
        return power > 0.0 ? unit.residual(-1.0 / power) : -INFINITY;
    }
    double target(double residual) const { return box_cox_inverse(unit.target(residual), power); }
    double base(double residual) const {
        return power < 1e-18 ? 1.0 : 1.0 + power * unit.target(residual);
    }
    double slope(double residual) const {  // of the target by the residual
        const double b = base(residual);
        return b > 0.0 ? unit.std * target(residual) / b : 0.0;
    }
    double slope_scale(double residual) const {  // on which it grows by a factor of e
        const double b = base(residual);
        return power < 1.0 ? (b > 0.0 ? b : 0.0) / ((1.0 - power) * unit.std) : INFINITY;
    }
};

// The length on which p varies at x: the std of the narrowest member near its mean, more far away.
static double local_scale(const Members& members, double x) {
    double scale = INFINITY;
    for (int64_t s = 0; s < members.n; ++s) {
        const double shape = members.shape[s];
        double factor = 1.0;  // of the standard deviation of the noise
        if (members.noise == NoiseRule::log_normal)
            factor = exp(-0.25 * shape - __builtin_sqrt(shape));
        if (members.noise == NoiseRule::student_t) factor = __builtin_sqrt((shape - 1.0) / shape);
        const double narrow =
            hypotenuse(members.epistemic_std[s], factor * members.aleatoric_std[s]);
        const double own = 1.2 * narrow + 0.3 * fabs(x - members.mean[s]);
        if (members.weight[s] > 0.0 && own < scale) scale = own;
    }
    return scale;
}

// The integral of p^2 dy from one residual to another; p is the probability below (sign 1) or
// above (sign -1). By Gauss and Legendre's rule of eight points on panels of the local scale.
static bool integrate_square(Members& members, const BoxCox* g, double from, double to, double sign,
                             double& out) {
    static constexpr double nodes[] = {0.18343464249564981, 0.52553240991632899,
                                       0.79666647741362674, 0.96028985649753623};
    static constexpr double weights[] = {0.36268378337836198, 0.31370664587788729,
                                         0.22238103445337447, 0.10122853629037626};
    out = 0.0;
    for (double x = from; x < to;) {
        double length = local_scale(members, x);
        if (g != nullptr) {
            const double longest = 2.0 * g->slope_scale(x) + 1e-3;
            length = length < longest ? length : longest;
        }
        const double end = x + length < to ? x + length : to;
        if (!(end > x)) break;
        const double middle = 0.5 * (x + end), half = 0.5 * (end - x);
        for (int j = 0; j < 8; ++j) {
            const double at = middle + (j % 2 ? -half : half) * nodes[j / 2];
            Lower lower;
            if (!lower_tail(members, at, sign, lower)) return false;
            const double slope = g == nullptr ? 1.0 : g->slope(at);
            out += half * weights[j / 2] * lower.p * lower.p * slope;
        }
        x = end;
    }
    return true;
}

// Where the integrals of the CRPS end, in residuals. What lies beyond adds less than 1e-10 of it,
// but for heavy-tailed noise behind a transformation: targets above the quantile 1 - 5e-5 count as
// that quantile, since the CRPS would be infinite with a logarithm.
struct Support {
    double low, high;
};

static bool support(Members& members, const BoxCox* g, Support& out) {
    constexpr double tails[] = {1e-7, 1e-12, 5e-5};
    constexpr double normal[] = {-5.199337582187471, -7.034483825301132, -3.890591886413124};
    const int end = g == nullptr ? 0 : members.noise == NoiseRule::gaussian ? 1 : 2;
    if (!quantile(members, tails[0], normal[0], 1.0, out.low)) return false;
    if (!quantile(members, tails[end], normal[end], -1.0, out.high)) return false;
    if (g != nullptr) {
        const double low = g->power > 0.0 ? g->lowest() : -41.0 / g->unit.std;  // exp(-41) = 0
        out.low = out.low > low ? out.low : low;
    }
    if (out.high < out.low) out.high = out.low;
    return true;
}

static bool crps_by_panels(Members& members, const BoxCox* g, const Support& ends, double at,
                           double& out) {
    const double inside = at < ends.low ? ends.low : at > ends.high ? ends.high : at;
    double below, above;
    if (!integrate_square(members, g, ends.low, inside, 1.0, below)) return false;
    if (!integrate_square(members, g, inside, ends.high, -1.0, above)) return false;
    out = below + above;
    if (at != inside) out += fabs(g == nullptr ? at - inside : g->target(at) - g->target(inside));
    return true;
}

// ---- Rows

static bool quantiles_of_row(const MixtureArgs& args, Members& members, double* out,
                             int64_t per_at) {
    const Unit unit = standardize(members);
    for (int64_t i = 0; i < args.n_at; ++i) {
        const double z = args.normal_at[i];
        double residual;
        if (!quantile(members, args.at[i], -fabs(z), z > 0.0 ? -1.0 : 1.0, residual)) return false;
        out[i * per_at] = unit.target(residual);
    }
    return true;
}

static bool crps_of_row(const MixtureArgs& args, Members& members, const double* y, double* out,
                        int64_t per_at) {
    const Unit unit = standardize(members);
    const bool in_closed_form = args.noise == NoiseRule::gaussian && args.power == nullptr;
    const BoxCox behind = {args.power == nullptr ? 1.0 : *args.power, unit};
    const BoxCox* g = args.power == nullptr ? nullptr : &behind;
    double spread = 0.0;  // half the mean distance between two draws
    Support ends = {};
    if (in_closed_form)
        for (int64_t s = 0; s < members.n; ++s)
            spread += 0.5 * members.weight[s] / members.total_weight *
                      mean_distance(members, members.mean[s], members.std[s]);
    else if (!support(members, g, ends))
        return false;
    for (int64_t i = 0; i < args.n_at; ++i) {
        const double residual = unit.residual(y[i * per_at]);
        double score = fabs(residual);  // infinite, or NaN
        const bool finite = residual - residual == 0.0;
        if (finite && in_closed_form)
            score = mean_distance(members, residual, 0.0) - spread;
        else if ((finite || residual == -INFINITY) && !in_closed_form &&
                 !crps_by_panels(members, g, ends, residual, score))
            return false;
        out[i * per_at] = g == nullptr ? unit.std * score : score;
    }
    return true;
}

// `scratch` has room for one number per member.
static bool answer_row(const MixtureArgs& args, int64_t row, int64_t target, Members& members,
                       double* scratch) {
    load_members(args, row, target, members);
    const int64_t first = row * args.n_targets + target, per_at = args.n_rows * args.n_targets;
    if (args.query == MixtureQuery::quantile)
        return quantiles_of_row(args, members, args.out + first, per_at);
    if (args.query == MixtureQuery::crps)
        return crps_of_row(args, members, args.at + first, args.out + first, per_at);
    for (int64_t i = first; i < args.n_at * per_at; i += per_at) {
        const double y = args.at[i];
        Lower lower = {y, 0.0};
        if (y == y && args.query == MixtureQuery::cdf && !lower_tail(members, y, 1.0, lower))
            return false;
        const bool density = y == y && args.query == MixtureQuery::logpdf;
        args.out[i] = density ? logpdf(members, y, scratch) : lower.p;
    }
    return true;
}

static Status mixture(const MixtureArgs& args) {
    Arena arena;
    {
        const Members measured(arena, args);
    }
    arena.take<double>(size_t(args.n_members));
    if (!arena.reserve()) return Status::no_memory;
    Members members(arena, args);
    double* scratch = arena.take<double>(size_t(args.n_members));
    for (int64_t row = 0; row < args.n_rows; ++row) {
        if (row % args.poll_every == 0 && !args.keep_going(args.context))
            return Status::interrupted;
        for (int64_t target = 0; target < args.n_targets; ++target)
            if (!answer_row(args, row, target, members, scratch)) return Status::no_memory;
    }
    return Status::ok;
}

}  // namespace PROBPROP_LEVEL
}  // namespace probprop
