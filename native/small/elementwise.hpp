// Functions of one or two values, element by element, forward and backward.
#pragma once

#include "program.hpp"
#include "tanh.hpp"
#include "vector_math.hpp"

namespace hotlap {

template <class T>
HOTLAP_INLINE Vec<T> whole_power(Vec<T> x, int64_t exponent) {
    Vec<T> y = splat<T>(1);
    for (int64_t k = exponent < 0 ? -exponent : exponent; k; k >>= 1, x *= x)
        if (k & 1) y *= x;
    return exponent < 0 ? splat<T>(1) / y : y;
}

// Exponents that multiplication serves exactly enough; the others go to the C library.
inline bool is_whole(double exponent) { return exponent == std::floor(exponent) && std::fabs(exponent) <= 8; }

template <class T>
HOTLAP_INLINE Vec<T> raise(Vec<T> x, double exponent) {
    if (is_whole(exponent)) return whole_power<T>(x, int64_t(exponent));
    return lane_by_lane<T>(x, [=](T v) { return std::pow(v, T(exponent)); });
}

// use(value, slope) of a function of one value: value(x), and slope(x, value(x), d) = d * dvalue/dx.
template <class T, class Use>
HOTLAP_INLINE void with_unary(const Node& node, Use use) {
    using V = Vec<T>;
    const V f0 = splat<T>(T(node.f0)), f1 = splat<T>(T(node.f1)), zero{}, one = splat<T>(1);
    const auto sine = [](V v) { return lane_by_lane<T>(v, [](T s) { return std::sin(s); }); };
    const auto cosine = [](V v) { return lane_by_lane<T>(v, [](T s) { return std::cos(s); }); };
    switch (node.op) {
        case Op::tanh: return use([f = Tanh<T>()](V v) { return f(v); }, [=](V, V t, V d) { return d * (one - t * t); });
        case Op::relu:  // the comparisons are written so that NaN stays NaN
            return use([=](V v) { return select<T>(v <= zero, zero, v); }, [=](V, V r, V d) { return select<T>(r <= zero, zero, d); });
        case Op::leaky_relu:
            return use([=](V v) { return select<T>(v > zero, v, v * f0); },
                       [=](V v, V, V d) { return select<T>(v > zero, d, d * f0); });
        case Op::sigmoid: return use([](V v) { return logistic<T>(v); }, [=](V, V s, V d) { return d * (one - s) * s; });
        case Op::silu:
            return use([](V v) { return v * logistic<T>(v); },
                       [=](V v, V, V d) {
                           const V s = logistic<T>(v);
                           return d * s * (one + v * (one - s));
                       });
        case Op::softplus:  // beta f0, threshold f1
            return use([=](V v) { return select<T>(v * f0 > f1, v, softplus<T>(v * f0) / f0); },
                       [=](V v, V, V d) { return select<T>(v * f0 > f1, d, d * logistic<T>(v * f0)); });
        case Op::sin: return use(sine, [=](V v, V, V d) { return d * cosine(v); });
        case Op::cos: return use(cosine, [=](V v, V, V d) { return -d * sine(v); });
        case Op::exp: return use([](V v) { return exponential<T>(v); }, [](V, V e, V d) { return d * e; });
        case Op::log: return use([](V v) { return logarithm<T>(v); }, [](V v, V, V d) { return d / v; });
        case Op::sqrt: return use([](V v) { return square_root<T>(v); }, [](V, V r, V d) { return d / (r + r); });
        case Op::abs:  // torch: the sign of x, 0 at 0
            return use([](V v) { return absolute<T>(v); },
                       [=](V v, V, V d) { return select<T>(v == zero, zero, select<T>(v > zero, d, -d)); });
        case Op::affine: return use([=](V v) { return v * f0 + f1; }, [=](V, V, V d) { return d * f0; });
        case Op::power:
            return use([&](V v) { return raise<T>(v, node.f0); },
                       [&](V v, V, V d) { return node.f0 == 0 ? zero : d * f0 * raise<T>(v, node.f0 - 1); });
        default: __builtin_unreachable();
    }
}

// y = op(x) over n elements, a multiple of W; x and y may be the same.
template <class T>
void unary_forward(const Node& node, const T* x, T* y, int64_t n) {
    with_unary<T>(node, [=](auto value, auto) {
        for (int64_t i = 0; i < n; i += Simd<T>::W) store<T>(y + i, value(load<T>(x + i)));
    });
}

// gx (+)= g * dop/dx, given x and y = op(x).
template <class T>
void unary_backward(const Node& node, const T* x, const T* y, const T* g, T* gx, int64_t n, bool add) {
    with_unary<T>(node, [=](auto, auto slope) {
        for (int64_t i = 0; i < n; i += Simd<T>::W) {
            const Vec<T> d = slope(load<T>(x + i), load<T>(y + i), load<T>(g + i));
            store<T>(gx + i, add ? load<T>(gx + i) + d : d);
        }
    });
}

// An operand as seen from (rows, cols): its row and its column may stand for all.
template <class T>
struct Operand {
    const T* data;
    int64_t row_step;  // 0 where one row stands for all
    bool one_column;

    HOTLAP_INLINE Vec<T> at(int64_t r, int64_t c) const {
        const T* row = data + r * row_step;
        return one_column ? splat<T>(row[0]) : load<T>(row + c);
    }
};

// use(value, slope of u, slope of v) of arithmetic with u and v.
template <class T, class Use>
HOTLAP_INLINE void with_binary(Op op, Use use) {
    using V = Vec<T>;
    const auto same = [](V, V, V d) { return d; };
    switch (op) {
        case Op::add: return use([](V u, V v) { return u + v; }, same, same);
        case Op::sub: return use([](V u, V v) { return u - v; }, same, [](V, V, V d) { return -d; });
        case Op::mul:
            return use([](V u, V v) { return u * v; }, [](V, V v, V d) { return d * v; }, [](V u, V, V d) { return d * u; });
        case Op::div:
            return use([](V u, V v) { return u / v; }, [](V, V v, V d) { return d / v; },
                       [](V u, V v, V d) { return -d * (u / v) / v; });
        default: __builtin_unreachable();
    }
}

template <class T>
void binary_forward(Op op, const Operand<T>& a, const Operand<T>& b, T* y, int64_t rows, int64_t ld) {
    with_binary<T>(op, [=](auto value, auto, auto) {
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < ld; c += Simd<T>::W) store<T>(y + r * ld + c, value(a.at(r, c), b.at(r, c)));
    });
}

// Where the gradient of an operand goes; sums over what was broadcast.
template <class T>
struct Gradient {
    T* data;
    int64_t row_step;
    bool one_column;
    bool accumulate;
};

template <class T, class F>
void zip_gradient(const Operand<T>& a, const Operand<T>& b, const T* g, const Gradient<T>& out, int64_t rows,
                  int64_t cols, int64_t ld, F f) {
    constexpr int W = Simd<T>::W;
    for (int64_t r = 0; r < rows; r++) {
        const bool add = out.accumulate || (out.row_step == 0 && r > 0);
        T* o = out.data + r * out.row_step;
        Vec<T> sum{};
        for (int64_t c = 0; c < cols; c += W) {
            const int last = int(cols - c < W ? cols - c : W);
            Vec<T> d = f(a.at(r, c), b.at(r, c), load<T>(g + r * ld + c));
            if (out.one_column)
                sum += from_bits<T>(bits<T>(d) & first_lanes<T>(last));
            else
                store<T>(o + c, add ? load<T>(o + c) + d : d);
        }
        if (out.one_column) o[0] = add ? o[0] + sum_of<T>(sum) : sum_of<T>(sum);
    }
}

// The gradients of both operands of an operation on (rows, cols), where there is room for them.
template <class T>
void binary_backward(Op op, const Operand<T>& a, const Operand<T>& b, const T* g, const Gradient<T>& to_a, const Gradient<T>& to_b,
                     int64_t rows, int64_t cols, int64_t ld) {
    with_binary<T>(op, [&](auto, auto slope_a, auto slope_b) {
        if (to_a.data) zip_gradient(a, b, g, to_a, rows, cols, ld, slope_a);
        if (to_b.data) zip_gradient(a, b, g, to_b, rows, cols, ld, slope_b);
    });
}

}  // namespace hotlap
