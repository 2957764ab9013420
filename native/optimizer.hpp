// torch's optimizers on flat memory: SGD, Adam, AdamW, RMSprop. Formulas and their order are those of torch.optim.
#pragma once

#include <cmath>
#include <cstdint>

#include "vector_math.hpp"

namespace hotlap {

enum class Method : int { sgd = 0, adam = 1, adamw = 2, rmsprop = 3 };

// The settings of one parameter group.
struct Group {
    double lr, weight_decay;
    double momentum, dampening;    // sgd, rmsprop
    double beta1, beta2, eps;      // adam, adamw; rmsprop has its alpha in beta2
    bool nesterov, maximize, centered;
};

// One parameter's memory; the states are the user's own tensors.
template <class T>
struct Slot {
    int parameter, group;
    int64_t numel;
    T* states[3];    // sgd: momentum_buffer. adam(w): exp_avg, exp_avg_sq. rmsprop: square_avg, momentum_buffer, grad_avg
    float* step;     // torch counts in a float32 tensor; null for sgd
    bool fresh;      // sgd: no momentum yet, the first gradient becomes it
};

// What is the same for all elements of a parameter in one update.
template <class T>
struct Rate {
    Method method;
    Group group;
    double step_size, root_correction;
    bool fresh;
};

template <class T>
Rate<T> rate_of(Method method, const Group& group, Slot<T>& slot) {
    Rate<T> r{method, group, group.lr, 1, slot.fresh};
    slot.fresh = false;
    if (slot.step) {
        *slot.step += 1;
        if (method != Method::rmsprop) {
            const double n = *slot.step;
            r.step_size = group.lr / (1 - std::pow(group.beta1, n));
            r.root_correction = std::sqrt(1 - std::pow(group.beta2, n));
        }
    }
    return r;
}

// a / (sqrt(v) * scale + eps). On AVX-512 float with the reciprocal estimates and one Newton step each, within 2 ulp
// (the divider and the root would take three times as long); where eps is too small to hide a tiny v, exactly.
template <class T, bool Estimate>
HOTLAP_INLINE Vec<T> over_root(Vec<T> a, Vec<T> v, Vec<T> scale, Vec<T> eps) {
#if defined(HOTLAP_AVX512)
    if constexpr (Estimate && sizeof(T) == 4) {
        // Below the smallest normal number the root is 1e-19, nothing beside eps. Infinity has no estimate.
        const Vec<T> x = at_most<T>(at_least<T>(v, splat<T>(1.2e-38f)), splat<T>(3.4028235e38f));
        a = select<T>(v == splat<T>(T(INFINITY)), Vec<T>{}, a);
        const Vec<T> e = (Vec<T>)_mm512_rsqrt14_ps((__m512)x);
        const Vec<T> root = x * e;
        const Vec<T> better = fma(splat<T>(0.5f) * e, (Vec<T>)_mm512_fnmadd_ps((__m512)root, (__m512)root, (__m512)x), root);
        return divide_normal<T>(a, fma(better, scale, eps));
    }
#endif
    return a / (square_root(v) * scale + eps);
}

template <class T, bool Estimate>
HOTLAP_INLINE void update_vector(const Rate<T>& r, T* p, Vec<T> g, T* const (&s)[3], int64_t i, int n, bool full) {
    const auto get = [&](const T* m) { return full ? load<T>(m + i) : load_n<T>(m + i, n); };
    const auto put = [&](T* m, Vec<T> v) { full ? store<T>(m + i, v) : store_n<T>(m + i, v, n); };
    const Group& o = r.group;
    const auto all = [](double x) { return splat<T>(T(x)); };
    Vec<T> w = get(p);
    if (o.maximize) g = -g;
    if (r.method == Method::adamw)
        w *= all(1 - o.lr * o.weight_decay);
    else if (o.weight_decay != 0)
        g = fma(all(o.weight_decay), w, g);
    if (r.method == Method::sgd) {
        if (s[0]) {
            const Vec<T> m = r.fresh ? g : fma(get(s[0]), all(o.momentum), all(1 - o.dampening) * g);
            put(s[0], m);
            g = o.nesterov ? fma(all(o.momentum), m, g) : m;
        }
        put(p, fma(all(-o.lr), g, w));
    } else if (r.method == Method::rmsprop) {
        const Vec<T> q = fma(all(1 - o.beta2) * g, g, all(o.beta2) * get(s[0]));
        put(s[0], q);
        Vec<T> spread = q;
        if (s[2]) {
            const Vec<T> mean = fma(all(1 - o.beta2), g - get(s[2]), get(s[2]));
            put(s[2], mean);
            spread = q - mean * mean;
        }
        Vec<T> u = over_root<T, Estimate>(g, spread, all(1), all(o.eps));
        if (s[1]) {
            u = fma(all(o.momentum), get(s[1]), u);
            put(s[1], u);
        }
        put(p, fma(all(-o.lr), u, w));
    } else {
        const Vec<T> m = fma(all(1 - o.beta1), g - get(s[0]), get(s[0]));
        const Vec<T> v = fma(all(1 - o.beta2) * g, g, all(o.beta2) * get(s[1]));
        put(s[0], m);
        put(s[1], v);
        const Vec<T> u = over_root<T, Estimate>(m, v, all(1 / r.root_correction), all(o.eps));
        put(p, fma(all(-r.step_size), u, w));
    }
}

template <class T, bool Estimate>
HOTLAP_INLINE void update_span(const Rate<T>& r, T* p, const T* g, T* const (&states)[3], T scale, int64_t n) {
    constexpr int W = Simd<T>::W;
    T* const s[3] = {states[0], states[1], states[2]};
    const Vec<T> k = splat<T>(scale);
    int64_t i = 0;
    for (; i + W <= n; i += W) update_vector<T, Estimate>(r, p, load<T>(g + i) * k, s, i, W, true);
    if (i < n) update_vector<T, Estimate>(r, p, load_n<T>(g + i, int(n - i)) * k, s, i, int(n - i), false);
}

// n elements from `offset` on of one parameter, given their gradient times `scale`.
template <class T>
void update(const Rate<T>& rate, const Slot<T>& slot, T* p, const T* g, T scale, int64_t offset, int64_t n) {
    T* states[3];
    for (int k = 0; k < 3; k++) states[k] = slot.states[k] ? slot.states[k] + offset : nullptr;
    // A copy for each method, so that its branches are settled outside the loop.
    Rate<T> r = rate;
    const bool estimate = rate.group.eps >= 1e-15;
    const auto run = [&](Method method) {
        r.method = method;
        if (estimate)
            update_span<T, true>(r, p + offset, g, states, scale, n);
        else
            update_span<T, false>(r, p + offset, g, states, scale, n);
    };
    switch (rate.method) {
        case Method::sgd: return run(Method::sgd);
        case Method::adam: return run(Method::adam);
        case Method::adamw: return run(Method::adamw);
        case Method::rmsprop: return run(Method::rmsprop);
    }
}

}  // namespace hotlap
