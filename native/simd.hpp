// One vector register, for whatever instruction set this translation unit is compiled for.
//
// The whole core is written against this file alone. Each variant of the extension is the same source compiled with
// other flags (see CMakeLists.txt), so none of them shares inline code with another.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512VL__) && defined(__AVX512BW__)
#define HOTLAP_AVX512 1
#define HOTLAP_VECTOR_BYTES 64
#elif defined(__AVX2__) && defined(__FMA__)
#define HOTLAP_AVX2 1
#define HOTLAP_VECTOR_BYTES 32
#else
#define HOTLAP_VECTOR_BYTES 16
#endif

#define HOTLAP_INLINE inline __attribute__((always_inline))

namespace hotlap {

template <class T>
struct Simd;

template <>
struct Simd<float> {
    typedef float V __attribute__((vector_size(HOTLAP_VECTOR_BYTES)));
    typedef int32_t I __attribute__((vector_size(HOTLAP_VECTOR_BYTES)));
    using Int = int32_t;
    using Unsigned = uint32_t;
    static constexpr int W = HOTLAP_VECTOR_BYTES / 4;
    static constexpr int mantissa_bits = 23;
    static constexpr Int bias = 127;
    static constexpr float round_magic = 12582912.0f;  // 1.5 * 2^23
    static constexpr float smallest_normal = 1.17549435e-38f;
};

template <>
struct Simd<double> {
    typedef double V __attribute__((vector_size(HOTLAP_VECTOR_BYTES)));
    typedef int64_t I __attribute__((vector_size(HOTLAP_VECTOR_BYTES)));
    using Int = int64_t;
    using Unsigned = uint64_t;
    static constexpr int W = HOTLAP_VECTOR_BYTES / 8;
    static constexpr int mantissa_bits = 52;
    static constexpr Int bias = 1023;
    static constexpr double round_magic = 6755399441055744.0;  // 1.5 * 2^52
    static constexpr double smallest_normal = 2.2250738585072014e-308;
};

template <class T>
using Vec = typename Simd<T>::V;
template <class T>
using IVec = typename Simd<T>::I;

template <class T>
HOTLAP_INLINE Vec<T> splat(T x) {
    return x - Vec<T>{};  // x - 0 is x for every x, -0 and NaN included; 0 + x is not
}

template <class T>
HOTLAP_INLINE Vec<T> load(const T* p) {
    Vec<T> v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}

template <class T>
HOTLAP_INLINE void store(T* p, Vec<T> v) {
    __builtin_memcpy(p, &v, sizeof v);
}

// n elements, a multiple of W. Not memcpy: what it writes in other pieces than vectors has to reach the cache before the
// next vector load can have it, and what is copied here is mostly needed at once.
template <class T>
HOTLAP_INLINE void copy_vectors(const T* from, T* to, int64_t n) {
    for (int64_t i = 0; i < n; i += Simd<T>::W) store<T>(to + i, load<T>(from + i));
}

// Lanes below n all ones, the others zero.
template <class T>
HOTLAP_INLINE IVec<T> first_lanes(int n) {
    IVec<T> lane;
    for (int i = 0; i < Simd<T>::W; i++) lane[i] = i;
    return lane < (IVec<T>{} + typename Simd<T>::Int(n));
}

// The first n lanes (1 <= n <= W), the others 0; nothing beyond p[n - 1] is touched.
template <class T>
HOTLAP_INLINE Vec<T> load_n(const T* p, int n) {
#if defined(HOTLAP_AVX512)
    if constexpr (sizeof(T) == 4)
        return (Vec<T>)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
    else
        return (Vec<T>)_mm512_maskz_loadu_pd((__mmask8)((1u << n) - 1), p);
#elif defined(HOTLAP_AVX2)
    if constexpr (sizeof(T) == 4)
        return (Vec<T>)_mm256_maskload_ps(p, (__m256i)first_lanes<T>(n));
    else
        return (Vec<T>)_mm256_maskload_pd(p, (__m256i)first_lanes<T>(n));
#else
    Vec<T> v{};
    __builtin_memcpy(&v, p, sizeof(T) * n);
    return v;
#endif
}

template <class T>
HOTLAP_INLINE void store_n(T* p, Vec<T> v, int n) {
#if defined(HOTLAP_AVX512)
    if constexpr (sizeof(T) == 4)
        _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
    else
        _mm512_mask_storeu_pd(p, (__mmask8)((1u << n) - 1), (__m512d)v);
#elif defined(HOTLAP_AVX2)
    if constexpr (sizeof(T) == 4)
        _mm256_maskstore_ps(p, (__m256i)first_lanes<T>(n), (__m256)v);
    else
        _mm256_maskstore_pd(p, (__m256i)first_lanes<T>(n), (__m256d)v);
#else
    __builtin_memcpy(p, &v, sizeof(T) * n);
#endif
}

HOTLAP_INLINE Vec<float> fma(Vec<float> a, Vec<float> b, Vec<float> c) {
#if defined(HOTLAP_AVX512)
    return (Vec<float>)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(HOTLAP_AVX2)
    return (Vec<float>)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;  // one instruction on NEON: CMakeLists.txt allows contraction there
#endif
}

HOTLAP_INLINE Vec<double> fma(Vec<double> a, Vec<double> b, Vec<double> c) {
#if defined(HOTLAP_AVX512)
    return (Vec<double>)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(HOTLAP_AVX2)
    return (Vec<double>)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
    return a * b + c;
#endif
}

// One instruction: the compiler sees that all lanes do the same.
template <class T>
HOTLAP_INLINE Vec<T> square_root(Vec<T> a) {
    for (int i = 0; i < Simd<T>::W; i++) a[i] = std::sqrt(a[i]);
    return a;
}

// Lane-wise integer view of the same bits, and back.
template <class T>
HOTLAP_INLINE IVec<T> bits(Vec<T> v) {
    return (IVec<T>)v;
}
template <class T>
HOTLAP_INLINE Vec<T> from_bits(IVec<T> v) {
    return (Vec<T>)v;
}

template <class T>
HOTLAP_INLINE Vec<T> select(IVec<T> mask, Vec<T> yes, Vec<T> no) {
    return mask ? yes : no;
}

template <class T>
HOTLAP_INLINE Vec<T> absolute(Vec<T> v) {
    constexpr auto sign = typename Simd<T>::Unsigned(1) << (sizeof(T) * 8 - 1);
    return from_bits<T>(bits<T>(v) & (IVec<T>{} + typename Simd<T>::Int(~sign)));
}

template <class T>
HOTLAP_INLINE Vec<T> copy_sign(Vec<T> magnitude, Vec<T> sign_of) {
    constexpr auto sign = typename Simd<T>::Unsigned(1) << (sizeof(T) * 8 - 1);
    const IVec<T> mask = IVec<T>{} + typename Simd<T>::Int(sign);
    return from_bits<T>((bits<T>(magnitude) & ~mask) | (bits<T>(sign_of) & mask));
}

// NaN in the first argument survives.
template <class T>
HOTLAP_INLINE Vec<T> at_most(Vec<T> v, Vec<T> limit) {
    return select<T>(v > limit, limit, v);
}
template <class T>
HOTLAP_INLINE Vec<T> at_least(Vec<T> v, Vec<T> limit) {
    return select<T>(v < limit, limit, v);
}

template <class T, int... I>
HOTLAP_INLINE Vec<T> add_neighbours(Vec<T> a, Vec<T> b, std::integer_sequence<int, I...>) {
    return __builtin_shufflevector(a, b, (2 * I)...) + __builtin_shufflevector(a, b, (2 * I + 1)...);
}
// Lane j of the result is the sum of lanes 2j and 2j + 1 of a followed by b.
template <class T>
HOTLAP_INLINE Vec<T> add_neighbours(Vec<T> a, Vec<T> b) {
    return add_neighbours<T>(a, b, std::make_integer_sequence<int, Simd<T>::W>{});
}

// Lane j of the result is the sum of all lanes of v[j % N]; N is a power of two up to W.
template <class T, int N>
HOTLAP_INLINE Vec<T> sums_of(Vec<T> (&v)[N]) {
    int left = N;
#pragma GCC unroll 5
    for (; left > 1; left /= 2) {
#pragma GCC unroll 16
        for (int i = 0; i < left / 2; i++) v[i] = add_neighbours<T>(v[2 * i], v[2 * i + 1]);
    }
    Vec<T> s = v[0];
#pragma GCC unroll 5
    for (int n = N; n < Simd<T>::W; n *= 2) s = add_neighbours<T>(s, s);
    return s;
}

template <class T>
HOTLAP_INLINE T sum_of(Vec<T> v) {
    Vec<T> alone[] = {v};
    return sums_of<T, 1>(alone)[0];
}

template <class T>
HOTLAP_INLINE T largest_of(Vec<T> v) {
    T s = v[0];
    for (int i = 1; i < Simd<T>::W; i++) s = v[i] > s ? v[i] : s;
    return s;
}

// f<n>() for a number from 1 to `most`.
template <int most, class F>
HOTLAP_INLINE void with_constant(int n, F f) {
    if constexpr (most > 1)
        if (n < most) return with_constant<most - 1>(n, f);
    f.template operator()<most>();
}

template <class T>
constexpr int64_t round_up(int64_t n) {
    return (n + Simd<T>::W - 1) / Simd<T>::W * Simd<T>::W;
}

}  // namespace hotlap
