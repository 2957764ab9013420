// The threads that torch takes, for what is long enough to be divided.
#pragma once

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace hotlap {

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

}  // namespace hotlap
