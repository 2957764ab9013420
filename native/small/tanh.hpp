// tanh on whole vectors; in float on AVX-512 by a table that lies in registers.
#pragma once

#include "vector_math.hpp"

namespace hotlap {

// To be made once before a loop: where there is a table, it is loaded here.
template <class T>
struct Tanh {
    HOTLAP_INLINE Vec<T> operator()(Vec<T> x) const { return hyperbolic_tangent<T>(x); }
};

#if defined(HOTLAP_AVX512)

// tanh |x| as a polynomial of |x| - centre in each of 32 pieces, quarters of octaves from 1/16 on; piece 0 is all below
// 5/64. Neither an exponential nor a division: half the latency, which is what a solve of small steps waits for.
class TanhTable {
  public:
    static constexpr int pieces = 32, degree = 5, shift = 21;  // bits >> 21: the exponent and a quarter of the octave
    static constexpr int32_t first = (127 - 4) << 2;           // of 1/16

    alignas(64) float centre[pieces];
    alignas(64) float coefficient[degree + 1][pieces];

    TanhTable() {
        // Around 0 the relative error counts: its series, whose next term is below 2e-8 of it.
        constexpr double series[] = {0, 1, 0, -1.0 / 3, 0, 2.0 / 15};
        put(0, 0, series);
        for (int k = 1; k < pieces; k++) fit(k, edge(k), edge(k + 1));
    }

  private:
    static double edge(int k) {
        const int32_t pattern = (first + k) << shift;
        float x;
        std::memcpy(&x, &pattern, sizeof x);
        return double(x);
    }

    // Newton's interpolation at Chebyshev's nodes, around a centre that is a float.
    void fit(int k, double begin, double end) {
        constexpr int n = degree + 1;
        const float centre = float((begin + end) / 2);
        double z[n], d[n], p[n] = {};
        for (int i = 0; i < n; i++) {
            z[i] = (begin + end) / 2 + (end - begin) / 2 * std::cos(M_PI * (i + 0.5) / n) - double(centre);
            d[i] = std::tanh(double(centre) + z[i]);
        }
        for (int j = 1; j < n; j++)
            for (int i = n - 1; i >= j; i--) d[i] = (d[i] - d[i - 1]) / (z[i] - z[i - j]);
        for (int i = n - 1; i >= 0; i--) {
            for (int j = n - 1; j > 0; j--) p[j] = p[j - 1] - z[i] * p[j];
            p[0] = d[i] - z[i] * p[0];
        }
        put(k, centre, p);
    }

    void put(int k, float at, const double* polynomial) {
        const int place = (first + k) % pieces;
        centre[place] = at;
        for (int j = 0; j <= degree; j++) coefficient[j][place] = float(polynomial[j]);
    }
};

inline const TanhTable tanh_table;

template <>
struct Tanh<float> {
    static constexpr int n = TanhTable::degree + 1;
    __m512 centre[2], c[n][2];

    HOTLAP_INLINE Tanh() {
        for (int half = 0; half < 2; half++) {
            centre[half] = _mm512_load_ps(tanh_table.centre + 16 * half);
#pragma GCC unroll 8
            for (int j = 0; j < n; j++) c[j][half] = _mm512_load_ps(tanh_table.coefficient[j] + 16 * half);
        }
    }

    HOTLAP_INLINE Vec<float> operator()(Vec<float> x) const {
        // Beyond 9.02 the nearest number to tanh is 1. min gives its second argument for NaN.
        const __m512 a = _mm512_min_ps(_mm512_set1_ps(9.02f), (__m512)absolute<float>(x));
        // The permutations look at the lowest five bits only; the pieces lie where these point to.
        const __m512i piece = _mm512_srli_epi32(_mm512_castps_si512(_mm512_max_ps(a, _mm512_set1_ps(0.0625f))), TanhTable::shift);
        const __m512 z = _mm512_sub_ps(a, _mm512_permutex2var_ps(centre[0], piece, centre[1]));
        __m512 p = _mm512_permutex2var_ps(c[n - 1][0], piece, c[n - 1][1]);
#pragma GCC unroll 8
        for (int j = n - 2; j >= 0; j--) p = _mm512_fmadd_ps(p, z, _mm512_permutex2var_ps(c[j][0], piece, c[j][1]));
        // p | (x & sign): the table gives nothing below 0.
        return (Vec<float>)_mm512_castsi512_ps(_mm512_ternarylogic_epi32(_mm512_castps_si512(p), _mm512_castps_si512((__m512)x),
                                                                          _mm512_set1_epi32(int32_t(0x80000000)), 0xf8));
    }
};

#endif

}  // namespace hotlap
