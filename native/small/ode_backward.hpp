// The way back through the steps of a solve: the rest of Ode. To be had through ode.hpp.
#pragma once

#include "ode.hpp"

namespace hotlap {

template <class T>
inline void Ode<T>::backward_steps(const T* gradient) {
    T *y = now_.data(), *carried = carried_.data();
    std::memset(y, 0, sizeof(T) * size_);
    std::memset(carried, 0, sizeof(T) * size_);
    for (size_t n = steps_.size(); n-- > 0;) backward_step(steps_[n], gradient);
    if (!steps_.empty()) {
        const int64_t first = steps_[0].first;
        copy_vectors<T>(carried, slope_gradient(first), size_);
        exec_.backward(first);
        add(argument_gradient(first), y);
    }
}

// now_ holds the gradient of y at the end of the step and becomes that at its beginning. That of the last stage's slope
// comes in in carried_, and that of the first one's goes out there: it is the last stage of the step before. Each stage's gradient is summed
// up once, in a register, when everything that it is made of is there.
template <class T>
inline void Ode<T>::backward_step(const Taken& s, const T* gradient) {
    const int last = tableau_.stages - 1;
    const bool outputs = s.end > s.output;
    T *y = now_.data(), *carried = carried_.data();
    if (outputs) read_outputs(s, gradient);
    if (exec_.in_one_pass()) return backward_step_in_registers(s, outputs);
    if (s.first + last < used_) {
        gather(s, last, outputs, slope_gradient(s.first + last));
        exec_.backward(s.first + last);
        add(argument_gradient(s.first + last), y);
    }
    for (int i = last - 1; i > 0; i--) {
        gather(s, i, outputs, slope_gradient(s.first + i));
        exec_.backward(s.first + i);
    }
    gather(s, 0, outputs, carried);
    for (int64_t k = 0; k < size_; k += W) {
        Vec<T> v = load<T>(y + k);
        for (int i = 1; i < last; i++) v += load<T>(argument_gradient(s.first + i) + k);
        if (outputs) v += load<T>(power_gradients_.data() + k);
        store<T>(y + k, v);
    }
}

// The same for a state of one vector: what an evaluation gives is still in a register when the one before it needs it.
// Such a field does not read the time.
template <class T>
inline void Ode<T>::backward_step_in_registers(const Taken& s, bool outputs) {
    const int stages = tableau_.stages, last = stages - 1, top = last - 1;
    const T *q = power_gradients_.data(), *a = tableau_.a.data();
    const Vec<T> h = size_of(s);
    Vec<T> y = load<T>(now_.data()), newest{};
    const auto pulled = [&](int i, Vec<T> g) {
        store<T>(slope_gradient(s.first + i), g);
        return exec_.one_backward(s.first + i, g);
    };
    if (s.first + last < used_) {
        const Vec<T> g = gathered(s, last, outputs, Vec<T>{}, 0, last, last);
        y += pulled(last, fma(h, g, load<T>(carried_.data())));
    }
    for (int i = top; i >= 0; i--) {
        Vec<T> g = gathered(s, i, outputs, splat<T>(a[last * stages + i]) * y, 0, i + 1, top);
        if (i < top) g = fma(splat<T>(a[(i + 1) * stages + i]), newest, g);
        if (i > 0)
            newest = pulled(i, h * g);
        else
            store<T>(carried_.data(), h * g);
    }
    for (int i = 1; i <= top; i++) y += load<T>(argument_gradient(s.first + i));
    store<T>(now_.data(), outputs ? y + load<T>(q) : y);
}

// start + what the outputs give to stage i at element `at`, and what the stages after `from`, up to `top`, give to it: the last
// of these was found first. All of it is to be multiplied by h.
template <class T>
inline Vec<T> Ode<T>::gathered(const Taken& s, int i, bool outputs, Vec<T> start, int64_t at, int from, int top) {
    const int stages = tableau_.stages;
    if (outputs) start = sum_stages(start, tableau_.dense.data() + i * powers, 1, power_gradients_.data() + size_ + at, size_, powers);
    return sum_stages(start, tableau_.a.data() + top * stages + i, -stages, argument_gradient(s.first + top) + at, -argument_gradients_.step,
                      top - from);
}

// The gradient of stage i's slope; a part of the last one's comes in carried_.
template <class T>
inline void Ode<T>::gather(const Taken& s, int i, bool outputs, T* to) {
    const int stages = tableau_.stages, last = stages - 1, top = i == last ? last : last - 1;
    const bool carries = i == last;
    const Vec<T> h = size_of(s), weight = splat<T>(carries ? T(0) : tableau_.a[last * stages + i]);
    for (int64_t k = 0; k < size_; k += W) {
        const Vec<T> before = carries ? load<T>(carried_.data() + k) : Vec<T>{};
        store<T>(to + k, fma(h, gathered(s, i, outputs, weight * load<T>(now_.data() + k), k, i, top), before));
    }
}

template <class T>
inline void Ode<T>::add(const T* from, T* to) {
    for (int64_t i = 0; i < size_; i += W) store<T>(to + i, load<T>(from + i) + load<T>(to + i));
}

// The gradient of the coefficient of theta^p: the sum over outputs of theta^p times theirs.
template <class T>
inline void Ode<T>::read_outputs(const Taken& s, const T* gradient) {
    const T* thetas = find_thetas(s);
    for (int64_t r = 0; r < rows_; r++)
        for (int64_t c = 0; c < cols(); c += W) {
            Vec<T> q[powers + 1] = {};
            const int width = int(std::min<int64_t>(W, cols() - c));
            for_outputs(s, r, c, [&](int64_t o, int64_t place) {
                const Vec<T> x = splat<T>(thetas[o]);
                Vec<T> v = load_n<T>(gradient + place, width);
                q[0] += v;
#pragma GCC unroll 4
                for (int p = 1; p <= powers; p++) {
                    v *= x;
                    q[p] += v;
                }
            });
#pragma GCC unroll 5
            for (int p = 0; p <= powers; p++) store<T>(power_gradients_.data() + p * size_ + r * ld() + c, q[p]);
        }
}

}  // namespace hotlap
