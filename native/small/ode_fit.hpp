// Training of an ODE's field on given solutions, without Python code between the iterations.
#pragma once

#include "ode.hpp"
#include "optimizer.hpp"

namespace hotlap {

// Trains the field of an Ode on one set of trajectories, all iterations in one call.
template <class T>
class OdeFit : public Ode<T> {
  public:
    using Ode<T>::Ode;

    Method method = Method::sgd;
    std::vector<Group> groups;
    std::vector<Slot<T>> slots;

    // Sum (or mean) of squares against target (num_times, rows, cols); the loss before each update into `losses`.
    void fit(const T* y0, const T* target, bool mean, int64_t iterations, double* losses) {
        const int64_t n = int64_t(this->times.t.size()) * this->times.rows * this->cols();
        out_.grow(n + Simd<T>::W);
        const T scale = T(mean ? 2.0 / double(n) : 2.0);
        for (int64_t k = 0; k < iterations; k++) {
            this->solve(y0, out_.data());
            Vec<T> total{};
            for (int64_t i = 0; i < n; i += Simd<T>::W) {
                const int last = int(std::min<int64_t>(Simd<T>::W, n - i));
                const Vec<T> d = load_n<T>(out_.data() + i, last) - load_n<T>(target + i, last);
                total = fma(d, d, total);
                store<T>(out_.data() + i, d * splat<T>(scale));
            }
            const double sum = double(sum_of<T>(total));
            losses[k] = mean ? sum / double(n) : sum;
            this->backward(out_.data(), nullptr);
            update_all<T>(method, groups, slots, [this](size_t i) {
                const int p = slots[i].parameter;
                return std::pair(this->exec().parameter(p), this->exec().parameter_gradient(p));
            });
        }
    }

  private:
    Buffer<T> out_;
};

}  // namespace hotlap
