// The products that training needs, with register blocks chosen for the vectors at hand.
//
//   C[r][n] = sum_k A(r, k) * M[k][n]     vectors along n; A is broadcast and may be transposed
//
// A layer y = x W^T + b with torch's W (out, in) takes W^T as M, the gradient of x takes W, and that of W takes the gradient
// of y, transposed, as A. Sums along a vector are in thin.hpp.
#pragma once

#include <algorithm>

#include "../simd.hpp"

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
    // The last vectors of rows of c may be written whole. One that was written under a mask is not handed on to the next
    // load before it has reached the cache.
    bool whole_c;
};

template <class T, int R, int N>
void broadcast_tile(const BroadcastArgs<T>& g, int64_t r0, int64_t n0, int last) {
    constexpr int W = Simd<T>::W;
    const T *a = g.a + r0 * g.row_stride, *m = g.m + n0;
    Vec<T> acc[R][N] = {};
    for (int64_t k = 0; k < g.K; k++, a += g.k_stride, m += g.ldm) {
        Vec<T> v[N];
#pragma GCC unroll 4
        for (int n = 0; n < N; n++) v[n] = n == N - 1 ? load_n<T>(m + n * W, last) : load<T>(m + n * W);
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) {
            const Vec<T> s = splat<T>(a[r * g.row_stride]);
#pragma GCC unroll 4
            for (int n = 0; n < N; n++) acc[r][n] = fma(s, v[n], acc[r][n]);
        }
    }
    const bool cut = last != W && !g.whole_c;
#pragma GCC unroll 4
    for (int n = 0; n < N; n++) {
        Vec<T> bias{};
        if (g.start) bias = n == N - 1 ? load_n<T>(g.start + n0 + n * W, last) : load<T>(g.start + n0 + n * W);
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

// The size of the next block of what is left: full ones, the last two alike. No division, which takes as long as a
// whole block of a small layer.
HOTLAP_INLINE int block_of(int64_t left, int full) {
    return left >= 2 * full ? full : left > full ? int((left + 1) >> 1) : int(left);
}

// C (rows, cols) from A and M; M and `start` are read in the first `cols` columns only.
template <class T>
void multiply_broadcast(const BroadcastArgs<T>& g, int64_t rows, int64_t cols) {
    constexpr int W = Simd<T>::W;
    const int64_t vectors = (cols + W - 1) / W;
    const int tail = int(cols - (vectors - 1) * W);
    for (int64_t v0 = 0; v0 < vectors;) {
        const int n = block_of(vectors - v0, tile_vectors), last = v0 + n == vectors ? tail : W;
        for (int64_t r0 = 0; r0 < rows;) {
            const auto tile = [&]<int R>() {
                with_constant<tile_vectors>(n, [&]<int N>() { broadcast_tile<T, R, N>(g, r0, v0 * W, last); });
                r0 += R;
            };
            const int64_t left = rows - r0;
            if (left >= tile_rows)
                tile.template operator()<tile_rows>();
            else
                with_constant<4>(left >= 4 ? 4 : int(left), tile);
        }
        v0 += n;
    }
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
