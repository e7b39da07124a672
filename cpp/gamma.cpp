// The moments of the noise precision by quadrature, where (9)(10) are not a Gamma.
// The readable twin is gamma_moments_by_quadrature in src/probprop/reference/gamma.py.
#include "gamma.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace probprop {
namespace {

// 20-point Gauss-Legendre, the positive half.
constexpr double nodes[] = {0.076526521133497333755, 0.22778585114164507808, 0.37370608871541956067,
                            0.510867001950827098,    0.63605368072651502545, 0.74633190646015079261,
                            0.83911697182221882339,  0.91223442825132590587, 0.96397192727791379127,
                            0.99312859918509492479};
constexpr double node_weights[] = {0.1527533871307258507,   0.14917298647260374679,
                                   0.14209610931838205133,  0.1316886384491766269,
                                   0.11819453196151841731,  0.10193011981724043504,
                                   0.083276741576704748725, 0.06267204833410906357,
                                   0.040601429800386941331, 0.017614007139152118312};
constexpr int n_bisections = 64;   // halves any bracket down to the rounding of log gamma
constexpr double max_panel = 1.0;  // in log gamma, on whose unit scale the factors vary
constexpr double drop = 40.0;      // exp(-40) of a mode's height is the end of its tail

// log of sqrt(x/(1 + v x)) exp(-d2 x/(2 + 2 v x)) x^alpha exp(-alpha x) in u = log x, where
// gamma = x alpha/beta: one maximum or two.
struct LogIntegrand {
    double alpha, d2, v;

    double slope(double u) const {
        const double x = std::exp(u), w = 1.0 + v * x;
        return alpha * (1.0 - x) + 0.5 / w - 0.5 * d2 * x / w / w;
    }

    double bisect(double low, double high) const {
        for (int i = 0; i < n_bisections; ++i) {
            const double middle = 0.5 * (low + high);
            (slope(middle) > 0.0 ? low : high) = middle;
        }
        return low;
    }

    // (1 + v x)^2 times the slope is a cubic in x: only its two turning points can split the
    // bracket into monotone pieces.
    std::vector<double> modes() const {
        std::vector<double> knots = {std::log(alpha / (alpha + 0.5 * d2))};
        const double last = std::log1p(0.5 / alpha);
        const double discriminant = (v + 1.0) * (v + 1.0) + 1.5 * (v - d2) / alpha;
        if (v > 2.0 && discriminant > 0.0 && discriminant < (v - 2.0) * (v - 2.0)) {
            const double root = std::sqrt(discriminant);
            for (const double x : {(v - 2.0 - root) / (3.0 * v), (v - 2.0 + root) / (3.0 * v)})
                if (std::log(x) > knots[0] && std::log(x) < last) knots.push_back(std::log(x));
        }
        knots.push_back(last);
        std::vector<double> found;
        for (size_t i = 0; i + 1 < knots.size(); ++i) {
            const bool rises = i == 0 || slope(knots[i]) > 0.0;
            const bool falls = i + 2 == knots.size() || slope(knots[i + 1]) <= 0.0;
            if (rises && falls) found.push_back(bisect(knots[i], knots[i + 1]));
        }
        return found;
    }

    // The log integrand at u0 + h minus that at u0.
    double relative_to(double u0, double h) const {
        const double x0 = std::exp(u0), e = std::expm1(h);
        const double w0 = 1.0 + v * x0, r0 = v * x0 / w0;
        const double ratio = 1.0 / w0 + r0 * std::exp(h);  // (1 + v x)/(1 + v x0)
        const double log_ratio = r0 * e > -0.5 ? std::log1p(r0 * e) : std::log(ratio);
        return (alpha + 0.5) * h - alpha * x0 * e - 0.5 * log_ratio -
               0.5 * d2 * (x0 / w0 / w0) * e / ratio;
    }

    // A length not above that on which the integrand changes around u.
    double width(double u) const {
        const double x = std::exp(u), w = 1.0 + v * x;
        const double curvature = alpha * x + 0.5 * v * x / w / w + 0.5 * d2 * x / w / w;
        return std::min(max_panel, 1.0 / std::sqrt(curvature));
    }

    // Where x^power times the integrand has fallen by exp(-drop) from the mode.
    double tail_end(double u0, double mode, double direction, double power) const {
        double step = width(u0 + mode), h = 0.0;
        while (relative_to(u0 + mode, h) + power * h > -drop) {
            h += direction * step;
            step = std::min(2.0 * step, max_panel);
        }
        return mode + h;
    }

    // Panel ends relative to u0, dyadic around the modes.
    std::vector<double> break_points(double u0, double left, double right) const {
        const double low = tail_end(u0, left, -1.0, -1.0);   // E[1/x] weighs the lower tail
        const double high = tail_end(u0, right, +1.0, 2.0);  // E[x^2] the upper
        std::vector<double> points = {low, high};
        for (const double mode : {left, right}) {
            points.push_back(mode);
            for (const double direction : {-1.0, 1.0}) {
                double step = width(u0 + mode), h = 0.0;
                for (;;) {
                    const double next = mode + direction * (h + step);
                    if (!(low < next && next < high)) break;
                    h += step;
                    points.push_back(mode + direction * h);
                    step = std::min(h, max_panel);
                }
            }
        }
        std::sort(points.begin(), points.end());
        return points;
    }
};

}  // namespace

GammaShapeRate gamma_moments_by_quadrature(double alpha, double beta, double d2, double v) {
    const LogIntegrand g = {alpha, d2 * (alpha / beta), v * (alpha / beta)};
    const std::vector<double> modes = g.modes();
    double u0 = modes.front();
    if (g.relative_to(u0, modes.back() - u0) > 0.0) u0 = modes.back();
    const std::vector<double> points = g.break_points(u0, modes.front() - u0, modes.back() - u0);

    std::vector<double> h, weight;
    double total = 0.0;
    for (size_t i = 0; i + 1 < points.size(); ++i) {
        const double half = 0.5 * (points[i + 1] - points[i]);
        const double center = 0.5 * (points[i + 1] + points[i]);
        for (int k = 0; k < 10; ++k)
            for (const double sign : {-1.0, 1.0}) {
                h.push_back(center + sign * half * nodes[k]);
                weight.push_back(half * node_weights[k] * std::exp(g.relative_to(u0, h.back())));
                total += weight.back();
            }
    }
    // x = exp(u0) (1 + e): mean and variance of e, the variance in a second pass.
    double e_mean = 0.0, e_var = 0.0, inverse = 0.0;
    for (size_t i = 0; i < h.size(); ++i) {
        e_mean += weight[i] / total * std::expm1(h[i]);
        inverse += weight[i] / total * std::exp(-h[i]);
    }
    for (size_t i = 0; i < h.size(); ++i) {
        const double difference = std::expm1(h[i]) - e_mean;
        e_var += weight[i] / total * difference * difference;
    }
    const double mean = std::exp(u0) * (1.0 + e_mean) * (alpha / beta);
    double alpha_new = (1.0 + e_mean) * (1.0 + e_mean) / e_var;
    const double ratio = (1.0 + e_mean) * inverse;  // E[gamma] E[1/gamma] > 1
    if (alpha_new > 2.0 * ratio * (alpha_new - 1.0)) {
        // Differs from [PBP15] Eq. (9)(10): two modes of similar mass would give no E[1/gamma], or
        // more than twice the true one; match it instead of Var[gamma]: always a valid Gamma.
        alpha_new = ratio / (ratio - 1.0);
    }
    return {alpha_new, alpha_new / mean};
}

}  // namespace probprop
