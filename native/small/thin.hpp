// One row through a layer with few inputs or few outputs: what a small ODE consists of, one after the other.
//
// Nothing here is cut into tiles, and results are written in whole vectors: one that was written in pieces, or under a mask,
// cannot be loaded before it has reached the cache, and the next layer waits for it.
#pragma once

#include <algorithm>

#include "tanh.hpp"

namespace hotlap {

// At most so many inputs, or outputs, are few.
template <class T>
constexpr int64_t few = Simd<T>::W < 8 ? Simd<T>::W : 8;

// (few, n) numbers with rows of `ld`.
template <class T>
struct Thin {
    const T* m;
    int64_t ld, n;
};

// y[v] = start[v] + sum_k x[k] m[k][v] over the `rows` of m; start and y have whole vectors, and may be the same.
template <class T>
void few_to_many(const Thin<T>& a, int64_t rows, const T* x, const T* start, T* y) {
    constexpr int W = Simd<T>::W;
    for (int64_t v = 0; v < a.n; v += W) {
        const int last = int(std::min<int64_t>(W, a.n - v));
        Vec<T> z = load<T>(start + v);
        for (int64_t k = 0; k < rows; k++) z = fma(splat<T>(x[k]), load_n<T>(a.m + k * a.ld + v, last), z);
        store<T>(y + v, z);
    }
}

// y[k] = start[k] + sum_v x[v] m[k][v] for all `rows` of m; start and y have whole vectors, and may be the same.
template <class T>
void many_to_any(const Thin<T>& a, int64_t rows, const T* x, const T* start, T* y) {
    constexpr int W = Simd<T>::W, N = std::min(W, 4);  // so many rows at a time: each sum waits for itself only
    for (int64_t first = 0; first < rows; first += W) {
        const int room = int(std::min<int64_t>(W, rows - first));
        Vec<T> sums{};
        for (int k = 0; k < room; k += N) {
            const T* m[N];
            Vec<T> sum[N] = {};
            for (int i = 0; i < N; i++) m[i] = a.m + std::min(first + k + i, rows - 1) * a.ld;
            for (int64_t v = 0; v < a.n; v += W) {
                const int last = int(std::min<int64_t>(W, a.n - v));
                const Vec<T> z = load_n<T>(x + v, last);
#pragma GCC unroll 4
                for (int i = 0; i < N; i++) sum[i] = fma(z, load_n<T>(m[i] + v, last), sum[i]);
            }
            sums = select<T>(first_lanes<T>(k), sums, sums_of<T, N>(sum));
        }
        store<T>(y + first, from_bits<T>(bits<T>(sums) & first_lanes<T>(room)) + load<T>(start + first));
    }
}

// Sums are taken of so many vectors at once: the next power of two.
constexpr int in_pairs(int n) { return n <= 2 ? n : 4; }

// Layer, tanh and layer in one pass, from K numbers to K numbers: the first K lanes of x and of the result. What the second
// layer needs is still in a register. Behind their last number `start` and `a` have zeros, so `hidden` has too.
// hidden[v] = tanh(start[v] + sum_k x[k] a[k][v]), y[k] = end[k] + sum_v hidden[v] b[k][v].
template <class T, int K>
Vec<T> through_tanh(const Thin<T>& a, const T* start, const Thin<T>& b, const T* end, Vec<T> x, T* hidden) {
    constexpr int W = Simd<T>::W;
    const Tanh<T> tanh;
    const int64_t num = b.n;
    const T *ma[K], *mb[K];  // the compiler cannot know that what is written is not `a` or `b`
    Vec<T> s[K], sum[in_pairs(K)] = {};
#pragma GCC unroll 4
    for (int k = 0; k < K; k++) {
        ma[k] = a.m + k * a.ld;
        mb[k] = b.m + k * b.ld;
        s[k] = splat<T>(x[k]);
        sum[k] = load_n<T>(end + k, 1);  // one lane of those that are added up
    }
    for (int64_t v = 0; v < num; v += W) {
        const int last = int(std::min<int64_t>(W, num - v));
        Vec<T> z = load<T>(start + v);
#pragma GCC unroll 4
        for (int k = 0; k < K; k++) z = fma(s[k], load<T>(ma[k] + v), z);
        z = tanh(z);
        store<T>(hidden + v, z);
#pragma GCC unroll 4
        for (int k = 0; k < K; k++) sum[k] = fma(z, load_n<T>(mb[k] + v, last), sum[k]);
    }
    return sums_of<T, in_pairs(K)>(sum);
}

// The way back, from the gradient g of y: that of what tanh was given into `to`; the result is that of x.
template <class T, int K>
Vec<T> back_through_tanh(const Thin<T>& a, const Thin<T>& b, const T* hidden, Vec<T> g, T* to) {
    constexpr int W = Simd<T>::W;
    const Vec<T> one = splat<T>(1);
    const int64_t num = b.n;
    const T *ma[K], *mb[K];
    Vec<T> s[K], sum[in_pairs(K)] = {};
#pragma GCC unroll 4
    for (int k = 0; k < K; k++) {
        ma[k] = a.m + k * a.ld;
        mb[k] = b.m + k * b.ld;
        s[k] = splat<T>(g[k]);
    }
    for (int64_t v = 0; v < num; v += W) {
        const int last = int(std::min<int64_t>(W, num - v));
        const Vec<T> h = load<T>(hidden + v);
        Vec<T> z{};
#pragma GCC unroll 4
        for (int k = 0; k < K; k++) z = fma(s[k], load_n<T>(mb[k] + v, last), z);
        z *= fma(-h, h, one);
        store<T>(to + v, z);
#pragma GCC unroll 4
        for (int k = 0; k < K; k++) sum[k] = fma(z, load<T>(ma[k] + v), sum[k]);
    }
    return sums_of<T, in_pairs(K)>(sum);
}

}  // namespace hotlap
