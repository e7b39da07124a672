// Picks the build of the kernels for this machine, once.
#include <stdlib.h>
#include <string.h>

#include "kernel.hpp"

namespace probprop {

namespace generic {
extern const Level level;
}
#if defined(__x86_64__)
namespace v2 {
extern const Level level;
}
namespace v3 {
extern const Level level;
}
namespace v4 {
extern const Level level;
}
#endif

int available_levels(const Level** out) {
    int n = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool has_v2 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
    const bool has_v3 = has_v2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                        __builtin_cpu_supports("bmi2");
    const bool has_v4 = has_v3 && __builtin_cpu_supports("avx512f") &&
                        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (has_v4) out[n++] = &v4::level;
    if (has_v3) out[n++] = &v3::level;
    if (has_v2) out[n++] = &v2::level;
#endif
    out[n++] = &generic::level;
    return n;
}

const Level* chosen_level() {
    const Level* levels[4];
    const int n = available_levels(levels);
    const char* wanted = getenv("PROBPROP_CPU_LEVEL");
    if (wanted == nullptr || wanted[0] == '\0') return levels[0];
    for (int i = 0; i < n; ++i)
        if (strcmp(levels[i]->name, wanted) == 0) return levels[i];
    return nullptr;
}

}  // namespace probprop
