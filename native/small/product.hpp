// Products of any size, on as many threads as torch takes: ours in parts, or the BLAS in torch's library.
#pragma once

#include "matrix.hpp"
#include "../threads.hpp"

namespace hotlap {

// xGEMM as Fortran has it: column by column, everything by its address (netlib.org/blas).
template <class T>
using Gemm = void (*)(const char*, const char*, const int*, const int*, const int*, const T*, const T*, const int*, const T*,
                      const int*, const T*, T*, const int*);

// That of the library that torch has loaded; null where it shows none.
template <class T>
Gemm<T> gemm() {
    static const auto found = reinterpret_cast<Gemm<T>>(in_torch(sizeof(T) == 4 ? "sgemm_" : "dgemm_"));
    return found;
}

// As multiply_broadcast(), with the rows in parts: each number is the same sum, however many threads there are.
template <class T>
void multiply(const BroadcastArgs<T>& g, int64_t rows, int64_t cols) {
    in_parts(rows * cols * g.K, rows, tile_rows, [&](int64_t first, int64_t last) {
        BroadcastArgs<T> some = g;
        some.a += first * g.row_stride;
        some.c += first * g.ldc;
        multiply_broadcast<T>(some, last - first, cols);
    });
}

// Where ours are faster than the BLAS: MKL takes AVX-512 on processors of Intel only. On an AMD EPYC (family 26), one thread, ours
// took 0.4 to 0.6 of its time up to weights of this many numbers; beyond, a weight that is turned around for few rows took 2.8.
inline bool is_ours(int64_t weight) {
#if defined(HOTLAP_AVX512)
    return weight <= 1 << 21 && __builtin_cpu_is("amd");
#else
    return (void)weight, false;
#endif
}

// Whether the products of a layer are ones for the BLAS. On an Intel Xeon with AVX-512 (MKL) it was as fast as ours on one
// thread from here on; below, and with a side of ten, often slower.
template <class T>
bool is_large(int64_t rows, int64_t in, int64_t out) {
    const bool wide = rows * in * out >= WIDE && std::min({rows, in, out}) >= 16;
    return wide && !is_ours(in * out) && gemm<T>() && !threads_are_gone;
}

template <class T>
struct Factor {
    const T* start;
    int64_t ld;
    bool transposed;
};

// C (rows, cols) = A (rows, depth) times M (depth, cols), all row by row; added to what is in C, if it is to accumulate.
template <class T>
void multiply_large(Factor<T> a, Factor<T> m, int64_t rows, int64_t cols, int64_t depth, T* c, int64_t ldc, bool accumulate) {
    const int r = int(rows), n = int(cols), k = int(depth), lda = int(a.ld), ldm = int(m.ld), ld = int(ldc);
    const T one = 1, start = accumulate ? 1 : 0;
    // Row by row is the transposed matrix column by column, and C' = M' A'.
    gemm<T>()(m.transposed ? "T" : "N", a.transposed ? "T" : "N", &n, &r, &k, &one, m.start, &ldm, a.start, &lda, &start, c, &ld);
}

}  // namespace hotlap
