// torch's optimizers on flat memory: SGD, Adam, AdamW. Formulas and their order are those of torch.optim.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "../threads.hpp"
#include "vector_math.hpp"

namespace hotlap {

enum class Method : int { sgd = 0, adam = 1 };  // AdamW is an Adam whose weight decay is decoupled

// The settings of one parameter group.
struct Group {
    double lr, weight_decay;
    double momentum;           // sgd
    double beta1, beta2, eps;  // adam
    bool nesterov, maximize;
    bool decoupled;            // adam
};

// eps from here on hides what is denormal, and what estimates of 14 bits make of a root.
constexpr double HIDING_EPS = 1e-15;

// While this lives, numbers below the smallest normal one count as 0 in this thread (on x86; elsewhere nothing changes). The
// averages of a weight whose gradient stays 0 end there for good (0.9 of 4 denormal units is 4 again), and each vector that
// has one takes more than a hundred cycles: a network with dead units was updated 20 times as slowly. A parameter does not
// notice: 1e-38 of it is added or not.
class NoDenormals {
  public:
    NoDenormals(Method method, const Group& group) {
#if defined(__x86_64__)
        was_ = __builtin_ia32_stmxcsr();
        if (method == Method::sgd || group.eps >= HIDING_EPS) __builtin_ia32_ldmxcsr(was_ | 0x8040);  // flush to zero, denormals are zeros
#else
        (void)method, (void)group;
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

// One parameter's memory: all of it are the user's own tensors.
template <class T>
struct Slot {
    int parameter, group;
    int64_t numel;
    T* data;
    T* states[2];  // sgd: momentum_buffer. adam: exp_avg, exp_avg_sq
    float* step;   // torch counts in a float32 tensor; null for sgd
};

// What is the same for all elements of a parameter in one update.
template <class T>
struct Rate {
    Method method;
    Group group;
    double step_size, root_correction;
};

// Counts the update. `last` is the rate of the slot before: parameters of one group mostly share their count, and the
// two powers take as long as the update of a small layer.
template <class T>
Rate<T> rate_of(Method method, const Group& group, const Slot<T>& slot, const Slot<T>* previous, const Rate<T>* last) {
    Rate<T> r{method, group, group.lr, 1};
    if (!slot.step) return r;
    *slot.step += 1;
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
template <class T, Method method, bool Estimate>
void update_span(const Rate<T>& rate, T* p, const T* gradient, T* s0, T* s1, int64_t count) {
    constexpr int W = Simd<T>::W;
    using V = Vec<T>;
    const Group o = rate.group;
    const auto all = [](double x) { return splat<T>(T(x)); };
    const bool decays = o.weight_decay != 0 && !o.decoupled;
    const bool nesterov = o.nesterov;
    const V sign = all(o.maximize ? -1 : 1), decay = all(o.weight_decay), lr = all(-o.lr);
    const V shrink = all(o.decoupled ? 1 - o.lr * o.weight_decay : 1), momentum = all(o.momentum);
    const V one_less_beta1 = all(1 - o.beta1), beta2 = all(o.beta2), one_less_beta2 = all(1 - o.beta2);
    const V eps = all(o.eps), step = all(-rate.step_size), correction = all(1 / rate.root_correction);
    const auto block = [=](int64_t i, auto get, auto put) {
        V w = get(p + i), g = get(gradient + i) * sign;
        if (decays) g = fma(decay, w, g);
        if constexpr (method == Method::sgd) {
            if (s0) {
                const V m = fma(get(s0 + i), momentum, g);
                put(s0 + i, m);
                g = nesterov ? fma(momentum, m, g) : m;
            }
            put(p + i, fma(lr, g, w));
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

// What an update of one number takes, in multiplications of a product, where its four arrays come from memory.
constexpr int64_t UPDATE_WORK = 20;

// One parameter, given its gradient.
template <class T>
void update(const Rate<T>& rate, const Slot<T>& slot, const T* g) {
    const auto run = [&](auto span) {
        in_parts(UPDATE_WORK * slot.numel, slot.numel, 1024, [&](int64_t first, int64_t last) {
            const NoDenormals here(rate.method, rate.group);
            const auto state = [&](int i) { return slot.states[i] ? slot.states[i] + first : nullptr; };
            span(rate, slot.data + first, g + first, state(0), state(1), last - first);
        });
    };
    if (rate.method == Method::sgd) return run(update_span<T, Method::sgd, false>);
    if constexpr (can_estimate<T>)
        if (rate.group.eps >= HIDING_EPS) return run(update_span<T, Method::adam, true>);
    run(update_span<T, Method::adam, false>);
}

// An optimizer of torch's, with its settings as they are now and its own states.
template <class T>
struct Optimizer {
    Method method;
    std::vector<Group> groups;
    std::vector<Slot<T>> slots;

    // Updates all parameters; the gradient of slot i lies at gradient(i).
    template <class At>
    void step(At gradient) {
        Rate<T> rate{};
        for (size_t i = 0; i < slots.size(); i++) {
            rate = rate_of<T>(method, groups[slots[i].group], slots[i], i ? &slots[i - 1] : nullptr, &rate);
            update<T>(rate, slots[i], gradient(i));
        }
    }
};

}  // namespace hotlap
