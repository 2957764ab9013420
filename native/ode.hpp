// Explicit Runge-Kutta methods over a Program, with dense output and the exact gradient of the accepted steps.
//
// The steps taken are those of torchdiffeq 0.2.5 (rk_common.py, solvers.py): the same initial step, controller, error
// norm, and interpolation past the last time. Time runs forward here; `sign` turns a decreasing t around. The way back
// differentiates the steps as they were taken: their sizes are constants, as they are there (torch.no_grad).
#pragma once

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "exec.hpp"
#include "optimizer.hpp"

namespace hotlap {

// y1 = y0 + h sum b k, error = h sum e k, y(theta) = y0 + h sum_p theta^p sum_i dense[i][p - 1] k_i.
struct Tableau {
    int stages, powers;
    std::vector<double> a;  // (stages, stages), below the diagonal
    std::vector<double> b, c, e;
    std::vector<double> dense;  // (stages, powers)
    int order;
    bool first_same_as_last;  // the last stage is the first of the next step
};

struct Control {
    double rtol, atol, first_step, min_step, max_step, safety, grow, shrink;  // first_step 0: Hairer's rule
    double proportional;  // 0: I controller, else the exponent of the last error in a PI controller
    int64_t max_steps;    // between two output times, as in torchdiffeq
};

class SolveError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

template <class T>
class Ode {
  public:
    static constexpr int W = Simd<T>::W;

    Ode(Program program, Tableau tableau, bool time_gradient)
        : exec_(std::move(program), true, time_gradient), tableau_(std::move(tableau)), time_gradient_(time_gradient) {}

    Exec<T>& exec() { return exec_; }
    int64_t cols() const { return exec_.cols(exec_.program().input); }
    int64_t num_steps() const { return int64_t(steps_.size()); }
    int64_t num_evaluations() const { return asked_; }

    // `rows` trajectories (rows, cols) from y0 at times t (num_times), increasing after `sign`; out (num_times, rows, cols).
    // With `each`, every trajectory has steps of its own. `grid` not empty: fixed steps between these times.
    void solve(const T* y0, const std::vector<double>& t, double sign, int64_t rows, bool each, const Control& control,
               const std::vector<double>& grid, T* out) {
        sign_ = sign;
        total_rows_ = rows;
        rows_ = each ? 1 : rows;
        t_ = &t;
        steps_.clear();
        trajectories_.clear();
        used_ = 0;
        asked_ = 0;
        size_ = rows_ * ld();
        exec_.reserve(std::max<int64_t>(2 * tableau_.stages, 16), rows_);
        exec_.refresh();
        now_.grow(size_);
        next_.grow(size_);
        dense_.grow(size_ * (tableau_.powers + 1));
        if (in_runs()) {
            times_.grow(int64_t(t.size()) * state() + W);
            for (size_t k = 0, e = 0; k < t.size(); k++)
                for (int64_t j = 0; j < state(); j++) times_.data()[e++] = t[k];
        }
        for (int64_t first = 0; first < rows; first += rows_) {
            trajectories_.push_back({first, steps_.size()});
            for (int64_t r = 0; r < rows_; r++) std::memcpy(now_.data() + r * ld(), y0 + (first + r) * cols(), sizeof(T) * cols());
            write_output(now_.data(), 0, first, out);
            if (t.size() > 1) grid.empty() ? adaptive(t, control, first, out) : fixed(t, grid, first, out);
            if (rows_ == 0) break;
        }
        trajectories_.push_back({rows, steps_.size()});
    }

    // From the gradient of `out` to those of y0 (rows, cols), of t (num_times; may be null) and of the parameters.
    void backward(const T* gradient, T* to_y0, double* to_t, int64_t num_times) {
        exec_.begin_backward();
        carried_.grow(size_);
        arrived_.grow(tableau_.stages * size_);
        power_gradients_.grow(size_ * (tableau_.powers + 1));
        if (to_t) std::fill(to_t, to_t + num_times, 0.0);
        for (size_t k = trajectories_.size() - 1; k-- > 0;) backward_trajectory(k, gradient, to_y0, to_t);
        if (used_ > 0) exec_.linear_gradients(used_);
        exec_.finish_backward();
        if (used_ == 0) exec_.linear_gradients(0);
    }

  private:
    struct Taken {
        double t, h;
        int64_t first, rest;  // evaluations of the first stage and of those that follow it
        int64_t output, end;  // the times that lie in it
    };
    struct Trajectory {
        int64_t row;
        size_t step;  // where its steps begin
    };
    // Outputs of a small state lie many to a vector, and are computed so: element e of a run of outputs belongs to
    // element e % state of the state. Tables repeat with this many elements, a whole number of vectors.
    static constexpr int64_t small_state = 24;
    int64_t state() const { return rows_ * cols(); }
    bool in_runs() const { return rows_ == total_rows_ && state() > 0 && state() <= small_state; }
    int64_t period() const { return state() * W; }

    Exec<T> exec_;
    Tableau tableau_;
    bool time_gradient_;
    double sign_ = 1;
    int64_t total_rows_ = 0, rows_ = 0, size_ = 0, used_ = 0, asked_ = 0;
    std::vector<Taken> steps_;
    const std::vector<double>* t_ = nullptr;  // the caller's, until the way back
    Buffer<double> times_;                    // each time once for each element of the state
    Buffer<T> table_;
    std::vector<Trajectory> trajectories_;
    Buffer<T> now_, next_, dense_, carried_, arrived_, power_gradients_;

    int64_t ld() const { return exec_.ld(exec_.program().input); }
    double a(int i, int j) const { return tableau_.a[i * tableau_.stages + j]; }
    T* stage(int64_t e) { return exec_.value(exec_.program().output, e); }
    T* argument(int64_t e) { return exec_.value(exec_.program().input, e); }

    void evaluate(double t, int64_t e) {
        if (exec_.program().time >= 0) exec_.value(exec_.program().time, e)[0] = T(sign_ * t);
        exec_.forward(e);
        asked_++;
    }

    int64_t evaluation_of(const Taken& s, int i) const { return i == 0 ? s.first : s.rest + i - 1; }

    // to = from + sum_j weight_j k_j over `count` stages.
    void combine(const T* from, const double* weight, const Taken& s, int count, T* to) {
        const T* k[16];
        T w[16];
        int n = 0;
        for (int j = 0; j < count; j++)
            if (weight[j] != 0) {
                k[n] = stage(evaluation_of(s, j));
                w[n++] = T(sign_ * s.h * weight[j]);
            }
        for (int64_t i = 0; i < size_; i += W) {
            Vec<T> v = load<T>(from + i);
            for (int j = 0; j < n; j++) v = fma(splat<T>(w[j]), load<T>(k[j] + i), v);
            store<T>(to + i, v);
        }
    }

    // All stages after the first; next_ is y1 afterwards.
    void attempt(const Taken& s) {
        const int last = tableau_.stages - 1;
        for (int i = 1; i <= last; i++) {
            combine(now_.data(), &tableau_.a[i * tableau_.stages], s, i, argument(s.rest + i - 1));
            // The end of the step exactly, as torchdiffeq has it.
            evaluate(tableau_.c[i] == 1 ? s.t + s.h : s.t + tableau_.c[i] * s.h, s.rest + i - 1);
        }
        if (tableau_.first_same_as_last)
            std::memcpy(next_.data(), argument(s.rest + last - 1), sizeof(T) * size_);
        else
            combine(now_.data(), tableau_.b.data(), s, tableau_.stages, next_.data());
    }

    // sqrt(mean((sum_i weight_i k_i / (atol + rtol max(|y|, |z|)))^2)); weights already times h.
    template <class F>
    double scaled_norm(const Control& control, const T* y, const T* z, F numerator) const {
        const Vec<T> atol = splat<T>(T(control.atol)), rtol = splat<T>(T(control.rtol));
        double total = 0;
        const int64_t n = cols(), step = ld();
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
        return std::sqrt(total / double(rows_ * n));
    }

    double error_of(const Control& control, const Taken& s) {
        const T* k[16];
        T w[16];
        int n = 0;
        for (int j = 0; j < tableau_.stages; j++)
            if (tableau_.e[j] != 0) {
                k[n] = stage(evaluation_of(s, j));
                w[n++] = T(s.h * tableau_.e[j]);
            }
        return scaled_norm(control, now_.data(), next_.data(), [&](int64_t i) {
            Vec<T> v{};
            for (int j = 0; j < n; j++) v = fma(splat<T>(w[j]), load<T>(k[j] + i), v);
            return v;
        });
    }

    // Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, section II.4; f0 is at evaluation used_ - 1.
    double initial_step(double t, const Control& control) {
        const T *f0 = stage(used_ - 1), *y = now_.data();
        const double d0 = scaled_norm(control, y, y, [&](int64_t i) { return load<T>(y + i); });
        const double d1 = scaled_norm(control, y, y, [&](int64_t i) { return load<T>(f0 + i); });
        const double h0 = d0 < 1e-5 || d1 < 1e-5 ? 1e-6 : 0.01 * d0 / d1;
        T* y1 = argument(used_);
        const Vec<T> h = splat<T>(T(sign_ * h0));
        for (int64_t i = 0; i < size_; i += W) store<T>(y1 + i, fma(h, load<T>(f0 + i), load<T>(y + i)));
        evaluate(t + h0, used_);
        const T* f1 = stage(used_);
        const double d2 = scaled_norm(control, y, y, [&](int64_t i) { return load<T>(f1 + i) - load<T>(f0 + i); }) / h0;
        const double most = std::max(d1, d2);
        const double h1 = d1 <= 1e-15 && d2 <= 1e-15 ? std::max(1e-6, h0 * 1e-3) : std::pow(0.01 / most, 1.0 / tableau_.order);
        return std::min(100 * h0, h1);
    }

    static std::string number(double x) {
        char text[32];
        std::snprintf(text, sizeof text, "%.6g", x);
        return text;
    }
    [[noreturn]] void fail(const char* what, double t, double h) const {
        throw SolveError(std::string(what) + " at t = " + number(sign_ * t) + ", step size " + number(h));
    }

    void adaptive(const std::vector<double>& t, const Control& control, int64_t row, T* out) {
        double now = t[0];
        std::memcpy(argument(used_), now_.data(), sizeof(T) * size_);
        evaluate(now, used_);
        int64_t first = used_++;
        double h = control.first_step > 0 ? control.first_step : initial_step(now, control);
        double last_error = 1;
        size_t wanted = 1;
        for (int64_t tries = 0; wanted < t.size();) {
            if (!std::isfinite(h)) fail("the state or its slope is not finite", now, h);
            h = std::min(std::max(h, control.min_step), control.max_step);
            if (!(now + h > now)) fail("the step size has become too small: the problem is stiff, or the tolerance too tight", now, h);
            if (tries++ >= control.max_steps) fail("more than max_num_steps steps", now, h);
            exec_.reserve(used_ + tableau_.stages, rows_);
            Taken step{now, h, first, used_, int64_t(wanted), int64_t(wanted)};
            attempt(step);
            const double error = error_of(control, step);
            if (std::isnan(error)) fail("the state or its slope is not finite", now, h);
            const bool accepted = h > control.max_step ? false : h <= control.min_step || error <= 1;
            if (accepted) {
                now += h;
                for (; wanted < t.size() && t[wanted] <= now; tries = 0) wanted++;
                step.end = int64_t(wanted);
                accept(step, row, out);
                first = used_ - 1;
            }
            h *= factor(control, error, accepted, last_error);
            if (accepted) last_error = std::max(error, 1e-4);
        }
    }

    double factor(const Control& control, double error, bool accepted, double last_error) const {
        if (error == 0) return control.grow;
        const double least = error < 1 ? 1 : control.shrink;
        if (control.proportional == 0) {
            const double f = control.safety / std::pow(error, 1.0 / tableau_.order);
            return std::min(control.grow, std::max(f, least));
        }
        // Gustafsson's PI controller as in Hairer's dopri5: exponents 1/k - 0.75 beta and beta.
        const double beta = control.proportional;
        const double f = control.safety * std::pow(error, -(1.0 / tableau_.order - 0.75 * beta)) * std::pow(last_error, beta);
        return std::min(accepted ? control.grow : 1.0, std::max(f, control.shrink));
    }

    void fixed(const std::vector<double>& t, const std::vector<double>& grid, int64_t row, T* out) {
        size_t wanted = 1;
        for (size_t i = 0; i + 1 < grid.size(); i++) {
            exec_.reserve(used_ + tableau_.stages, rows_);
            Taken step{grid[i], grid[i + 1] - grid[i], used_, used_ + 1, int64_t(wanted), int64_t(wanted)};
            std::memcpy(argument(used_), now_.data(), sizeof(T) * size_);
            evaluate(step.t, used_++);
            attempt(step);
            while (wanted < t.size() && grid[i + 1] >= t[wanted]) wanted++;
            step.end = int64_t(wanted);
            accept(step, row, out);
        }
        for (int64_t i = 0; i < size_; i++)
            if (!std::isfinite(now_.data()[i]) && i % ld() < cols()) fail("the state is not finite", grid.back(), 0);
    }

    // Keeps the step, writes the outputs that lie in it, and makes its end the new state.
    void accept(const Taken& s, int64_t row, T* out) {
        used_ += tableau_.stages - 1;
        steps_.push_back(s);
        if (s.end > s.output) {
            find_polynomial(s);
            if (in_runs())
                run_of_outputs(s, out);
            else
                for (int64_t k = s.output; k < s.end; k++) add_output(k, s, row, out);
        }
        std::memcpy(now_.data(), next_.data(), sizeof(T) * size_);
    }

    double theta(const Taken& s, int64_t k) const { return ((*t_)[size_t(k)] - s.t) / s.h; }

    // dense_[p] are the coefficients of theta^p.
    void find_polynomial(const Taken& s) {
        T* q = dense_.data();
        std::memcpy(q, now_.data(), sizeof(T) * size_);
        for (int p = 0; p < tableau_.powers; p++) {
            const T* k[16];
            T w[16];
            int n = 0;
            for (int j = 0; j < tableau_.stages; j++) {
                const double weight = tableau_.dense[j * tableau_.powers + p];
                k[n] = stage(evaluation_of(s, j));
                w[n] = T(sign_ * s.h * weight);
                n += weight != 0;
            }
            for (int64_t i = 0; i < size_; i += W) {
                Vec<T> v{};
                for (int j = 0; j < n; j++) v = fma(splat<T>(w[j]), load<T>(k[j] + i), v);
                store<T>(q + (p + 1) * size_ + i, v);
            }
        }
    }

    // W values of theta, from element e of a run on.
    Vec<T> thetas(const double* times, double start, double inverse) const {
        Vec<T> x;
        if constexpr (sizeof(T) == 8) {
            x = (load<double>(times) - splat<double>(start)) * splat<double>(inverse);
        } else {
            for (int i = 0; i < W; i++) x[i] = T((times[i] - start) * inverse);
        }
        return x;
    }

    void run_of_outputs(const Taken& s, T* out) {
        const int64_t n = state(), count = (s.end - s.output) * n, step = period();
        const int powers = tableau_.powers;
        table_.grow(step * (powers + 1));
        for (int p = 0; p <= powers; p++) {
            T* to = table_.data() + p * step;
            for (int64_t r = 0; r < rows_; r++)
                for (int64_t c = 0; c < cols(); c++) to[r * cols() + c] = dense_.data()[p * size_ + r * ld() + c];
            for (int64_t filled = n; filled < step; filled *= 2) std::memcpy(to + filled, to, sizeof(T) * std::min(filled, step - filled));
        }
        const double* times = times_.data() + s.output * n;
        T* to = out + s.output * n;
        const double inverse = 1 / s.h;
        for (int64_t e = 0, at = 0; e < count; e += W, at = at + W == step ? 0 : at + W) {
            const Vec<T> x = thetas(times + e, s.t, inverse);
            Vec<T> v = load<T>(table_.data() + powers * step + at);
            for (int p = powers - 1; p >= 0; p--) v = fma(v, x, load<T>(table_.data() + p * step + at));
            if (e + W <= count)
                store<T>(to + e, v);
            else
                store_n<T>(to + e, v, int(count - e));
        }
    }

    void add_output(int64_t index, const Taken& s, int64_t row, T* out) {
        const Vec<T> x = splat<T>(T(theta(s, index)));
        const T* q = dense_.data();
        const int64_t n = cols();
        for (int64_t r = 0; r < rows_; r++)
            for (int64_t c = 0; c < n; c += W) {
                const int64_t i = r * ld() + c;
                Vec<T> v = load<T>(q + tableau_.powers * size_ + i);
                for (int p = tableau_.powers - 1; p >= 0; p--) v = fma(v, x, load<T>(q + p * size_ + i));
                store_n<T>(out + (index * total_rows_ + row + r) * n + c, v, int(std::min<int64_t>(W, n - c)));
            }
    }

    void write_output(const T* y, int64_t index, int64_t row, T* out) {
        for (int64_t r = 0; r < rows_; r++)
            std::memcpy(out + (index * total_rows_ + row + r) * cols(), y + r * ld(), sizeof(T) * cols());
    }

    void backward_trajectory(size_t k, const T* gradient, T* to_y0, double* to_t) {
        const Trajectory &from = trajectories_[k], &until = trajectories_[k + 1];
        T *y = now_.data(), *carried = carried_.data();
        std::memset(y, 0, sizeof(T) * size_);
        std::memset(carried, 0, sizeof(T) * size_);
        for (size_t n = until.step; n-- > from.step;) backward_step(steps_[n], from.row, gradient, to_t);
        if (until.step > from.step && tableau_.first_same_as_last) {
            const int64_t first = steps_[from.step].first;
            std::memcpy(exec_.gradient(exec_.program().output, first), carried, sizeof(T) * size_);
            pull(first, 0, to_t);
            add(arrived_.data(), 1, y);
        }
        for (int64_t r = 0; r < rows_; r++)
            for (int64_t c = 0; c < cols(); c++)
                to_y0[(from.row + r) * cols() + c] = y[r * ld() + c] + gradient[(from.row + r) * cols() + c];
    }

    // now_ holds the gradient of y at the end of the step and becomes that at its beginning. The first stage's gradient
    // comes in, and goes out, in carried_ where it is the last stage of the step before. Each stage's gradient is summed
    // up once, in a register, when everything that it is made of is there.
    void backward_step(const Taken& s, int64_t row, const T* gradient, double* to_t) {
        const int last = tableau_.stages - 1;
        const bool shared = tableau_.first_same_as_last, outputs = s.end > s.output;
        T *y = now_.data(), *carried = carried_.data();
        const double scale = sign_ * s.h;
        if (outputs) from_outputs(s, row, gradient, to_t);
        int top = last;
        if (shared) {
            gather(s, last, outputs, carried, 1, last, exec_.gradient(exec_.program().output, evaluation_of(s, last)));
            pull(evaluation_of(s, last), last, to_t);
            add(arrived_.data() + last * size_, 1, y);
            top = last - 1;
        }
        for (int i = top; i >= 0; i--) {
            const int64_t e = evaluation_of(s, i);
            T* to = i == 0 && shared ? carried : exec_.gradient(exec_.program().output, e);
            gather(s, i, outputs, y, scale * (shared ? a(last, i) : tableau_.b[i]), top, to);
            if (i > 0 || !shared) pull(e, i, to_t);
        }
        for (int i = shared ? 1 : 0; i <= top; i++) add(arrived_.data() + i * size_, 1, y);
        if (outputs) add(power_gradients_.data(), 1, y);
    }

    // to = weight * from + what the outputs give to stage i + what the stages after it, up to `top`, give to it.
    void gather(const Taken& s, int i, bool outputs, const T* from, double weight, int top, T* to) {
        const T* x[32];
        T w[32];
        int n = 0;
        const auto term = [&](const T* values, double by) {
            x[n] = values;
            w[n] = T(by);
            n += by != 0;
        };
        const double scale = sign_ * s.h;
        term(from, weight);
        for (int p = 0; outputs && p < tableau_.powers; p++)
            term(power_gradients_.data() + (p + 1) * size_, scale * tableau_.dense[i * tableau_.powers + p]);
        for (int l = top; l > i; l--) term(arrived_.data() + l * size_, scale * a(l, i));
        for (int64_t k = 0; k < size_; k += W) {
            Vec<T> v{};
            for (int j = 0; j < n; j++) v = fma(splat<T>(w[j]), load<T>(x[j] + k), v);
            store<T>(to + k, v);
        }
    }

    // to += weight * from.
    void add(const T* from, double weight, T* to) {
        if (weight == 0) return;
        const Vec<T> w = splat<T>(T(weight));
        for (int64_t i = 0; i < size_; i += W) store<T>(to + i, fma(w, load<T>(from + i), load<T>(to + i)));
    }

    // Through one evaluation, whose gradient is in its place, to that of its argument, in arrived_[i].
    void pull(int64_t e, int i, double* to_t) {
        const Program& program = exec_.program();
        exec_.backward(e);
        std::memcpy(arrived_.data() + i * size_, exec_.gradient(program.input, e), sizeof(T) * size_);
        if (to_t && time_gradient_) to_t[0] += double(exec_.gradient(program.time, e)[0]);
    }

    void from_outputs(const Taken& s, int64_t row, const T* gradient, double* to_t) {
        const int powers = tableau_.powers;
        T* q = power_gradients_.data();
        std::memset(q, 0, sizeof(T) * size_ * (powers + 1));
        if (in_runs())
            from_run(s, gradient, q);
        else
            for (int64_t k = s.output; k < s.end; k++) from_output(s, k, row, gradient, q);
        for (int64_t k = s.output; to_t && k < s.end; k++) time_of_output(s, k, row, gradient, to_t);
    }

    // q[p] += theta^p times the gradient of the output.
    void from_output(const Taken& s, int64_t k, int64_t row, const T* gradient, T* q) {
        const Vec<T> x = splat<T>(T(theta(s, k)));
        const int64_t n = cols();
        for (int64_t r = 0; r < rows_; r++)
            for (int64_t c = 0; c < n; c += W) {
                const int64_t i = r * ld() + c;
                Vec<T> v = load_n<T>(gradient + (k * total_rows_ + row + r) * n + c, int(std::min<int64_t>(W, n - c)));
                for (int p = 0; p <= tableau_.powers; p++, v *= x) store<T>(q + p * size_ + i, load<T>(q + p * size_ + i) + v);
            }
    }

    // The same of a whole run: sums in a table that repeats like that of run_of_outputs, folded at the end.
    void from_run(const Taken& s, const T* gradient, T* q) {
        const int64_t n = state(), count = (s.end - s.output) * n, step = period();
        const int powers = tableau_.powers;
        table_.grow(step * (powers + 1));
        std::memset(table_.data(), 0, sizeof(T) * step * (powers + 1));
        const double* times = times_.data() + s.output * n;
        const T* from = gradient + s.output * n;
        const double inverse = 1 / s.h;
        for (int64_t e = 0, at = 0; e < count; e += W, at = at + W == step ? 0 : at + W) {
            const Vec<T> x = thetas(times + e, s.t, inverse);
            Vec<T> v = e + W <= count ? load<T>(from + e) : load_n<T>(from + e, int(count - e));
            for (int p = 0; p <= powers; p++, v *= x) {
                T* sum = table_.data() + p * step + at;
                store<T>(sum, load<T>(sum) + v);
            }
        }
        for (int p = 0; p <= powers; p++) {
            T* sum = table_.data() + p * step;
            for (int64_t half = step / 2; half >= n; half /= 2)  // n times a power of two: halves repeat alike
                for (int64_t e = 0; e < half; e += W) {
                    const int rest = int(std::min<int64_t>(W, half - e));
                    store_n<T>(sum + e, load_n<T>(sum + e, rest) + load_n<T>(sum + half + e, rest), rest);
                }
            for (int64_t r = 0; r < rows_; r++) std::memcpy(q + p * size_ + r * ld(), sum + r * cols(), sizeof(T) * cols());
        }
    }

    // d y(t_i) / d t_i is the polynomial's slope; the first time moves all steps with it.
    void time_of_output(const Taken& s, int64_t index, int64_t row, const T* gradient, double* to_t) {
        const double theta = this->theta(s, index);
        double slope = 0;
        for (int j = 0; j < tableau_.stages; j++) {
            double w = 0, power = 1;
            for (int p = 1; p <= tableau_.powers; p++, power *= theta) w += p * power * tableau_.dense[j * tableau_.powers + p - 1];
            const T* k = stage(evaluation_of(s, j));
            for (int64_t r = 0; r < rows_; r++)
                for (int64_t c = 0; c < cols(); c++)
                    slope += w * double(k[r * ld() + c]) * double(gradient[(index * total_rows_ + row + r) * cols() + c]);
        }
        to_t[index] += slope;
        to_t[0] -= slope;
    }
};

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
        start_.grow(rows * ode.cols() + Simd<T>::W);
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
            ode.backward(out_.data(), start_.data(), nullptr, int64_t(t.size()));
            all_rates<T>(method, groups, slots, rates_);
            for (size_t j = 0; j < slots.size(); j++) {
                const Slot<T>& slot = slots[j];
                update<T>(rates_[j], slot, ode.exec().parameter(slot.parameter), ode.exec().parameter_gradient(slot.parameter), T(1), 0,
                          slot.numel);
            }
        }
    }

  private:
    Buffer<T> out_, start_;
    std::vector<Rate<T>> rates_;
};

}  // namespace hotlap
