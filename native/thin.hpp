// One row through a layer with few inputs or few outputs: what a small ODE consists of, one after the other.
//
// Nothing here is cut into tiles, and results are written in whole vectors: a vector that was written in pieces, or under a mask,
// cannot be loaded before it has reached the cache, and the next layer waits for it.
#pragma once

#include <algorithm>

#include "tanh.hpp"

namespace hotlap {

// At most so many inputs, or outputs, are few.
template <class T>
constexpr int64_t few = Simd<T>::W < 8 ? Simd<T>::W : 8;

// (few, n) numbers with rows of `ld`; where `whole`, rows may be read to the end of their last vector, which has zeros there.
template <class T>
struct Thin {
    const T* m;
    int64_t ld, n;
    bool whole;
};

// y[v] = start[v] + sum_k x[k] m[k][v]; start and y have whole vectors, and may be the same.
template <class T, int K>
void few_to_many(const Thin<T>& a, const T* x, const T* start, T* y) {
    constexpr int W = Simd<T>::W;
    Vec<T> s[K];
    const T* m[K];
#pragma GCC unroll 8
    for (int k = 0; k < K; k++) {
        s[k] = splat<T>(x[k]);
        m[k] = a.m + k * a.ld;
    }
    int64_t v = 0;
    for (const int64_t end = a.whole ? a.n : a.n - W + 1; v < end; v += W) {
        Vec<T> z = load<T>(start + v);
#pragma GCC unroll 8
        for (int k = 0; k < K; k++) z = fma(s[k], load<T>(m[k] + v), z);
        store<T>(y + v, z);
    }
    if (v >= a.n) return;
    Vec<T> z = load<T>(start + v);
#pragma GCC unroll 8
    for (int k = 0; k < K; k++) z = fma(s[k], load_n<T>(m[k] + v, int(a.n - v)), z);
    store<T>(y + v, z);
}

// Sums are taken of so many vectors at once: the next power of two.
constexpr int in_pairs(int n) { return n <= 2 ? n : n <= 4 ? 4 : 8; }

// Lane k is sum_v x[v] m[k][v], for the first `rows` <= N rows; the others are undefined.
template <class T, int N>
Vec<T> many_to_few(const Thin<T>& a, int64_t rows, const T* x) {
    constexpr int W = Simd<T>::W;
    const T* m[N];
#pragma GCC unroll 8
    for (int k = 0; k < N; k++) m[k] = a.m + (k < rows ? k : rows - 1) * a.ld;
    Vec<T> sum[in_pairs(N)] = {};
    int64_t v = 0;
    for (; v + W <= a.n; v += W) {
        const Vec<T> z = load<T>(x + v);
#pragma GCC unroll 8
        for (int k = 0; k < N; k++) sum[k] = fma(z, load<T>(m[k] + v), sum[k]);
    }
    if (v < a.n) {
        const int last = int(a.n - v);
        const Vec<T> z = from_bits<T>(bits<T>(load<T>(x + v)) & first_lanes<T>(last));  // what lies behind may be NaN
#pragma GCC unroll 8
        for (int k = 0; k < N; k++) sum[k] = fma(z, a.whole ? load<T>(m[k] + v) : load_n<T>(m[k] + v, last), sum[k]);
    }
    return sums_of<T, in_pairs(N)>(sum);
}

template <class T>
void few_to_many(const Thin<T>& a, int64_t rows, const T* x, const T* start, T* y) {
    switch (rows) {
        case 1: return few_to_many<T, 1>(a, x, start, y);
        case 2: return few_to_many<T, 2>(a, x, start, y);
        case 3: return few_to_many<T, 3>(a, x, start, y);
        case 4: return few_to_many<T, 4>(a, x, start, y);
        case 5: return few_to_many<T, 5>(a, x, start, y);
        case 6: return few_to_many<T, 6>(a, x, start, y);
        case 7: return few_to_many<T, 7>(a, x, start, y);
        default: return few_to_many<T, 8>(a, x, start, y);
    }
}

template <class T>
Vec<T> many_to_few(const Thin<T>& a, int64_t rows, const T* x) {
    if (rows <= 1) return many_to_few<T, 1>(a, rows, x);
    if (rows <= 2) return many_to_few<T, 2>(a, rows, x);
    if constexpr (few<T> >= 4)
        if (rows <= 4) return rows == 3 ? many_to_few<T, 3>(a, rows, x) : many_to_few<T, 4>(a, rows, x);
    if constexpr (few<T> >= 8) return many_to_few<T, 8>(a, rows, x);
    __builtin_unreachable();
}

// y[k] = start[k] + sum_v x[v] m[k][v] for all `rows` of m; start and y have whole vectors, and may be the same where rows are
// few.
template <class T>
void many_to_any(const Thin<T>& a, int64_t rows, const T* x, const T* start, T* y) {
    constexpr int W = Simd<T>::W;
    for (int64_t k = 0; k < rows; k += few<T>) {
        const int room = int(std::min<int64_t>(W, round_up<T>(rows) - k));
        const Vec<T> sums = many_to_few<T>({a.m + k * a.ld, a.ld, a.n, a.whole}, std::min(few<T>, rows - k), x);
        const Vec<T> v = sums + load_n<T>(start + k, room);
        room == W ? store<T>(y + k, v) : store_n<T>(y + k, v, room);
    }
}

// Layer, tanh and layer in one pass, from K numbers to K numbers; the first K lanes of x and of the result. What the
// second layer needs is still in a register.
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
    const auto block = [&](int64_t v, auto get, auto real) __attribute__((always_inline)) {
        Vec<T> z = load<T>(start + v);
#pragma GCC unroll 4
        for (int k = 0; k < K; k++) z = fma(s[k], load<T>(ma[k] + v), z);
        z = real(tanh(z));
        store<T>(hidden + v, z);
#pragma GCC unroll 4
        for (int k = 0; k < K; k++) sum[k] = fma(z, get(mb[k] + v), sum[k]);
    };
    int64_t v = 0;
    for (; v + W <= num; v += W) block(v, [](const T* p) { return load<T>(p); }, [](Vec<T> z) { return z; });
    if (const int n = int(num - v); n > 0)
        block(v, [n](const T* p) { return load_n<T>(p, n); },
              [n](Vec<T> z) { return from_bits<T>(bits<T>(z) & first_lanes<T>(n)); });  // what lies behind may be NaN
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
    const auto block = [&](int64_t v, auto get, auto real) __attribute__((always_inline)) {
        const Vec<T> h = load<T>(hidden + v);
        Vec<T> z{};
#pragma GCC unroll 4
        for (int k = 0; k < K; k++) z = fma(s[k], get(mb[k] + v), z);
        z = real(z * fma(-h, h, one));
        store<T>(to + v, z);
#pragma GCC unroll 4
        for (int k = 0; k < K; k++) sum[k] = fma(z, load<T>(ma[k] + v), sum[k]);
    };
    int64_t v = 0;
    for (; v + W <= num; v += W) block(v, [](const T* p) { return load<T>(p); }, [](Vec<T> z) { return z; });
    if (const int n = int(num - v); n > 0)
        block(v, [n](const T* p) { return load_n<T>(p, n); },
              [n](Vec<T> z) { return from_bits<T>(bits<T>(z) & first_lanes<T>(n)); });
    return sums_of<T, in_pairs(K)>(sum);
}

}  // namespace hotlap
