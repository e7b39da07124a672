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

  private:
    static uint32_t twisted(uint32_t far, uint32_t high, uint32_t low) {
        const uint32_t y = (high & 0x80000000u) | (low & 0x7fffffffu);
        return far ^ (y >> 1) ^ (y % 2 == 1 ? 0x9908b0dfu : 0u);
    }
    void refill() {
        constexpr int rest = size - middle;
        for (int i = 0; i < rest; ++i) key[i] = twisted(key[i + middle], key[i], key[i + 1]);
        for (int i = rest; i < size - 1; ++i) key[i] = twisted(key[i - rest], key[i], key[i + 1]);
        key[size - 1] = twisted(key[middle - 1], key[size - 1], key[0]);
        position = 0;
    }
};

// The permutation of 0 to n - 1 that RandomState.permutation(n) gives: entry i, from the last on,
// changes places with one drawn from 0 to i, by rejection among the numbers with as many bits.
template <typename Index>
void permutation(Mt19937& random, int64_t n, Index* out) {
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<Index>(i);
    uint64_t mask = 1;
    while (static_cast<int64_t>(mask) < n - 1) mask = 2 * mask + 1;
    for (int64_t i = n - 1; i > 0;) {
        while (static_cast<int64_t>(mask / 2) >= i) mask /= 2;
        const uint64_t drawn = (mask <= 0xffffffffu ? random.next() : random.next_64()) & mask;
        // A rejected number swaps i with itself: no branch that would be mispredicted.
        const int64_t accepted = static_cast<int64_t>(drawn) <= i ? 1 : 0;
        const int64_t j = accepted ? static_cast<int64_t>(drawn) : i;
        const Index kept = out[i];
        out[i] = out[j];
        out[j] = kept;
        i -= accepted;
    }
}

}  // namespace probprop
