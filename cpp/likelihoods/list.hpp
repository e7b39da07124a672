// The likelihoods the kernels are built for. A new one is a file in this folder and an entry here.
//
// A likelihood is a struct of static members, in an unnamed namespace (simd.hpp says why):
//   name                                  as Python calls it
//   n_targets(n_outputs)                  columns of y
//   n_noise(n_outputs)                    Gammas of noise precisions, learned or fixed
//   weights_divide_noise                  whether a point of weight w has the noise variance over
//                                         w; else w is the power of its likelihood
//   n_scratch(n_outputs)                  doubles that `evidence` works in
//   objection(targets, n_outputs)         why these targets cannot be its own; null if they can
//   evidence(out, y, alpha, beta, scratch)
//       log Z of a point, its derivatives left in out.d_m and out.d_v; if not finite, the point
//       is skipped
//   learn_noise(out, y, alpha, beta)      updates the noise Gammas on a point; returns
//                                         how many were updated by quadrature
// Where the noise has a tail, `evidence` takes out.tail and leaves out.d_tail, and out.d_level for
// `learn_noise`.
// alpha and beta are the shapes and rates of the noise precisions, (n_noise,).
#pragma once

#include "gaussian.hpp"
#include "heavy.hpp"
#include "multinomial.hpp"
#include "probit.hpp"
#include "scale.hpp"

namespace probprop {
namespace PROBPROP_LEVEL {

namespace {

template <typename... L>
struct LikelihoodList {
    static constexpr LikelihoodInfo info[] = {
        {L::name, L::n_targets, L::n_noise, L::weights_divide_noise, L::objection}...};
    static constexpr int size = sizeof...(L);
};

}  // namespace

using Likelihoods = LikelihoodList<Gaussian, Probit, Multinomial, Scale, Heavy>;

}  // namespace PROBPROP_LEVEL
}  // namespace probprop
