// Losses of a batch and their gradients with respect to the prediction.
#pragma once

#include <algorithm>
#include <limits>

#include "vector_math.hpp"

namespace hotlap {

enum class Loss : int { mse = 0, l1 = 1, cross_entropy = 2, bce_with_logits = 3 };

struct Criterion {
    Loss loss;
    bool mean;             // of all elements (of all rows that count, for cross_entropy), else their sum
    int64_t ignore_index;  // cross_entropy
};

template <class T>
struct Prediction {
    const T* value;
    T* gradient;
    int64_t rows, cols, ld;
};

// Sum over elements of value(p, t); `slope` is its derivative by p.
template <class T, class F, class G>
double elementwise_loss(const Prediction<T>& p, const T* target, T scale, F value, G slope) {
    constexpr int W = Simd<T>::W;
    double total = 0;
    for (int64_t r = 0; r < p.rows; r++) {
        Vec<T> sum{};
        for (int64_t c = 0; c < p.cols; c += W) {
            const int last = int(std::min<int64_t>(W, p.cols - c));
            const Vec<T> x = load_n<T>(p.value + r * p.ld + c, last), t = load_n<T>(target + r * p.cols + c, last);
            sum += from_bits<T>(bits<T>(value(x, t)) & first_lanes<T>(last));
            store_n<T>(p.gradient + r * p.ld + c, slope(x, t) * splat<T>(scale), last);
        }
        total += double(sum_of<T>(sum));
    }
    return total;
}

template <class T>
double cross_entropy(const Criterion& criterion, const Prediction<T>& p, const int64_t* labels, T scale) {
    constexpr int W = Simd<T>::W;
    double total = 0;
    const Vec<T> lowest = splat<T>(-std::numeric_limits<T>::infinity());
    for (int64_t r = 0; r < p.rows; r++) {
        const T* x = p.value + r * p.ld;
        T* g = p.gradient + r * p.ld;
        if (labels[r] == criterion.ignore_index) {
            std::fill(g, g + p.ld, T(0));
            continue;
        }
        Vec<T> high = lowest;
        for (int64_t c = 0; c < p.cols; c += W) {
            const int last = int(std::min<int64_t>(W, p.cols - c));
            const Vec<T> v = select<T>(first_lanes<T>(last), load_n<T>(x + c, last), lowest);
            high = select<T>(v > high, v, high);
        }
        const T top = largest_of<T>(high);
        Vec<T> s{};
        for (int64_t c = 0; c < p.cols; c += W) {
            const int last = int(std::min<int64_t>(W, p.cols - c));
            const Vec<T> e = exponential<T>(load_n<T>(x + c, last) - splat<T>(top));
            s += from_bits<T>(bits<T>(e) & first_lanes<T>(last));
            store_n<T>(g + c, e, last);
        }
        const T sum = sum_of<T>(s);
        total += std::log(double(sum)) + double(top - x[labels[r]]);
        const Vec<T> k = splat<T>(scale / sum);
        for (int64_t c = 0; c < p.cols; c += W) {
            const int last = int(std::min<int64_t>(W, p.cols - c));
            store_n<T>(g + c, load_n<T>(g + c, last) * k, last);
        }
        g[labels[r]] -= scale;
    }
    return total;
}

// The number that divides the sum where the mean is wanted.
template <class T>
int64_t count_of(const Criterion& c, const Prediction<T>& p, const void* target) {
    if (c.loss != Loss::cross_entropy) return p.rows * p.cols;
    const auto* labels = static_cast<const int64_t*>(target);
    return p.rows - std::count(labels, labels + p.rows, c.ignore_index);
}

// Whether all labels of a cross entropy name a column.
inline bool labels_fit(const Criterion& c, const int64_t* labels, int64_t rows, int64_t cols) {
    return std::all_of(labels, labels + rows,
                       [&](int64_t label) { return label == c.ignore_index || (label >= 0 && label < cols); });
}

template <class T>
double loss_and_gradient(const Criterion& c, const Prediction<T>& p, const void* target) {
    using V = Vec<T>;
    const double count = double(count_of(c, p, target));
    const T scale = c.mean ? T(1 / count) : T(1);
    const auto* t = static_cast<const T*>(target);
    const V zero{}, one = splat<T>(1);
    const auto sign = [=](V d) { return select<T>(d == zero, zero, copy_sign<T>(one, d) + (d - d)); };
    double total = 0;
    switch (c.loss) {
        case Loss::mse:
            total = elementwise_loss<T>(p, t, scale, [](V a, V b) { return (a - b) * (a - b); },
                                        [](V a, V b) { return (a - b) + (a - b); });
            break;
        case Loss::l1:
            total = elementwise_loss<T>(p, t, scale, [](V a, V b) { return absolute<T>(a - b); },
                                        [=](V a, V b) { return sign(a - b); });
            break;
        case Loss::cross_entropy:
            total = cross_entropy<T>(c, p, static_cast<const int64_t*>(target), scale);
            break;
        case Loss::bce_with_logits:  // (1 - t) x + log(1 + e^-x): where both are small, the loss is told as such
            total = elementwise_loss<T>(p, t, scale, [=](V a, V b) { return (one - b) * a + softplus<T>(-a); },
                                        [](V a, V b) { return logistic<T>(a) - b; });
            break;
    }
    return c.mean ? total / count : total;
}

}  // namespace hotlap
