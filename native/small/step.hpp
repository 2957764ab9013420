// Training steps of a small network: forward, loss, backward and update, on the user's own tensors.
#pragma once

#include <stdexcept>
#include <vector>

#include "exec.hpp"
#include "loss.hpp"
#include "optimizer.hpp"

namespace hotlap {

// A batch whose rows lie one after the other: x (rows, inputs), target (rows, outputs) or labels (rows).
template <class T>
struct Batch {
    const T* x;
    const void* target;
    int64_t rows;
};

template <class T>
class Step {
  public:
    Step(Program program, Criterion criterion, Optimizer<T> optimizer)
        : optimizer(std::move(optimizer)), exec_(std::move(program), false), criterion_(criterion) {}

    Optimizer<T> optimizer;

    Exec<T>& exec() { return exec_; }

    double step(const Batch<T>& batch) {
        const double loss = forward(batch);
        exec_.begin_backward();
        exec_.backward(0);
        exec_.finish_backward();
        exec_.linear_gradients(1);
        optimizer.step([this](int p) { return exec_.with_gradient(p); });
        return loss;
    }

    // One pass over `num` samples in the given order (null: as they lie), `size` at a time. Returns the mean loss of its steps,
    // weighted by their rows.
    double epoch(const Batch<T>& all, const int64_t* order, int64_t size, bool drop_last) {
        double total = 0;
        int64_t seen = 0;
        for (int64_t first = 0; first < all.rows; first += size) {
            const int64_t rows = std::min(size, all.rows - first);
            if (rows < size && drop_last) break;
            total += step(order ? gather(all, order + first, rows) : slice(all, first, rows)) * double(rows);
            seen += rows;
        }
        return total / double(seen);
    }

    int64_t inputs() const { return exec_.cols(exec_.program().input); }
    int64_t outputs() const { return exec_.cols(exec_.program().output); }
    bool labelled() const { return criterion_.loss == Loss::cross_entropy; }

  private:
    Exec<T> exec_;
    Criterion criterion_;
    Buffer<T> gathered_;
    Buffer<char> targets_;

    double forward(const Batch<T>& batch) {
        const Program& program = exec_.program();
        exec_.reserve(1, batch.rows);
        exec_.take_input(batch.x);
        exec_.refresh();
        exec_.forward(0);
        const int out = program.output;
        if (labelled() && !labels_fit(criterion_, static_cast<const int64_t*>(batch.target), batch.rows, outputs()))
            throw std::out_of_range("a label names no column of the prediction");
        const Prediction<T> p{exec_.value(out), exec_.gradient(out), batch.rows, outputs(), exec_.ld(out)};
        return loss_and_gradient(criterion_, p, batch.target);
    }

    // Of the target of one row.
    int64_t target_bytes() const { return labelled() ? int64_t(sizeof(int64_t)) : outputs() * int64_t(sizeof(T)); }

    Batch<T> slice(const Batch<T>& all, int64_t first, int64_t rows) const {
        return {all.x + first * inputs(), static_cast<const char*>(all.target) + first * target_bytes(), rows};
    }

    Batch<T> gather(const Batch<T>& all, const int64_t* order, int64_t rows) {
        const int64_t in = inputs(), bytes = target_bytes();
        gathered_.grow(rows * in);
        targets_.grow(rows * bytes);
        for (int64_t r = 0; r < rows; r++) {
            const Batch<T> one = slice(all, order[r], 1);
            std::memcpy(gathered_.data() + r * in, one.x, sizeof(T) * in);
            std::memcpy(targets_.data() + r * bytes, one.target, bytes);
        }
        return {gathered_.data(), targets_.data(), rows};
    }
};

}  // namespace hotlap
