// The memory of a pass: allocated once, before its first point.
#pragma once

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#if defined(_WIN32)
#include <malloc.h>
#endif

namespace probprop {
namespace PROBPROP_LEVEL {

constexpr size_t alignment = 64;

// Memory that begins with a cache line; null if there is none. Windows releases it by a function
// of its own.
static inline void* aligned_memory(size_t n_bytes) {
#if defined(_WIN32)
    return _aligned_malloc(n_bytes, alignment);
#else
    void* memory = nullptr;
    return posix_memalign(&memory, alignment, n_bytes) == 0 ? memory : nullptr;
#endif
}
static inline void release_aligned(void* memory) {
#if defined(_WIN32)
    _aligned_free(memory);
#else
    free(memory);
#endif
}

// A bump allocator over one aligned piece of memory: measure first, then hand out.
struct Arena {
    unsigned char* base = nullptr;
    size_t used = 0;
    Arena() = default;
    Arena(const Arena&) = delete;
    ~Arena() { release_aligned(base); }
    // Get the memory that was measured, zeroed; false if there is none.
    bool reserve() {
        void* memory = aligned_memory(used);
        if (memory == nullptr) return false;
        memset(memory, 0, used);
        base = static_cast<unsigned char*>(memory);
        used = 0;
        return true;
    }
    template <typename U>
    U* take(size_t n) {
        U* p = base == nullptr ? nullptr : reinterpret_cast<U*>(base + used);
        used += (n * sizeof(U) + alignment - 1) / alignment * alignment;
        return p;
    }
};

}  // namespace PROBPROP_LEVEL
}  // namespace probprop
