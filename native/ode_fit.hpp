// Training of an ODE's field on given solutions, without Python code between the iterations.
#pragma once

#include "ode.hpp"
#include "optimizer.hpp"

namespace hotlap {

// Trains the field of an Ode on one set of trajectories, all iterations in one call.
template <class T>
class OdeFit {
  public:
    explicit OdeFit(Ode<T>& o) : ode(o) {}

    Ode<T>& ode;
    Method method = Method::sgd;
    std::vector<Group> groups;
    std::vector<Slot<T>> slots;

    // Sum (or mean) of squares against target (num_times, rows, cols); the loss before each update into `losses`.
    void run(const T* y0, const std::vector<double>& t, double sign, int64_t rows, bool each, const Control& control,
             const std::vector<double>& grid, const T* target, bool mean, int64_t iterations, double* losses) {
        const int64_t n = int64_t(t.size()) * rows * ode.cols();
        out_.grow(n + Simd<T>::W);
        const T scale = T(mean ? 2.0 / double(n) : 2.0);
        for (int64_t k = 0; k < iterations; k++) {
            ode.solve(y0, t, sign, rows, each, control, grid, out_.data());
            Vec<T> total{};
            int64_t i = 0;
            double sum = 0;
            for (; i + Simd<T>::W <= n; i += Simd<T>::W) {
                const Vec<T> d = load<T>(out_.data() + i) - load<T>(target + i);
                total = fma(d, d, total);
                store<T>(out_.data() + i, d * splat<T>(scale));
            }
            for (; i < n; i++) {
                const T d = out_.data()[i] - target[i];
                sum += double(d) * double(d);
                out_.data()[i] = d * scale;
            }
            sum += double(sum_of<T>(total));
            losses[k] = mean ? sum / double(n) : sum;
            ode.backward(out_.data(), nullptr);
            const NoDenormals here(method, groups);
            all_rates<T>(method, groups, slots, rates_);
            for (size_t j = 0; j < slots.size(); j++) {
                const Slot<T>& slot = slots[j];
                update<T>(rates_[j], slot, ode.exec().parameter(slot.parameter), ode.exec().parameter_gradient(slot.parameter), T(1), 0,
                          slot.numel);
            }
        }
    }

  private:
    Buffer<T> out_;
    std::vector<Rate<T>> rates_;
};

}  // namespace hotlap
