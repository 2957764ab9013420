// exp, tanh, log and the like on whole vectors, to a few units in the last place of float and double.
//
// Ranges, coefficients: exp splits x = n ln 2 + r, |r| <= ln 2 / 2. The float polynomial is a Chebyshev fit of
// (e^r - 1 - r) / r^2 (worst relative error of the reduced expm1 3.3e-10), the double one the Taylor series to r^13
// (below 2e-17). log follows fdlibm's e_log.c: s = f / (2 + f), log(1 + f) = f - (f^2/2 - s (f^2/2 + R(s^2))).
// NaN goes in, NaN comes out, everywhere: limits are applied by comparisons that are false for NaN.
#pragma once

#include "../simd.hpp"

namespace hotlap {

// (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2.
HOTLAP_INLINE Vec<float> expm1_tail(Vec<float> r) {
    Vec<float> p = splat(0.000199025892616f);
    p = fma(p, r, splat(0.00139378047905f));
    p = fma(p, r, splat(0.00833329305908f));
    p = fma(p, r, splat(0.0416664049698f));
    p = fma(p, r, splat(0.166666667385f));
    p = fma(p, r, splat(0.500000002997f));
    return p;
}

HOTLAP_INLINE Vec<double> expm1_tail(Vec<double> r) {
    constexpr double factorials[] = {6227020800.0, 479001600.0, 39916800.0, 3628800.0, 362880.0, 40320.0,
                                     5040.0,       720.0,       120.0,      24.0,      6.0,      2.0};
    Vec<double> p = splat(1.0 / factorials[0]);
#pragma GCC unroll 12
    for (int i = 1; i < 12; i++) p = fma(p, r, splat(1.0 / factorials[i]));
    return p;
}

template <class T>
struct Reduced {
    IVec<T> raw;  // the integer in the low bits, above garbage
    Vec<T> r;
};

template <class T>
HOTLAP_INLINE Reduced<T> reduce(Vec<T> x) {
    // ln 2 in two parts; the high one has zeros at its end, so that n * high is exact.
    constexpr T high = sizeof(T) == 4 ? T(0.693359375) : T(6.93147180369123816490e-01);
    constexpr T low = sizeof(T) == 4 ? T(-2.12194440e-4) : T(1.90821492927058770002e-10);
    const Vec<T> magic = splat<T>(Simd<T>::round_magic);
    const Vec<T> shifted = fma(x, splat<T>(T(1.4426950408889634)), magic);
    const Vec<T> n = shifted - magic;
    const Vec<T> r = fma(n, splat<T>(-low), fma(n, splat<T>(-high), x));
    return {bits<T>(shifted), r};
}

// 2^n for n in the range of normal numbers; `raw` as in Reduced.
template <class T>
HOTLAP_INLINE Vec<T> power_of_two(IVec<T> raw) {
    constexpr auto one = Simd<T>::bias << Simd<T>::mantissa_bits;
    return from_bits<T>((raw << Simd<T>::mantissa_bits) + one);
}

// scale * e^r - less, where `scaled` is scale - less: r itself, not r + r^2 tail, meets the large part, so that one
// rounding error less reaches the result.
template <class T>
HOTLAP_INLINE Vec<T> expand(Vec<T> r, Vec<T> scale, Vec<T> scaled) {
    return fma(expm1_tail(r) * (r * r), scale, fma(r, scale, scaled));
}

template <class T>
HOTLAP_INLINE Vec<T> exponential(Vec<T> x) {
    constexpr T lowest = sizeof(T) == 4 ? T(-104) : T(-746), highest = sizeof(T) == 4 ? T(89) : T(710);
    x = at_most<T>(at_least<T>(x, splat<T>(lowest)), splat<T>(highest));
    const Reduced<T> d = reduce<T>(x);
    // Two factors, because 2^n itself may be out of range while the product is infinite or denormal.
    const IVec<T> n = d.raw - bits<T>(splat<T>(Simd<T>::round_magic));
    const IVec<T> half = n >> 1;
    const Vec<T> first = power_of_two<T>(half);
    return expand<T>(d.r, first, first) * power_of_two<T>(n - half);
}

template <class T>
HOTLAP_INLINE Vec<T> hyperbolic_tangent(Vec<T> x) {
    // Beyond this the nearest number to tanh is 1.
    constexpr T saturated = sizeof(T) == 4 ? T(9.02) : T(19.07);
    const Vec<T> a = at_most<T>(absolute<T>(x), splat<T>(saturated));
    const Reduced<T> d = reduce<T>(a + a);
    const Vec<T> scale = power_of_two<T>(d.raw), e = expand<T>(d.r, scale, scale - splat<T>(1));  // e^2a - 1
    return copy_sign<T>(e / (e + splat<T>(2)), x);
}

template <class T>
HOTLAP_INLINE Vec<T> logistic(Vec<T> x) {
    const Vec<T> e = exponential<T>(-absolute<T>(x));
    const Vec<T> top = select<T>(x < Vec<T>{}, e, splat<T>(1));
    // The comparison above is false for NaN, and e is NaN then: the quotient is too.
    return top / (e + splat<T>(1));
}

HOTLAP_INLINE Vec<float> log_tail(Vec<float> z) {  // fit on |1 + f| in [sqrt 1/2, sqrt 2], error 3.4e-11
    Vec<float> p = splat(0.233313674838f);
    p = fma(p, z, splat(0.285507811067f));
    p = fma(p, z, splat(0.400001222774f));
    return z * fma(p, z, splat(0.666666665538f));
}

HOTLAP_INLINE Vec<double> log_tail(Vec<double> z) {  // the series 2/3 + 2/5 z + ..., z <= 0.0295
    Vec<double> p = splat(2.0 / 23);
#pragma GCC unroll 10
    for (int k = 21; k >= 3; k -= 2) p = fma(p, z, splat(2.0 / k));
    return z * p;
}

// Natural logarithm of normal positive numbers and +inf; 0 gives -inf, below 0 and NaN give NaN.
template <class T>
HOTLAP_INLINE Vec<T> logarithm(Vec<T> x) {
    constexpr T high = sizeof(T) == 4 ? T(0.693359375) : T(6.93147180369123816490e-01);
    constexpr T low = sizeof(T) == 4 ? T(-2.12194440e-4) : T(1.90821492927058770002e-10);
    constexpr T root_half = T(0.70710678118654752440);
    // Denormals are scaled up first.
    constexpr T up = sizeof(T) == 4 ? T(33554432.0) : T(18014398509481984.0);
    constexpr T up_log2 = sizeof(T) == 4 ? T(25) : T(54);
    const IVec<T> tiny = x < splat<T>(Simd<T>::smallest_normal);
    const Vec<T> scaled = select<T>(tiny, x * splat<T>(up), x);
    const IVec<T> offset = bits<T>(splat<T>(root_half));
    const IVec<T> exponent = (bits<T>(scaled) - offset) >> Simd<T>::mantissa_bits;
    const Vec<T> m = from_bits<T>(bits<T>(scaled) - (exponent << Simd<T>::mantissa_bits));
    const Vec<T> k = __builtin_convertvector(exponent, Vec<T>) - select<T>(tiny, splat<T>(up_log2), Vec<T>{});
    const Vec<T> f = m - splat<T>(1);
    const Vec<T> s = f / (f + splat<T>(2));
    const Vec<T> half_square = splat<T>(T(0.5)) * f * f;
    const Vec<T> tail = fma(k, splat<T>(low), s * (half_square + log_tail(s * s)));
    Vec<T> y = fma(k, splat<T>(high), f - (half_square - tail));
    const Vec<T> infinite = splat<T>(T(INFINITY)), nan = splat<T>(T(NAN));
    y = select<T>(x == infinite, infinite, y);
    y = select<T>(x == Vec<T>{}, -infinite, y);
    return select<T>((x < Vec<T>{}) | (x != x), nan, y);
}

// log(1 + x) for x in [0, 1].
template <class T>
HOTLAP_INLINE Vec<T> log1p_unit(Vec<T> x) {
    const Vec<T> u = x + splat<T>(1);
    return logarithm<T>(u) + (x - (u - splat<T>(1))) / u;
}

// log(1 + e^x), without overflow.
template <class T>
HOTLAP_INLINE Vec<T> softplus(Vec<T> x) {
    return at_least<T>(x, Vec<T>{}) + log1p_unit<T>(exponential<T>(-absolute<T>(x)));
}

template <class T, class F>
HOTLAP_INLINE Vec<T> lane_by_lane(Vec<T> x, F f) {
    for (int i = 0; i < Simd<T>::W; i++) x[i] = f(x[i]);
    return x;
}

}  // namespace hotlap
