// One row through a layer with few inputs or few outputs: what a small ODE consists of, one after the other.
//
// Nothing here is cut into tiles, and results are written in whole vectors: a vector that was written in pieces, or under a mask,
// cannot be loaded before it has reached the cache, and the next layer waits for it.
#pragma once

#include "simd.hpp"

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

// y[k] = start[k] + sum_v x[v] m[k][v], for the first `rows` <= N rows; start and y have a whole vector.
template <class T, int N>
void many_to_few(const Thin<T>& a, int64_t rows, const T* x, const T* start, T* y) {
    constexpr int W = Simd<T>::W;
    const T* m[N];
#pragma GCC unroll 8
    for (int k = 0; k < N; k++) m[k] = a.m + (k < rows ? k : rows - 1) * a.ld;
    Vec<T> sum[N] = {};
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
    store<T>(y, sums_of<T, N>(sum) + load<T>(start));
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
void many_to_few(const Thin<T>& a, int64_t rows, const T* x, const T* start, T* y) {
    if (rows <= 1) return many_to_few<T, 1>(a, rows, x, start, y);
    if (rows <= 2) return many_to_few<T, 2>(a, rows, x, start, y);
    if constexpr (few<T> >= 4)
        if (rows <= 4) return many_to_few<T, 4>(a, rows, x, start, y);
    if constexpr (few<T> >= 8) return many_to_few<T, 8>(a, rows, x, start, y);
}

}  // namespace hotlap
