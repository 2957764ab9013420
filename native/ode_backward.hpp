// The way back through the steps of a solve: the rest of Ode. To be had through ode.hpp.
#pragma once

#include "ode.hpp"

namespace hotlap {

template <class T>
inline void Ode<T>::backward_trajectory(size_t k, const T* gradient, T* to_y0, double* to_t) {
    const Trajectory &from = trajectories_[k], &until = trajectories_[k + 1];
    T *y = now_.data(), *carried = carried_.data();
    std::memset(y, 0, sizeof(T) * size_);
    std::memset(carried, 0, sizeof(T) * size_);
    for (size_t n = until.step; n-- > from.step;) {
        backward_step(steps_[n], from.row, gradient, to_t);
        const int64_t done = steps_[n].first + (tableau_.first_same_as_last ? 1 : 0);
        if (summed_ - done < at_once_) continue;
        exec_.linear_gradients(done, summed_ - done, true);
        summed_ = done;
    }
    if (until.step > from.step && tableau_.first_same_as_last) {
        const int64_t first = steps_[from.step].first;
        copy_vectors<T>(carried, slope_gradient(first), size_);
        pull(first, to_t);
        add(argument_gradient(first), y);
    }
    for (int64_t r = 0; to_y0 && r < rows_; r++)
        for (int64_t c = 0; c < cols(); c++)
            to_y0[(from.row + r) * cols() + c] = y[r * ld() + c] + gradient[(from.row + r) * cols() + c];
}

// now_ holds the gradient of y at the end of the step and becomes that at its beginning. The first stage's gradient
// comes in, and goes out, in carried_ where it is the last stage of the step before. Each stage's gradient is summed
// up once, in a register, when everything that it is made of is there.
template <class T>
inline void Ode<T>::backward_step(const Taken& s, int64_t row, const T* gradient, double* to_t) {
    const int last = tableau_.stages - 1;
    const bool shared = tableau_.first_same_as_last, outputs = s.end > s.output;
    T *y = now_.data(), *carried = carried_.data();
    scale(s.h);
    if (outputs) tableau_.powers == 1 ? read_outputs<1>(s, row, gradient) : read_outputs<max_powers>(s, row, gradient);
    for (int64_t k = s.output; to_t && k < s.end; k++) time_of_output(s, k, row, gradient, to_t);
    if (exec_.in_one_pass()) return backward_step_in_registers(s, outputs);
    int top = last;
    if (shared) {
        gather(s, last, outputs, carried, T(1), last, slope_gradient(s.first + last));
        pull(s.first + last, to_t);
        add(argument_gradient(s.first + last), y);
        top = last - 1;
    }
    for (int i = top; i >= 0; i--) {
        T* to = i == 0 && shared ? carried : slope_gradient(s.first + i);
        gather(s, i, outputs, y, shared ? by_h_.a[last * tableau_.stages + i] : by_h_.b[i], top, to);
        if (i > 0 || !shared) pull(s.first + i, to_t);
    }
    for (int64_t k = 0; k < size_; k += W) {
        Vec<T> v = load<T>(y + k);
        for (int i = shared ? 1 : 0; i <= top; i++) v += load<T>(argument_gradient(s.first + i) + k);
        if (outputs) v += load<T>(power_gradients_.data() + k);
        store<T>(y + k, v);
    }
}

// The same for a state of one vector: what an evaluation gives is still in a register when the one before it needs it.
// Such a field does not read the time.
template <class T>
inline void Ode<T>::backward_step_in_registers(const Taken& s, bool outputs) {
    const int stages = tableau_.stages, powers = tableau_.powers, last = stages - 1;
    const bool shared = tableau_.first_same_as_last;
    const T *q = power_gradients_.data(), *a = by_h_.a;
    Vec<T> y = load<T>(now_.data()), newest{};
    const auto gathered = [&](int i, Vec<T> v, int top) {
        if (outputs) v = sum_stages(v, by_h_.dense + i * powers, 1, q + size_, size_, powers);
        if (i == top) return v;
        v = sum_stages(v, a + top * stages + i, -stages, argument_gradient(s.first + top), -argument_gradients_.step, top - i - 1);
        return fma(splat<T>(a[(i + 1) * stages + i]), newest, v);
    };
    const auto pulled = [&](int i, Vec<T> g) {
        store<T>(slope_gradient(s.first + i), g);
        return exec_.one_backward(s.first + i, g);
    };
    if (shared) y += newest = pulled(last, gathered(last, load<T>(carried_.data()), last));
    const int top = shared ? last - 1 : last;
    for (int i = top; i >= 0; i--) {
        const Vec<T> g = gathered(i, splat<T>(shared ? a[last * stages + i] : by_h_.b[i]) * y, top);
        if (i > 0 || !shared)
            newest = pulled(i, g);
        else
            store<T>(carried_.data(), g);
    }
    for (int i = shared ? 1 : 0; i <= top; i++) y += load<T>(argument_gradient(s.first + i));
    store<T>(now_.data(), outputs ? y + load<T>(q) : y);
}

// to = weight * from + what the outputs give to stage i + what the stages after it, up to `top`, give to it: the last
// of these has only just been found.
template <class T>
inline void Ode<T>::gather(const Taken& s, int i, bool outputs, const T* from, T weight, int top, T* to) {
    const int powers = tableau_.powers, stages = tableau_.stages;
    const T *q = power_gradients_.data() + size_, *later = argument_gradient(s.first + top);
    for (int64_t k = 0; k < size_; k += W) {
        Vec<T> v = splat<T>(weight) * load<T>(from + k);
        if (outputs) v = sum_stages(v, by_h_.dense + i * powers, 1, q + k, size_, powers);
        store<T>(to + k, sum_stages(v, by_h_.a + top * stages + i, -stages, later + k, -size_, top - i));
    }
}

template <class T>
inline void Ode<T>::add(const T* from, T* to) {
    for (int64_t i = 0; i < size_; i += W) store<T>(to + i, load<T>(from + i) + load<T>(to + i));
}

// Through one evaluation, from the gradient of its slope to that of its argument.
template <class T>
inline void Ode<T>::pull(int64_t e, double* to_t) {
    exec_.backward(e);
    if (to_t && time_gradient_) to_t[0] += double(exec_.gradient(exec_.program().time, e)[0]);
}

// The gradient of the coefficient of theta^p: the sum over outputs of theta^p times theirs.
template <class T>
template <int P>
inline void Ode<T>::read_outputs(const Taken& s, int64_t row, const T* gradient) {
    const T* thetas = find_thetas(s);
    for (int64_t r = 0; r < rows_; r++)
        for (int64_t c = 0; c < cols(); c += W) {
            Vec<T> q[P + 1] = {};
            for_outputs(s, row + r, c, [&](int64_t o, int64_t place, auto get, auto) {
                const Vec<T> x = splat<T>(thetas[o]);
                Vec<T> v = get(gradient + place);
                q[0] += v;
#pragma GCC unroll 4
                for (int p = 1; p <= P; p++) {
                    v *= x;
                    q[p] += v;
                }
            });
            const IVec<T> real = first_lanes<T>(int(std::min<int64_t>(W, cols() - c)));
#pragma GCC unroll 5
            for (int p = 0; p <= P; p++)
                store<T>(power_gradients_.data() + p * size_ + r * ld() + c, from_bits<T>(bits<T>(q[p]) & real));
        }
}

// d y(t_i) / d t_i is the polynomial's slope; the first time moves all steps with it.
template <class T>
inline void Ode<T>::time_of_output(const Taken& s, int64_t index, int64_t row, const T* gradient, double* to_t) {
    const double theta = this->theta(s, index);
    double slope = 0;
    for (int j = 0; j < tableau_.stages; j++) {
        double w = 0, power = 1;
        for (int p = 1; p <= tableau_.powers; p++, power *= theta) w += p * power * tableau_.dense[j * tableau_.powers + p - 1];
        const T* k = stage(s.first + j);
        for (int64_t r = 0; r < rows_; r++)
            for (int64_t c = 0; c < cols(); c++)
                slope += w * double(k[r * ld() + c]) * double(gradient[(index * total_rows_ + row + r) * cols() + c]);
    }
    to_t[index] += slope;
    to_t[0] -= slope;
}

}  // namespace hotlap
