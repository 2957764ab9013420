// Products of any size: large ones are left to the BLAS in torch's library, which takes as many threads as torch does.
#pragma once

#include <dlfcn.h>
#include <pthread.h>

#include "matrix.hpp"

namespace hotlap {

// xGEMM as Fortran has it: column by column, everything by its address (netlib.org/blas).
template <class T>
using Gemm = void (*)(const char*, const char*, const int*, const int*, const int*, const T*, const T*, const int*, const T*,
                      const int*, const T*, T*, const int*);

// Whether this process was forked from one that had asked for gemm(). Its threads are not here, and OpenMP would wait for
// them for ever.
inline bool threads_are_gone = false;

// That of the library that torch has loaded; null where it shows none.
template <class T>
Gemm<T> gemm() {
    static const Gemm<T> found = [] {
        pthread_atfork(nullptr, nullptr, [] { threads_are_gone = true; });
        void* torch = dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_NOLOAD);
        return reinterpret_cast<Gemm<T>>(torch ? dlsym(torch, sizeof(T) == 4 ? "sgemm_" : "dgemm_") : nullptr);
    }();
    return found;
}

// Whether a product of these three sides is one for the BLAS. On an Intel Xeon with AVX-512 (MKL) it was as fast as ours on one
// thread from here on, and on two 0.5 to 0.7 of the time; below, and with a side of ten, often slower than ours on one.
template <class T>
bool is_large(int64_t rows, int64_t cols, int64_t depth) {
    return rows * cols * depth >= 2'000'000 && std::min({rows, cols, depth}) >= 16 && gemm<T>() && !threads_are_gone;
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
