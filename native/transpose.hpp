// Matrices turned around, whole blocks at a time in registers.
#pragma once

#include <algorithm>

#include "simd.hpp"

namespace hotlap {

template <class T, int From, int... I>
HOTLAP_INLINE Vec<T> interleave(Vec<T> a, Vec<T> b, std::integer_sequence<int, I...>) {
    return __builtin_shufflevector(a, b, (From + I / 2 + I % 2 * Simd<T>::W)...);
}

// W rows of W numbers, transposed. Each round turns the bits of (row, column), read as one number, around by one.
template <class T>
HOTLAP_INLINE void transpose_block(Vec<T> (&v)[Simd<T>::W]) {
    constexpr int W = Simd<T>::W;
    using Lanes = std::make_integer_sequence<int, W>;
#pragma GCC unroll 4
    for (int round = 1; round < W; round *= 2) {
        Vec<T> next[W];
#pragma GCC unroll 8
        for (int i = 0; i < W / 2; i++) {
            next[2 * i] = interleave<T, 0>(v[i], v[i + W / 2], Lanes{});
            next[2 * i + 1] = interleave<T, W / 2>(v[i], v[i + W / 2], Lanes{});
        }
#pragma GCC unroll 16
        for (int i = 0; i < W; i++) v[i] = next[i];
    }
}

// W rows of C numbers each, one row after the other, from and to a vector for each column.
template <class T, int C>
struct Narrow {
    static constexpr int W = Simd<T>::W;
    using Lanes = std::make_integer_sequence<int, W>;

    // Column c of the C vectors at `f`.
    template <int c, int q = 0, int... L>
    static HOTLAP_INLINE Vec<T> column(const Vec<T> (&f)[C], Vec<T> v, std::integer_sequence<int, L...> lanes) {
        v = __builtin_shufflevector(v, f[q], ((L * C + c) / W == q ? W + (L * C + c) % W : L)...);
        if constexpr (q + 1 < C) return column<c, q + 1>(f, v, lanes);
        return v;
    }
    // Vector q of the rows whose columns are at `f`.
    template <int q, int c = 0, int... L>
    static HOTLAP_INLINE Vec<T> rows(const Vec<T> (&f)[C], Vec<T> v, std::integer_sequence<int, L...> lanes) {
        v = __builtin_shufflevector(v, f[c], ((q * W + L) % C == c ? W + (q * W + L) / C : L)...);
        if constexpr (c + 1 < C) return rows<q, c + 1>(f, v, lanes);
        return v;
    }
    template <int... c>
    static HOTLAP_INLINE void columns(const Vec<T> (&f)[C], Vec<T> (&to)[C], std::integer_sequence<int, c...>) {
        ((to[c] = column<c>(f, Vec<T>{}, Lanes{})), ...);
    }
    template <int... q>
    static HOTLAP_INLINE void all_rows(const Vec<T> (&f)[C], Vec<T> (&to)[C], std::integer_sequence<int, q...>) {
        ((to[q] = rows<q>(f, Vec<T>{}, Lanes{})), ...);
    }

    // out (C, ldo) = in (num, C) transposed, whole vectors.
    static void apart(const T* in, int64_t num, T* out, int64_t ldo) {
        for (int64_t r = 0; r < num; r += W) {
            Vec<T> f[C], to[C];
            for (int q = 0; q < C; q++) {
                const int64_t left = (num - r) * C - q * W;
                f[q] = left >= W ? load<T>(in + r * C + q * W) : left > 0 ? load_n<T>(in + r * C + q * W, int(left)) : Vec<T>{};
            }
            columns(f, to, std::make_integer_sequence<int, C>{});
            for (int c = 0; c < C; c++) store<T>(out + c * ldo + r, to[c]);
        }
    }

    // out (num, C) (+)= in (C, ldi) transposed; in has whole vectors.
    static void together(const T* in, int64_t ldi, int64_t num, T* out, bool accumulate) {
        for (int64_t r = 0; r < num; r += W) {
            Vec<T> f[C], to[C];
            for (int c = 0; c < C; c++) f[c] = load<T>(in + c * ldi + r);
            all_rows(f, to, std::make_integer_sequence<int, C>{});
            for (int q = 0; q < C; q++) {
                const int64_t left = (num - r) * C - q * W;
                if (left <= 0) break;
                T* p = out + r * C + q * W;
                const int n = int(std::min<int64_t>(left, W));
                store_n<T>(p, accumulate ? to[q] + load_n<T>(p, n) : to[q], n);
            }
        }
    }
};

// out (cols, ldo) = in (rows, ldi) transposed; columns of out beyond `rows` up to a multiple of W become 0.
template <class T>
void transpose(const T* in, int64_t ldi, int64_t rows, int64_t cols, T* out, int64_t ldo) {
    constexpr int W = Simd<T>::W;
    if (ldi == cols && cols == 2) return Narrow<T, 2>::apart(in, rows, out, ldo);
    if (ldi == cols && cols == 3) return Narrow<T, 3>::apart(in, rows, out, ldo);
    if (ldi == cols && cols == 4) return Narrow<T, 4>::apart(in, rows, out, ldo);
    for (int64_t c0 = 0; c0 < cols; c0 += W) {
        const int width = int(std::min<int64_t>(W, cols - c0));
        for (int64_t r0 = 0; r0 < rows; r0 += W) {
            const int height = int(std::min<int64_t>(W, rows - r0));
            Vec<T> v[W] = {};
            for (int r = 0; r < height; r++) v[r] = load_n<T>(in + (r0 + r) * ldi + c0, width);
            transpose_block<T>(v);
            for (int c = 0; c < width; c++) store<T>(out + (c0 + c) * ldo + r0, v[c]);
        }
    }
}

// out (rows, cols) (+)= in (cols, ldi) transposed; in has whole vectors.
template <class T>
void add_transposed(const T* in, int64_t ldi, int64_t rows, int64_t cols, T* out, bool accumulate) {
    if (cols == 2) return Narrow<T, 2>::together(in, ldi, rows, out, accumulate);
    if (cols == 3) return Narrow<T, 3>::together(in, ldi, rows, out, accumulate);
    if (cols == 4) return Narrow<T, 4>::together(in, ldi, rows, out, accumulate);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) out[r * cols + c] = accumulate ? out[r * cols + c] + in[c * ldi + r] : in[c * ldi + r];
}

}  // namespace hotlap
