// Matrices turned around, whole blocks at a time in registers.
#pragma once

#include <algorithm>

#include "simd.hpp"

namespace hotlap {

template <int From, class V, int... I>
HOTLAP_INLINE V interleave(V a, V b, std::integer_sequence<int, I...>) {
    return __builtin_shufflevector(a, b, (From + I / 2 + I % 2 * int(sizeof...(I)))...);
}

// W rows of W numbers, transposed. Each round turns the bits of (row, column), read as one number, around by one.
template <class V, int W>
HOTLAP_INLINE void transpose_block(V (&v)[W]) {
    using Lanes = std::make_integer_sequence<int, W>;
#pragma GCC unroll 4
    for (int round = 1; round < W; round *= 2) {
        V next[W];
#pragma GCC unroll 8
        for (int i = 0; i < W / 2; i++) {
            next[2 * i] = interleave<0>(v[i], v[i + W / 2], Lanes{});
            next[2 * i + 1] = interleave<W / 2>(v[i], v[i + W / 2], Lanes{});
        }
#pragma GCC unroll 16
        for (int i = 0; i < W; i++) v[i] = next[i];
    }
}

// out (cols, ldo) = in (rows, ldi) transposed; columns of out beyond `rows` up to a multiple of W become 0.
template <class T>
void transpose(const T* in, int64_t ldi, int64_t rows, int64_t cols, T* out, int64_t ldo) {
    constexpr int W = Simd<T>::W;
    for (int64_t c0 = 0; c0 < cols; c0 += W) {
        const int width = int(std::min<int64_t>(W, cols - c0));
        for (int64_t r0 = 0; r0 < rows; r0 += W) {
            const int height = int(std::min<int64_t>(W, rows - r0));
            Vec<T> v[W] = {};
            for (int r = 0; r < height; r++) v[r] = load_n<T>(in + (r0 + r) * ldi + c0, width);
            transpose_block(v);
            for (int c = 0; c < width; c++) store<T>(out + (c0 + c) * ldo + r0, v[c]);
        }
    }
}

// out (rows, cols) (+)= in (cols, ldi) transposed.
template <class T>
void add_transposed(const T* in, int64_t ldi, int64_t rows, int64_t cols, T* out, bool accumulate) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) out[r * cols + c] = accumulate ? out[r * cols + c] + in[c * ldi + r] : in[c * ldi + r];
}

}  // namespace hotlap
