// Training of an ODE's field on given solutions, without Python code between the iterations.
#pragma once

#include "loss.hpp"
#include "ode.hpp"
#include "optimizer.hpp"

namespace hotlap {

// Sum (or mean) of squares against target (num_times, rows, cols), so many times; the loss before each update into `losses`.
template <class T>
void fit(Ode<T>& ode, Optimizer<T>& optimizer, const T* y0, const T* target, bool mean, int64_t iterations, double* losses) {
    const int64_t n = int64_t(ode.times.t.size()) * ode.times.rows * ode.cols();
    const Criterion criterion{Loss::mse, mean, 0};
    Buffer<T> out;
    out.grow(n);
    ode.exec().redirect_gradients({});
    for (int64_t k = 0; k < iterations; k++) {
        ode.solve(y0, out.data());
        losses[k] = loss_and_gradient<T>(criterion, {out.data(), out.data(), 1, n, n}, target);
        ode.backward(out.data(), nullptr);
        optimizer.step([&](size_t i) { return ode.exec().parameter_gradient(optimizer.slots[i].parameter); });
    }
}

}  // namespace hotlap
