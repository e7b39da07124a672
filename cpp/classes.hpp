// The probabilities of the classes of many rows.
#pragma once

#include "arena.hpp"
#include "kernel.hpp"
#include "likelihoods/multinomial.hpp"

namespace probprop {
namespace PROBPROP_LEVEL {

// The log of the probability of every class, row by row.
static Status class_log_probabilities(const ClassArgs& args) {
    const int n = args.n_classes;
    Arena arena;
    arena.take<double>(class_scratch(n));
    if (!arena.reserve()) return Status::no_memory;
    double* scratch = arena.take<double>(class_scratch(n));
    const FlushDenormals flush;
    for (int64_t row = 0; row < args.n_rows; ++row) {
        if (row % args.poll_every == 0 && !args.keep_going(args.context))
            return Status::interrupted;
        const double *m = args.m + row * n, *v = args.v + row * n;
        for (int c = 0; c < n; ++c)
            args.log_p[row * n + c] = integrate_class<false>(m, v, c, n, nullptr, nullptr, scratch);
    }
    return Status::ok;
}

}  // namespace PROBPROP_LEVEL
}  // namespace probprop
