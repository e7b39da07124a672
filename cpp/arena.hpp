// The memory of a pass: allocated once, before its first point.
#pragma once

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

namespace probprop {
namespace PROBPROP_LEVEL {

constexpr size_t alignment = 64;

// A bump allocator over one aligned piece of memory: measure first, then hand out.
struct Arena {
    unsigned char* base = nullptr;
    size_t used = 0;
    Arena() = default;
    Arena(const Arena&) = delete;
    ~Arena() { free(base); }
    // Get the memory that was measured, zeroed; false if there is none.
    bool reserve() {
        void* memory = nullptr;
        if (posix_memalign(&memory, alignment, used) != 0) return false;
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
