// The permutations of numpy.random.RandomState, bit for bit: MT19937, then Fisher and Yates.
#pragma once

#include <stdint.h>

namespace probprop {

// Matsumoto and Nishimura, ACM TOMACS 8, 3 (1998); the state as RandomState.get_state gives it.
struct Mt19937 {
    static constexpr int size = 624, middle = 397;
    uint32_t key[size];
    int64_t position;

    uint32_t next() {
        if (position >= size) refill();
        uint32_t y = key[position++];
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c5680u;
        y ^= (y << 15) & 0xefc60000u;
        return y ^ (y >> 18);
    }

    uint64_t next_64() {
        const uint64_t high = next();
        return high << 32 | next();
    }

    // A number from 0 to `most`, by rejection among those with as many bits.
    uint64_t up_to(uint64_t most) {
        uint64_t mask = most, found;
        for (int shift = 1; shift < 64; shift *= 2) mask |= mask >> shift;
        do {
            found = (most <= 0xffffffffu ? next() : next_64()) & mask;
        } while (found > most);
        return found;
    }

  private:
    void refill() {
        for (int i = 0; i < size; ++i) {
            const uint32_t y = (key[i] & 0x80000000u) | (key[(i + 1) % size] & 0x7fffffffu);
            key[i] = key[(i + middle) % size] ^ (y >> 1) ^ (y % 2 == 1 ? 0x9908b0dfu : 0u);
        }
        position = 0;
    }
};

// The permutation of 0 to n - 1 that RandomState.permutation(n) gives.
template <typename Index>
void permutation(Mt19937& random, int64_t n, Index* out) {
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<Index>(i);
    for (int64_t i = n - 1; i > 0; --i) {
        const uint64_t j = random.up_to(static_cast<uint64_t>(i));
        const Index kept = out[i];
        out[i] = out[j];
        out[j] = kept;
    }
}

}  // namespace probprop
