// Explicit Runge-Kutta methods over a Program, with dense output and the exact gradient of the accepted steps.
//
// The steps taken are those of torchdiffeq 0.2.5 (rk_common.py, solvers.py): the same initial step, controller, error
// norm, and interpolation past the last time. Time runs forward here; `sign` turns a decreasing t around. The way back
// differentiates the steps as they were taken: their sizes are constants, as they are there (torch.no_grad).
#pragma once

#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <vector>

#include "exec.hpp"

namespace hotlap {

constexpr int powers = 4;

// The last stage is the first of the next step: y1 = y0 + h sum a[last] k. error = h sum e k,
// y(theta) = y0 + h sum_p theta^p sum_i dense[i][p - 1] k_i.
template <class T>
struct Tableau {
    int stages, order;
    std::vector<double> c;
    std::vector<T> a;  // (stages, stages), below the diagonal
    std::vector<T> e;
    std::vector<T> dense;  // (stages, powers)
};

struct Control {
    double rtol, atol, first_step, min_step, max_step, safety, grow, shrink;  // first_step 0: Hairer's rule
    int64_t max_steps;    // between two output times, as in torchdiffeq
};

// What a solve is asked for: times that increase after `sign`, and so many trajectories.
struct Times {
    std::vector<double> t, grid;  // grid not empty: fixed steps between these times
    double sign = 1;
    int64_t rows = 0;
};

template <class T>
class Ode {
  public:
    static constexpr int W = Simd<T>::W;

    Ode(Program program, Tableau<T> tableau) : exec_(std::move(program), true), tableau_(std::move(tableau)) {}

    Control control{};
    Times times;

    Exec<T>& exec() { return exec_; }
    int64_t cols() const { return exec_.cols(exec_.program().input); }
    int64_t num_steps() const { return int64_t(steps_.size()); }
    int64_t num_evaluations() const { return asked_; }

    // From y0 (rows, cols) to the state at all times, out (num_times, rows, cols).
    void solve(const T* y0, T* out) {
        rows_ = times.rows;
        steps_.clear();
        used_ = 0;
        asked_ = 0;
        size_ = rows_ * ld();
        reserve(std::max<int64_t>(2 * tableau_.stages, 16));
        exec_.refresh();
        now_.grow(size_);
        next_.grow(size_);
        thetas_.grow(int64_t(times.t.size()));
        for (int64_t r = 0; r < rows_; r++) std::memcpy(now_.data() + r * ld(), y0 + r * cols(), sizeof(T) * cols());
        std::memcpy(out, y0, sizeof(T) * rows_ * cols());
        if (times.t.size() < 2) return;
        copy_vectors<T>(now_.data(), argument(0), size_);
        evaluate(times.t[0], 0);
        used_ = 1;
        times.grid.empty() ? adaptive(out) : fixed(out);
    }

    // From the gradient of `out` to those of y0 (rows, cols), which may be null, and of the parameters.
    void backward(const T* gradient, T* to_y0) {
        exec_.begin_backward();
        carried_.grow(size_);
        power_gradients_.grow(size_ * (powers + 1));
        backward_steps(gradient);
        for (int64_t r = 0; to_y0 && r < rows_; r++)
            for (int64_t c = 0; c < cols(); c++) to_y0[r * cols() + c] = now_.data()[r * ld() + c] + gradient[r * cols() + c];
        exec_.linear_gradients(used_);
        exec_.finish_backward();
    }

  private:
    struct Taken {
        double t, h;
        int64_t first;        // evaluation of the first stage; those of the others follow it
        int64_t output, end;  // the times that lie in it
    };
    struct Series {
        T* first;
        int64_t step;
    };

    Exec<T> exec_;
    Tableau<T> tableau_;
    int64_t rows_ = 0, size_ = 0, used_ = 0, asked_ = 0;
    std::vector<Taken> steps_;
    Series stages_{}, arguments_{}, slope_gradients_{}, argument_gradients_{};
    Buffer<T> thetas_;
    Buffer<T> now_, next_, carried_, power_gradients_;

    int64_t ld() const { return exec_.ld(exec_.program().input); }
    T* stage(int64_t e) const { return stages_.first + e * stages_.step; }
    T* argument(int64_t e) const { return arguments_.first + e * arguments_.step; }
    T* slope_gradient(int64_t e) const { return slope_gradients_.first + e * slope_gradients_.step; }
    T* argument_gradient(int64_t e) const { return argument_gradients_.first + e * argument_gradients_.step; }

    // Room for so many evaluations; where they lie is kept here, because it is asked for again and again.
    void reserve(int64_t evaluations) {
        const int in = exec_.program().input, out = exec_.program().output;
        exec_.reserve(evaluations, rows_);
        stages_ = {exec_.value(out), exec_.value(out, 1) - exec_.value(out)};
        arguments_ = {exec_.value(in), exec_.value(in, 1) - exec_.value(in)};
        slope_gradients_ = {exec_.gradient(out), exec_.gradient(out, 1) - exec_.gradient(out)};
        argument_gradients_ = {exec_.gradient(in), exec_.gradient(in, 1) - exec_.gradient(in)};
    }

    void reserve_more(int64_t evaluations) {
        if (evaluations > exec_.evaluations()) reserve(evaluations);
    }

    void evaluate(double t, int64_t e) {
        if (exec_.program().time >= 0) exec_.value(exec_.program().time, e)[0] = T(times.sign * t);
        exec_.forward(e);
        asked_++;
    }

    // A step's size as its numbers are multiplied with.
    Vec<T> size_of(const Taken& s) const { return splat<T>(T(times.sign * s.h)); }

    // start + sum_j weight[j] k_j at element i of the state, over `count` stages from k on, `stride` apart.
    static HOTLAP_INLINE Vec<T> sum_stages(Vec<T> start, const T* weight, int step, const T* k, int64_t stride, int count) {
        for (int j = 0; j < count; j++, k += stride, weight += step) start = fma(splat<T>(*weight), load<T>(k), start);
        return start;
    }

    // to = now_ + h sum_j weight[j] k_j over `count` stages.
    void combine(const Taken& s, const T* weight, int count, T* to) {
        const T *k = stage(s.first), *from = now_.data();
        const int64_t stride = stages_.step;
        const Vec<T> h = size_of(s);
        for (int64_t i = 0; i < size_; i += W)
            store<T>(to + i, fma(h, sum_stages(Vec<T>{}, weight, 1, k + i, stride, count), load<T>(from + i)));
    }

    // All stages after the first; next_ is y1 afterwards.
    void attempt(const Taken& s) {
        const int last = tableau_.stages - 1;
        if (exec_.in_one_pass()) return attempt_in_registers(s);
        for (int i = 1; i <= last; i++) {
            combine(s, tableau_.a.data() + i * tableau_.stages, i, argument(s.first + i));
            // The end of the step exactly, as torchdiffeq has it.
            evaluate(tableau_.c[i] == 1 ? s.t + s.h : s.t + tableau_.c[i] * s.h, s.first + i);
        }
        copy_vectors<T>(argument(s.first + last), next_.data(), size_);
    }

    // The same for a state of one vector: each slope is still in a register when the next argument is made of it.
    void attempt_in_registers(const Taken& s) {
        const int last = tableau_.stages - 1;
        const T* k = stage(s.first);
        const int64_t stride = stages_.step;
        const Vec<T> now = load<T>(now_.data()), h = size_of(s);
        Vec<T> slope = load<T>(k), y = now;
        for (int i = 1; i <= last; i++) {
            const T* weight = tableau_.a.data() + i * tableau_.stages;
            y = fma(h, fma(splat<T>(weight[i - 1]), slope, sum_stages(Vec<T>{}, weight, 1, k, stride, i - 1)), now);
            store<T>(argument(s.first + i), y);
            slope = exec_.one_forward(s.first + i, y);
        }
        asked_ += last;
        store<T>(next_.data(), y);
    }

    // sqrt(mean((numerator / (atol + rtol max(|y|, |z|)))^2)).
    template <class F>
    double scaled_norm(const T* y, const T* z, F numerator) const {
        const Vec<T> atol = splat<T>(T(control.atol)), rtol = splat<T>(T(control.rtol));
        double total = 0;
        const int64_t n = cols(), step = ld();
        const double share = 1 / double(rows_ * n);
        for (int64_t r = 0; r < rows_; r++) {
            Vec<T> sum{};
            for (int64_t c = 0; c < n; c += W) {
                const int64_t i = r * step + c;
                const Vec<T> p = absolute<T>(load<T>(y + i)), q = absolute<T>(load<T>(z + i));
                const Vec<T> u = numerator(i) / fma(rtol, select<T>(p > q, p, q), atol);
                sum += from_bits<T>(bits<T>(u * u) & first_lanes<T>(int(std::min<int64_t>(W, n - c))));
            }
            total += double(sum_of<T>(sum));
        }
        return std::sqrt(total * share);
    }

    double error_of(const Taken& s) {
        const T* k = stage(s.first);
        const int64_t stride = stages_.step;
        const Vec<T> h = size_of(s);
        return scaled_norm(now_.data(), next_.data(), [&](int64_t i) {
            return h * sum_stages(Vec<T>{}, tableau_.e.data(), 1, k + i, stride, tableau_.stages);
        });
    }

    // Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, section II.4; f0 is at evaluation used_ - 1.
    double initial_step(double t) {
        const T *f0 = stage(used_ - 1), *y = now_.data();
        const double d0 = scaled_norm(y, y, [&](int64_t i) { return load<T>(y + i); });
        const double d1 = scaled_norm(y, y, [&](int64_t i) { return load<T>(f0 + i); });
        const double h0 = d0 < 1e-5 || d1 < 1e-5 ? 1e-6 : 0.01 * d0 / d1;
        T* y1 = argument(used_);
        const Vec<T> h = splat<T>(T(times.sign * h0));
        for (int64_t i = 0; i < size_; i += W) store<T>(y1 + i, fma(h, load<T>(f0 + i), load<T>(y + i)));
        evaluate(t + h0, used_);
        const T* f1 = stage(used_);
        const double d2 = scaled_norm(y, y, [&](int64_t i) { return load<T>(f1 + i) - load<T>(f0 + i); }) / h0;
        const double most = std::max(d1, d2);
        const double h1 = d1 <= 1e-15 && d2 <= 1e-15 ? std::max(1e-6, h0 * 1e-3) : std::pow(0.01 / most, 1.0 / tableau_.order);
        return std::min(100 * h0, h1);
    }

    [[noreturn]] void fail(const char* what, double t, double h) const {
        char text[200];
        std::snprintf(text, sizeof text, "%s at t = %.6g, step size %.6g", what, times.sign * t, h);
        throw std::runtime_error(text);
    }

    void adaptive(T* out) {
        const std::vector<double>& t = times.t;
        double now = t[0], h = control.first_step > 0 ? control.first_step : initial_step(now);
        size_t wanted = 1;
        for (int64_t tries = 0; wanted < t.size();) {
            if (!std::isfinite(h)) fail("the state or its slope is not finite", now, h);
            h = std::min(std::max(h, control.min_step), control.max_step);
            if (!(now + h > now))
                fail("the step size has become too small: the problem is stiff, or the tolerance too tight", now, h);
            if (tries++ >= control.max_steps) fail("more than max_num_steps steps", now, h);
            reserve_more(used_ + tableau_.stages);
            Taken step{now, h, used_ - 1, int64_t(wanted), int64_t(wanted)};
            attempt(step);
            const double error = error_of(step);
            if (std::isnan(error)) fail("the state or its slope is not finite", now, h);
            if (h <= control.min_step || error <= 1) {
                now += h;
                for (; wanted < t.size() && t[wanted] <= now; tries = 0) wanted++;
                step.end = int64_t(wanted);
                accept(step, out);
            }
            h *= factor(error);
        }
    }

    double factor(double error) const {
        if (error == 0) return control.grow;
        // Only as exact as the error is: the next step waits for it.
        const double f = control.safety * double(std::pow(T(error), T(-1.0 / tableau_.order)));
        return std::min(control.grow, std::max(f, error < 1 ? 1 : control.shrink));
    }

    void fixed(T* out) {
        const auto &t = times.t, &grid = times.grid;
        size_t wanted = 1;
        for (size_t i = 0; i + 1 < grid.size(); i++) {
            reserve_more(used_ + tableau_.stages);
            Taken step{grid[i], grid[i + 1] - grid[i], used_ - 1, int64_t(wanted), int64_t(wanted)};
            attempt(step);
            while (wanted < t.size() && grid[i + 1] >= t[wanted]) wanted++;
            step.end = int64_t(wanted);
            accept(step, out);
        }
        used_--;  // the slope at the end is no part of the solution, and need not be finite
        for (int64_t i = 0; i < size_; i++)
            if (!std::isfinite(now_.data()[i]) && i % ld() < cols()) fail("the state is not finite", grid.back(), 0);
    }

    // Keeps the step, writes the outputs that lie in it, and makes its end the new state.
    void accept(const Taken& s, T* out) {
        used_ += tableau_.stages - 1;
        steps_.push_back(s);
        if (s.end > s.output) write_outputs(s, out);
        copy_vectors<T>(next_.data(), now_.data(), size_);
    }

    // f(output, where its element c of a row lies) for the outputs in a step.
    template <class F>
    HOTLAP_INLINE void for_outputs(const Taken& s, int64_t row, int64_t c, F f) {
        const int64_t step = rows_ * cols();
        int64_t place = s.output * step + row * cols() + c;
        for (int64_t o = s.output; o < s.end; o++, place += step) f(o, place);
    }

    // theta of each output of a step, at the output's number.
    const T* find_thetas(const Taken& s) {
        const double inverse = 1 / s.h;
        T* to = thetas_.data();
        for (int64_t o = s.output; o < s.end; o++) to[o] = T((times.t[o] - s.t) * inverse);
        return to;
    }

    // The coefficients of theta^p, then the polynomial at each output.
    void write_outputs(const Taken& s, T* out) {
        const T* k = stage(s.first);
        const int64_t stride = stages_.step;
        const T* thetas = find_thetas(s);
        const Vec<T> h = size_of(s);
        const int count = tableau_.stages - !times.grid.empty();  // the slope at the end of a fixed step need not be finite
        for (int64_t r = 0; r < rows_; r++)
            for (int64_t c = 0; c < cols(); c += W) {
                const int64_t i = r * ld() + c;
                Vec<T> q[powers + 1];
                q[0] = load<T>(now_.data() + i);
#pragma GCC unroll 4
                for (int p = 0; p < powers; p++) q[p + 1] = h * sum_stages(Vec<T>{}, tableau_.dense.data() + p, powers, k + i, stride, count);
                const int width = int(std::min<int64_t>(W, cols() - c));
                for_outputs(s, r, c, [&](int64_t o, int64_t place) {
                    const Vec<T> x = splat<T>(thetas[o]);
                    Vec<T> v = q[powers];
#pragma GCC unroll 4
                    for (int p = powers - 1; p >= 0; p--) v = fma(v, x, q[p]);
                    store_n<T>(out + place, v, width);
                });
            }
    }

    void backward_steps(const T* gradient);
    void backward_step(const Taken& s, const T* gradient);
    void backward_step_in_registers(const Taken& s, bool outputs);
    Vec<T> gathered(const Taken& s, int i, bool outputs, Vec<T> start, int64_t at, int from, int top);
    void gather(const Taken& s, int i, bool outputs, T* to);
    void add(const T* from, T* to);
    void read_outputs(const Taken& s, const T* gradient);
};

}  // namespace hotlap

#include "ode_backward.hpp"
