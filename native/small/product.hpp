// Products of any size, on as many threads as torch takes: ours in parts, or the BLAS in torch's library.
#pragma once

#include <dlfcn.h>
#include <pthread.h>

#include "matrix.hpp"

namespace hotlap {

// xGEMM as Fortran has it: column by column, everything by its address (netlib.org/blas).
template <class T>
using Gemm = void (*)(const char*, const char*, const int*, const int*, const int*, const T*, const T*, const int*, const T*,
                      const int*, const T*, T*, const int*);

// Whether this process was forked from one that had asked for in_torch(). Its threads are not here, and OpenMP would wait
// for them for ever.
inline bool threads_are_gone = false;

// Of the library that torch has loaded, or one that it needs; null where there is none of this name.
inline void* in_torch(const char* name) {
    static void* const torch = [] {
        pthread_atfork(nullptr, nullptr, [] { threads_are_gone = true; });
        return dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_NOLOAD);
    }();
    return torch ? dlsym(torch, name) : nullptr;
}

template <class T>
Gemm<T> gemm() {
    static const auto found = reinterpret_cast<Gemm<T>>(in_torch(sizeof(T) == 4 ? "sgemm_" : "dgemm_"));
    return found;
}

// torch's OpenMP: what `#pragma omp parallel` calls (libgomp's ABI, which LLVM's has too), and which thread of how many asks.
struct Threads {
    void (*parallel)(void (*)(void*), void*, unsigned, unsigned) = nullptr;
    int (*most)() = nullptr, (*number)() = nullptr, (*count)() = nullptr;

    Threads() {
        const auto find = [](auto& to, const char* name) { return (to = reinterpret_cast<std::decay_t<decltype(to)>>(in_torch(name))); };
        if (!find(most, "omp_get_max_threads") || !find(number, "omp_get_thread_num") || !find(count, "omp_get_num_threads") ||
            !find(parallel, "GOMP_parallel"))
            most = nullptr;
    }
};

// From here on a product takes threads; each has so much to do that starting it, about two microseconds, is little beside it.
constexpr int64_t WIDE = 2'000'000, OF_A_THREAD = WIDE / 2;

// part(first, last) over all of 0 ... count - 1, on as many threads as torch would take and `work` multiplications are worth;
// `first` is a multiple of `block`.
template <class F>
void in_parts(int64_t work, int64_t count, int64_t block, const F& part) {
    if (work < WIDE || count <= block || threads_are_gone) return part(int64_t(0), count);
    static const Threads threads;
    const int64_t most = threads.most ? std::min<int64_t>(threads.most(), work / OF_A_THREAD) : 1;
    if (most < 2) return part(int64_t(0), count);
    const auto mine = [&] {
        const int64_t blocks = (count + block - 1) / block, of = threads.count(), i = threads.number();
        const int64_t first = blocks * i / of * block, last = std::min(count, blocks * (i + 1) / of * block);
        if (first < last) part(first, last);
    };
    threads.parallel([](void* run) { (*static_cast<decltype(mine)*>(run))(); }, const_cast<void*>(static_cast<const void*>(&mine)),
                     unsigned(most), 0);
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
