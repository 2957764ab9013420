// Training steps of a small network: forward, loss, backward and update, on the user's own tensors.
#pragma once

#include <stdexcept>
#include <vector>

#include "exec.hpp"
#include "loss.hpp"
#include "update.hpp"

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
    Step(Program program, Criterion criterion, Update<T>& update, const Guard& guard)
        : update(update), guard(guard), exec_(std::move(program), false), criterion_(criterion) {}

    Update<T>& update;
    const Guard& guard;

    Exec<T>& exec() { return exec_; }

    double step(const Batch<T>& batch) {
        exec_.forward_batch(batch.x, batch.rows);
        if (labelled() && !labels_fit(criterion_, static_cast<const int64_t*>(batch.target), batch.rows, outputs()))
            throw std::out_of_range("a label names no column of the prediction");
        const int out = exec_.program().output;
        const Prediction<T> p{exec_.value(out), exec_.gradient(out), batch.rows, outputs(), exec_.ld(out)};
        const double loss = loss_and_gradient(criterion_, p, batch.target);
        exec_.backward_batch();
        Optimizer<T>& optimizer = update.optimizer;
        optimizer.step([&](size_t i) { return exec_.parameter_gradient(optimizer.slots[i].parameter); });
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

    int64_t inputs() const { return exec_.inputs(); }
    int64_t outputs() const { return exec_.outputs(); }
    bool labelled() const { return criterion_.loss == Loss::cross_entropy; }

  private:
    Exec<T> exec_;
    Criterion criterion_;
    Buffer<T> gathered_;
    Buffer<char> targets_;

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
