// Random bits for dropout: 16 independent xoshiro128++ streams (Blackman and Vigna, 2018), the same on every machine.
#pragma once

#include <cstdint>

namespace hotlap {

class Random {
  public:
    static constexpr int lanes = 16;

    explicit Random(uint64_t seed) {
        for (auto& word : state_)
            for (uint32_t& lane : word) lane = uint32_t(splitmix(seed) >> 32);
    }

    void next(uint32_t (&out)[lanes]) {
        for (int i = 0; i < lanes; i++) {
            uint32_t &a = state_[0][i], &b = state_[1][i], &c = state_[2][i], &d = state_[3][i];
            out[i] = rotate(a + d, 7) + a;
            const uint32_t t = b << 9;
            c ^= a;
            d ^= b;
            b ^= c;
            a ^= d;
            c ^= t;
            d = rotate(d, 11);
        }
    }

  private:
    static uint32_t rotate(uint32_t x, int k) { return (x << k) | (x >> (32 - k)); }
    static uint64_t splitmix(uint64_t& s) {
        uint64_t z = (s += 0x9e3779b97f4a7c15u);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    uint32_t state_[4][lanes];
};

}  // namespace hotlap
