// One forward and one backward pass of a network, for the autograd of somebody else.
#pragma once

#include "exec.hpp"

namespace hotlap {

template <class T>
class Net {
  public:
    Net(Program program, bool input_gradient) : exec_(std::move(program), input_gradient) {}

    Exec<T>& exec() { return exec_; }
    int64_t inputs() const { return exec_.cols(exec_.program().input); }
    int64_t outputs() const { return exec_.cols(exec_.program().output); }

    // x (rows, inputs) has to stay as it is until backward(); out (rows, outputs).
    void forward(const T* x, int64_t rows, T* out) {
        exec_.reserve(1, rows);
        exec_.take_input(x);
        exec_.refresh();
        exec_.forward(0);
        copy_rows(exec_.value(exec_.program().output), exec_.ld(exec_.program().output), out, outputs(), outputs());
    }

    // From the gradient of `out` to those of x (may be null) and of the parameters, which Exec has afterwards.
    void backward(const T* gradient, T* to_x) {
        const Program& program = exec_.program();
        exec_.begin_backward();
        copy_rows(gradient, outputs(), exec_.gradient(program.output), exec_.ld(program.output), outputs());
        exec_.backward(0);
        exec_.finish_backward();
        exec_.linear_gradients(1);
        if (to_x) copy_rows(exec_.gradient(program.input), exec_.ld(program.input), to_x, inputs(), inputs());
    }

  private:
    Exec<T> exec_;

    void copy_rows(const T* from, int64_t ld_from, T* to, int64_t ld_to, int64_t cols) {
        if (ld_from == ld_to) return void(std::memcpy(to, from, sizeof(T) * exec_.rows() * cols));
        for (int64_t r = 0; r < exec_.rows(); r++) std::memcpy(to + r * ld_to, from + r * ld_from, sizeof(T) * cols);
    }
};

}  // namespace hotlap
