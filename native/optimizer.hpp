// torch's optimizers on flat memory: SGD, Adam, AdamW, RMSprop. Formulas and their order are those of torch.optim.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "vector_math.hpp"

namespace hotlap {

enum class Method : int { sgd = 0, adam = 1, adamw = 2, rmsprop = 3 };

// The settings of one parameter group.
struct Group {
    double lr, weight_decay;
    double momentum, dampening;    // sgd, rmsprop
    double beta1, beta2, eps;      // adam, adamw; rmsprop has its alpha in beta2
    bool nesterov, maximize;
};

// eps from here on hides what is denormal, and what estimates of 14 bits make of a root.
constexpr double HIDING_EPS = 1e-15;

// While this lives, numbers below the smallest normal one count as 0 in this thread (on x86; elsewhere nothing changes). The
// averages of a weight whose gradient stays 0 end there for good (0.9 of 4 denormal units is 4 again), and each vector that
// has one takes more than a hundred cycles: a network with dead units was updated 20 times as slowly. A parameter does not
// notice: 1e-38 of it is added or not.
class NoDenormals {
  public:
    NoDenormals(Method method, const std::vector<Group>& groups) {
#if defined(__x86_64__)
        was_ = __builtin_ia32_stmxcsr();
        if (method == Method::sgd || std::all_of(groups.begin(), groups.end(), [](const Group& g) { return g.eps >= HIDING_EPS; }))
            __builtin_ia32_ldmxcsr(was_ | 0x8040);  // flush to zero, denormals are zeros
#else
        (void)method, (void)groups;
#endif
    }
    NoDenormals(const NoDenormals&) = delete;
    ~NoDenormals() {
#if defined(__x86_64__)
        __builtin_ia32_ldmxcsr(was_);
#endif
    }

  private:
    unsigned was_ = 0;
};

// One parameter's memory; the states are the user's own tensors.
template <class T>
struct Slot {
    int parameter, group;
    int64_t numel;
    T* states[2];    // sgd: momentum_buffer. adam(w): exp_avg, exp_avg_sq. rmsprop: square_avg, momentum_buffer
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

// Counts the update. `last` is the rate of the slot before: parameters of one group mostly share their count, and the
// two powers take as long as the update of a small layer.
template <class T>
Rate<T> rate_of(Method method, const Group& group, Slot<T>& slot, const Slot<T>* previous, const Rate<T>* last) {
    Rate<T> r{method, group, group.lr, 1, slot.fresh};
    slot.fresh = false;
    if (!slot.step) return r;
    *slot.step += 1;
    if (method == Method::rmsprop) return r;
    if (previous && previous->group == slot.group && *previous->step == *slot.step) {
        r.step_size = last->step_size;
        r.root_correction = last->root_correction;
        return r;
    }
    const double n = *slot.step;
    r.step_size = group.lr / (1 - std::pow(group.beta1, n));
    r.root_correction = std::sqrt(1 - std::pow(group.beta2, n));
    return r;
}

// a / (sqrt(v) * scale + eps). On AVX-512 float with the reciprocal estimates and one Newton step each, within 3 ulp
// (the divider and the root would take three times as long); where eps is too small to hide a tiny v, exactly.
#if defined(HOTLAP_AVX512)
template <class T>
constexpr bool can_estimate = sizeof(T) == 4;
#else
template <class T>
constexpr bool can_estimate = false;
#endif

template <class T, bool Estimate>
HOTLAP_INLINE Vec<T> over_root(Vec<T> a, Vec<T> v, Vec<T> scale, Vec<T> eps) {
#if defined(HOTLAP_AVX512)
    if constexpr (Estimate) {
        // Below the smallest normal number the root is 1e-19, nothing beside eps. Infinity has no estimate.
        const Vec<T> x = at_most<T>(at_least<T>(v, splat<T>(1.2e-38f)), splat<T>(3.4028235e38f));
        a = select<T>(v == splat<T>(T(INFINITY)), Vec<T>{}, a);
        // What is missing is taken relative to 1: as x - root^2 it would be denormal where v is 0, which costs 150 cycles.
        const Vec<T> e = (Vec<T>)_mm512_rsqrt14_ps((__m512)x);
        const Vec<T> root = x * e, missing = (Vec<T>)_mm512_fnmadd_ps((__m512)root, (__m512)e, _mm512_set1_ps(1));
        const Vec<T> better = fma(splat<T>(0.5f) * root, missing, root);
        const Vec<T> d = fma(better, scale, eps), r = (Vec<T>)_mm512_rcp14_ps((__m512)d);
        return a * fma(r, splat<T>(1) - d * r, r);
    }
#endif
    return a / (square_root<T>(v) * scale + eps);
}

// All that is the same for every element is computed here, before the loop, into values of its own: a store through T*
// could change whatever is read through a reference.
// Adam's is that of AdamW as well.
template <class T, Method method, bool Estimate>
void update_span(const Rate<T>& rate, T* p, const T* gradient, T* s0, T* s1, T factor, int64_t count) {
    constexpr int W = Simd<T>::W;
    using V = Vec<T>;
    const Group o = rate.group;
    const auto all = [](double x) { return splat<T>(T(x)); };
    const bool decoupled = rate.method == Method::adamw, decays = o.weight_decay != 0 && !decoupled;
    const bool nesterov = o.nesterov, fresh = rate.fresh;
    const V scale = all(o.maximize ? -double(factor) : double(factor)), decay = all(o.weight_decay), lr = all(-o.lr);
    const V shrink = all(decoupled ? 1 - o.lr * o.weight_decay : 1), momentum = all(o.momentum), undamped = all(1 - o.dampening);
    const V one_less_beta1 = all(1 - o.beta1), beta2 = all(o.beta2), one_less_beta2 = all(1 - o.beta2);
    const V eps = all(o.eps), step = all(-rate.step_size), correction = all(1 / rate.root_correction), one = all(1);
    const auto block = [=](int64_t i, auto get, auto put) {
        V w = get(p + i), g = get(gradient + i) * scale;
        if (decays) g = fma(decay, w, g);
        if constexpr (method == Method::sgd) {
            if (s0) {
                const V m = fresh ? g : fma(get(s0 + i), momentum, undamped * g);
                put(s0 + i, m);
                g = nesterov ? fma(momentum, m, g) : m;
            }
            put(p + i, fma(lr, g, w));
        } else if constexpr (method == Method::rmsprop) {
            const V q = fma(one_less_beta2 * g, g, beta2 * get(s0 + i));
            put(s0 + i, q);
            V u = over_root<T, Estimate>(g, q, one, eps);
            if (s1) {
                u = fma(momentum, get(s1 + i), u);
                put(s1 + i, u);
            }
            put(p + i, fma(lr, u, w));
        } else {
            const V old = get(s0 + i), m = fma(one_less_beta1, g - old, old);
            const V v = fma(one_less_beta2 * g, g, beta2 * get(s1 + i));
            put(s0 + i, m);
            put(s1 + i, v);
            put(p + i, fma(step, over_root<T, Estimate>(m, v, correction, eps), w * shrink));
        }
    };
    int64_t i = 0;
    for (; i + W <= count; i += W)
        block(i, [](const T* m) { return load<T>(m); }, [](T* m, V v) { store<T>(m, v); });
    if (i < count) {
        const int n = int(count - i);
        block(i, [n](const T* m) { return load_n<T>(m, n); }, [n](T* m, V v) { store_n<T>(m, v, n); });
    }
}

// One parameter, given its gradient, which is multiplied by `scale`.
template <class T>
void update(const Rate<T>& rate, const Slot<T>& slot, T* p, const T* g, T scale) {
    const auto run = [&](auto span) { span(rate, p, g, slot.states[0], slot.states[1], scale, slot.numel); };
    const auto with_root = [&]<Method method>() {
        if constexpr (can_estimate<T>)
            if (rate.group.eps >= HIDING_EPS) return run(update_span<T, method, true>);
        run(update_span<T, method, false>);
    };
    switch (rate.method) {
        case Method::sgd: return run(update_span<T, Method::sgd, false>);
        case Method::rmsprop: return with_root.template operator()<Method::rmsprop>();
        default: return with_root.template operator()<Method::adam>();
    }
}

// All parameters of an optimizer: the i-th slot's lies at(i).first, its gradient at(i).second.
template <class T, class At>
void update_all(Method method, const std::vector<Group>& groups, std::vector<Slot<T>>& slots, T scale, At at) {
    const NoDenormals here(method, groups);
    Rate<T> rate{};
    for (size_t i = 0; i < slots.size(); i++) {
        rate = rate_of<T>(method, groups[slots[i].group], slots[i], i ? &slots[i - 1] : nullptr, &rate);
        const auto [p, g] = at(i);
        update<T>(rate, slots[i], p, g, scale);
    }
}

}  // namespace hotlap
