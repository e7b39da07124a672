// Picks the build of the kernels for this machine, once.
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

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

#if defined(__x86_64__)
namespace {

// The highest of x86-64-v2, v3 and v4 that the processor has and whose registers the system saves;
// 1 if none. It asks the processor itself: __builtin_cpu_supports needs a library that not every
// compiler brings, zig's and clang's for Windows among them.
int x86_64_version() {
    const auto has = [](unsigned word, unsigned bits) { return (word & bits) == bits; };
    unsigned a, b, c, d, leaf_7;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !has(c, bit_SSE4_2 | bit_POPCNT)) return 1;
    if (!has(c, bit_FMA | bit_AVX | bit_OSXSAVE) || !__get_cpuid_count(7, 0, &a, &leaf_7, &c, &d))
        return 2;
    unsigned saved, upper;
    __asm__("xgetbv" : "=a"(saved), "=d"(upper) : "c"(0));
    constexpr unsigned ymm = 0x06, zmm = 0xe6;
    if (!has(saved, ymm) || !has(leaf_7, bit_AVX2 | bit_BMI | bit_BMI2)) return 2;
    constexpr unsigned avx512 =
        1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;  // F DQ CD BW VL
    return has(saved, zmm) && has(leaf_7, avx512) ? 4 : 3;
}

}  // namespace
#endif

int available_levels(const Level** out) {
    int n = 0;
#if defined(__x86_64__)
    static const int version = x86_64_version();
    if (version >= 4) out[n++] = &v4::level;
    if (version >= 3) out[n++] = &v3::level;
    if (version >= 2) out[n++] = &v2::level;
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
