// The products that training needs, with register blocks chosen for the vectors at hand.
//
//   broadcast form: C[r][n] = sum_k A(r, k) * M[k][n]   vectors along n; A is broadcast and may be transposed
//   dot form:       C[r][n] = sum_k X[r][k] * M[n][k]   vectors along k, lanes summed at the end
//
// A layer y = x W^T + b with torch's W (out, in) is the dot form of W or the broadcast form of W^T; the gradient of x
// is the broadcast form of W or the dot form of W^T; the gradient of W is the broadcast form with A = g transposed.
#pragma once

#include <algorithm>

#include "simd.hpp"

namespace hotlap {

#if defined(HOTLAP_AVX512)
constexpr int tile_rows = 8, tile_vectors = 3;  // 24 of 32 registers accumulate
#elif defined(HOTLAP_AVX2)
constexpr int tile_rows = 6, tile_vectors = 2;  // 12 of 16
#else
constexpr int tile_rows = 4, tile_vectors = 2;
#endif

template <class T>
struct BroadcastArgs {
    const T* a;
    int64_t row_stride, k_stride;  // A(r, k) = a[r * row_stride + k * k_stride]
    const T* m;
    int64_t ldm;
    int64_t K;
    T* c;
    int64_t ldc;
    const T* start;  // added to each row (a bias), or null
    bool accumulate;
    // The last vectors of rows of m (and start) may be read whole; those of c may be written whole. A vector that was
    // written under a mask is not handed on to the next load before it has reached the cache.
    bool whole_m, whole_c;
};

template <class T, int R, int N, int U, bool Partial>
HOTLAP_INLINE void broadcast_sum(const BroadcastArgs<T>& g, const T* a, const T* m, int last, Vec<T> (&acc)[R][N]) {
    constexpr int W = Simd<T>::W;
    Vec<T> part[U][R][N] = {};
    int64_t k = 0;
    for (; k + U <= g.K; k += U) {
#pragma GCC unroll 4
        for (int u = 0; u < U; u++) {
            const T* row = m + (k + u) * g.ldm;
            Vec<T> v[N];
#pragma GCC unroll 4
            for (int n = 0; n < N; n++) v[n] = Partial && n == N - 1 ? load_n<T>(row + n * W, last) : load<T>(row + n * W);
#pragma GCC unroll 8
            for (int r = 0; r < R; r++) {
                const Vec<T> s = splat<T>(a[r * g.row_stride + (k + u) * g.k_stride]);
#pragma GCC unroll 4
                for (int n = 0; n < N; n++) part[u][r][n] = fma(s, v[n], part[u][r][n]);
            }
        }
    }
    for (; k < g.K; k++) {
        const T* row = m + k * g.ldm;
#pragma GCC unroll 4
        for (int n = 0; n < N; n++) {
            const Vec<T> v = Partial && n == N - 1 ? load_n<T>(row + n * W, last) : load<T>(row + n * W);
#pragma GCC unroll 8
            for (int r = 0; r < R; r++)
                part[0][r][n] = fma(splat<T>(a[r * g.row_stride + k * g.k_stride]), v, part[0][r][n]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int n = 0; n < N; n++) {
            Vec<T> s = part[0][r][n];
#pragma GCC unroll 4
            for (int u = 1; u < U; u++) s += part[u][r][n];
            acc[r][n] = s;
        }
}

template <class T, int R, int N, bool Partial>
void broadcast_tile(const BroadcastArgs<T>& g, int64_t r0, int64_t n0, int last) {
    constexpr int W = Simd<T>::W;
    constexpr int U = R * N >= 6 ? 1 : R * N >= 3 ? 2 : 4;  // enough chains to hide the latency of a product
    Vec<T> acc[R][N];
    broadcast_sum<T, R, N, U, Partial>(g, g.a + r0 * g.row_stride, g.m + n0, last, acc);
    const bool cut = last != W && !g.whole_c;
#pragma GCC unroll 4
    for (int n = 0; n < N; n++) {
        Vec<T> bias{};
        if (g.start) bias = Partial && n == N - 1 ? load_n<T>(g.start + n0 + n * W, last) : load<T>(g.start + n0 + n * W);
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) {
            T* c = g.c + (r0 + r) * g.ldc + n0 + n * W;
            Vec<T> v = acc[r][n] + bias;
            if (n == N - 1 && cut) {
                if (g.accumulate) v += load_n<T>(c, last);
                store_n<T>(c, v, last);
            } else {
                if (g.accumulate) v += load<T>(c);
                store<T>(c, v);
            }
        }
    }
}

template <class T, int R>
HOTLAP_INLINE void broadcast_row_block(const BroadcastArgs<T>& g, int64_t r0, int64_t n0, int vectors, int last) {
    const bool partial = last != Simd<T>::W && !g.whole_m;
    if (vectors == 1) return partial ? broadcast_tile<T, R, 1, true>(g, r0, n0, last) : broadcast_tile<T, R, 1, false>(g, r0, n0, last);
    if (vectors == 2) return partial ? broadcast_tile<T, R, 2, true>(g, r0, n0, last) : broadcast_tile<T, R, 2, false>(g, r0, n0, last);
    if constexpr (tile_vectors >= 3)
        return partial ? broadcast_tile<T, R, 3, true>(g, r0, n0, last) : broadcast_tile<T, R, 3, false>(g, r0, n0, last);
}

template <class T>
HOTLAP_INLINE void broadcast_block(const BroadcastArgs<T>& g, int rows, int64_t r0, int64_t n0, int vectors, int last) {
    switch (rows) {
        case 1: return broadcast_row_block<T, 1>(g, r0, n0, vectors, last);
        case 2: return broadcast_row_block<T, 2>(g, r0, n0, vectors, last);
        case 3: return broadcast_row_block<T, 3>(g, r0, n0, vectors, last);
        case 4: return broadcast_row_block<T, 4>(g, r0, n0, vectors, last);
#if defined(HOTLAP_AVX2) || defined(HOTLAP_AVX512)
        case 5: return broadcast_row_block<T, 5>(g, r0, n0, vectors, last);
        case 6: return broadcast_row_block<T, 6>(g, r0, n0, vectors, last);
#endif
#if defined(HOTLAP_AVX512)
        case 7: return broadcast_row_block<T, 7>(g, r0, n0, vectors, last);
        case 8: return broadcast_row_block<T, 8>(g, r0, n0, vectors, last);
#endif
    }
}

// The size of the next block of what is left: full ones, the last two alike. No division, which takes as long as a
// whole block of a small layer.
HOTLAP_INLINE int block_of(int64_t left, int full) {
    return left >= 2 * full ? full : left > full ? int((left + 1) >> 1) : int(left);
}

// One row, N vectors at once: a layer of a tiny network is over before a loop over blocks has begun.
template <class T, int N>
void broadcast_row(const BroadcastArgs<T>& g, int64_t n0, int last) {
    constexpr int W = Simd<T>::W;
    const int read = g.whole_m ? W : last, written = g.whole_c ? W : last;
    const auto get = [](const T* p, int n, int count) { return n == N - 1 ? load_n<T>(p + n * W, count) : load<T>(p + n * W); };
    Vec<T> acc[N];
#pragma GCC unroll 8
    for (int n = 0; n < N; n++) acc[n] = g.start ? get(g.start + n0, n, read) : Vec<T>{};
    for (int64_t k = 0; k < g.K; k++) {
        const Vec<T> s = splat<T>(g.a[k * g.k_stride]);
        const T* row = g.m + k * g.ldm + n0;
#pragma GCC unroll 8
        for (int n = 0; n < N; n++) acc[n] = fma(s, get(row, n, read), acc[n]);
    }
    T* c = g.c + n0;
#pragma GCC unroll 8
    for (int n = 0; n < N; n++) {
        if (g.accumulate) acc[n] += get(c, n, written);
        if (n == N - 1 && written != W)
            store_n<T>(c + n * W, acc[n], written);
        else
            store<T>(c + n * W, acc[n]);
    }
}

template <class T>
void broadcast_row(const BroadcastArgs<T>& g, int64_t vectors, int tail) {
    constexpr int W = Simd<T>::W;
    for (int64_t v0 = 0; v0 < vectors;) {
        const int n = block_of(vectors - v0, 8);
        const int last = v0 + n == vectors ? tail : W;
        switch (n) {
            case 4: broadcast_row<T, 4>(g, v0 * W, last); break;
            case 5: broadcast_row<T, 5>(g, v0 * W, last); break;
            case 6: broadcast_row<T, 6>(g, v0 * W, last); break;
            case 7: broadcast_row<T, 7>(g, v0 * W, last); break;
            default: broadcast_row<T, 8>(g, v0 * W, last); break;
        }
        v0 += n;
    }
}

// All rows against the columns of one block.
template <class T>
HOTLAP_INLINE void broadcast_rows(const BroadcastArgs<T>& g, int64_t rows, int64_t n0, int vectors, int last) {
    for (int64_t r0 = 0; r0 < rows;) {
        const int r = block_of(rows - r0, tile_rows);
        broadcast_block<T>(g, r, r0, n0, vectors, last);
        r0 += r;
    }
}

// C (rows, cols) from A and M; M and `start` are read in the first `cols` columns only.
template <class T>
void multiply_broadcast(const BroadcastArgs<T>& g, int64_t rows, int64_t cols) {
    constexpr int W = Simd<T>::W;
    const int64_t vectors = (cols + W - 1) / W;
    const int tail = int(cols - (vectors - 1) * W);
    if (rows == 1 && vectors >= 4) return broadcast_row<T>(g, vectors, tail);
    for (int64_t v0 = 0; v0 < vectors;) {
        const int n = block_of(vectors - v0, tile_vectors);
        broadcast_rows<T>(g, rows, v0 * W, n, v0 + n == vectors ? tail : W);
        v0 += n;
    }
}

template <class T>
struct DotArgs {
    const T* x;
    int64_t ldx;  // rows of x are readable, and finite, up to the next multiple of W
    const T* m;
    int64_t ldm;
    int64_t K;
    T* c;
    int64_t ldc;
    const T* start;
    bool accumulate, whole_c;  // as above
};

// `only`: there is no other tile, so that a vector may be written beyond this one's columns.
template <class T, int R, int N>
void dot_tile(const DotArgs<T>& g, int64_t r0, int rows, int64_t n0, int cols, bool only) {
    constexpr int W = Simd<T>::W;
    const T* x[R];
    const T* m[N];
#pragma GCC unroll 8
    for (int r = 0; r < R; r++) x[r] = g.x + (r0 + std::min(r, rows - 1)) * g.ldx;
#pragma GCC unroll 16
    for (int n = 0; n < N; n++) m[n] = g.m + (n0 + std::min(n, cols - 1)) * g.ldm;
    Vec<T> acc[R * N] = {};
    int64_t k = 0;
    for (; k + W <= g.K; k += W) {
        Vec<T> xv[R];
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) xv[r] = load<T>(x[r] + k);
#pragma GCC unroll 16
        for (int n = 0; n < N; n++) {
            const Vec<T> mv = load<T>(m[n] + k);
#pragma GCC unroll 8
            for (int r = 0; r < R; r++) acc[r * N + n] = fma(xv[r], mv, acc[r * N + n]);
        }
    }
    if (k < g.K) {
        const int last = int(g.K - k);
        Vec<T> xv[R];
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) xv[r] = load_n<T>(x[r] + k, last);
#pragma GCC unroll 16
        for (int n = 0; n < N; n++) {
            const Vec<T> mv = load_n<T>(m[n] + k, last);
#pragma GCC unroll 8
            for (int r = 0; r < R; r++) acc[r * N + n] = fma(xv[r], mv, acc[r * N + n]);
        }
    }
    constexpr int group = R * N < W ? R * N : W;
    if constexpr (R == 1) {  // one row's results lie side by side: no detour through memory
#pragma GCC unroll 16
        for (int i = 0; i < N; i += group) {
            if (i >= cols) return;
            Vec<T> part[group];
#pragma GCC unroll 16
            for (int j = 0; j < group; j++) part[j] = acc[i + j];
            Vec<T> v = sums_of<T, group>(part);
            const int count = std::min(group, cols - i);
            T* c = g.c + r0 * g.ldc + n0 + i;
            if (g.start) v += load_n<T>(g.start + n0 + i, count);
            if (g.accumulate) v += load_n<T>(c, count);
            if (only && g.whole_c)
                store<T>(c, v);
            else
                store_n<T>(c, v, count);
        }
        return;
    }
    T out[R * N < W ? W : R * N];
#pragma GCC unroll 16
    for (int i = 0; i < R * N; i += group) {
        Vec<T> part[group];
#pragma GCC unroll 16
        for (int j = 0; j < group; j++) part[j] = acc[i + j];
        store<T>(out + i, sums_of<T, group>(part));
    }
    for (int r = 0; r < rows; r++) {
        T* c = g.c + (r0 + r) * g.ldc + n0;
        for (int n = 0; n < cols; n++) {
            T v = out[r * N + n];
            if (g.start) v += g.start[n0 + n];
            c[n] = g.accumulate ? c[n] + v : v;
        }
    }
}

template <class T, int R, int N>
void dot_tiles(const DotArgs<T>& g, int64_t rows, int64_t cols) {
    for (int64_t n0 = 0; n0 < cols; n0 += N)
        for (int64_t r0 = 0; r0 < rows; r0 += R)
            dot_tile<T, R, N>(g, r0, int(std::min<int64_t>(R, rows - r0)), n0, int(std::min<int64_t>(N, cols - n0)),
                              cols <= std::min(N, Simd<T>::W));
}

template <class T>
void multiply_dot(const DotArgs<T>& g, int64_t rows, int64_t cols) {
#if defined(HOTLAP_AVX512)
    if (rows == 1) return cols <= 4 ? dot_tiles<T, 1, 4>(g, rows, cols) : dot_tiles<T, 1, 8>(g, rows, cols);
    return dot_tiles<T, 4, 4>(g, rows, cols);
#else
    if (rows == 1) return cols <= 4 ? dot_tiles<T, 1, 4>(g, rows, cols) : dot_tiles<T, 1, 8>(g, rows, cols);
    return dot_tiles<T, 2, 4>(g, rows, cols);
#endif
}

// c[n] (+)= sum over rows of g[r][n], for n below cols.
template <class T>
void sum_rows(const T* g, int64_t ldg, int64_t rows, int64_t cols, T* c, bool accumulate) {
    constexpr int W = Simd<T>::W;
    for (int64_t n = 0; n < cols; n += W) {
        const int last = int(std::min<int64_t>(W, cols - n));
        Vec<T> s[4] = {};
        int64_t r = 0;
        for (; r + 4 <= rows; r += 4)
#pragma GCC unroll 4
            for (int u = 0; u < 4; u++) s[u] += load_n<T>(g + (r + u) * ldg + n, last);
        for (; r < rows; r++) s[0] += load_n<T>(g + r * ldg + n, last);
        Vec<T> v = (s[0] + s[1]) + (s[2] + s[3]);
        if (accumulate) v += load_n<T>(c + n, last);
        store_n<T>(c + n, v, last);
    }
}

}  // namespace hotlap
