// Training steps of a small network: forward, loss, backward and update, on the user's own tensors.
#pragma once

#include <optional>
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
    static constexpr int W = Simd<T>::W;

    Step(Program program, Criterion criterion, Method method)
        : exec_(std::move(program), false), criterion_(criterion), method_(method), slot_of_(exec_.program().parameters.size(), -1) {}

    Exec<T>& exec() { return exec_; }
    std::vector<Group>& groups() { return groups_; }

    void set_slots(std::vector<Slot<T>> slots) {
        slots_ = std::move(slots);
        std::fill(slot_of_.begin(), slot_of_.end(), -1);
        for (size_t i = 0; i < slots_.size(); i++) slot_of_[slots_[i].parameter] = int(i);
    }

    // The largest norm of all gradients together.
    void set_clip(double limit) { limit_ = limit; }

    double step(const Batch<T>& batch) {
        const double loss = forward(batch);
        exec_.begin_backward();
        exec_.backward(0);
        exec_.finish_backward();
        const NoDenormals here(method_, groups_);
        all_rates<T>(method_, groups_, slots_, rates_);
        if (limit_)
            update_clipped();
        else
            update_as_they_come();
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

    int64_t inputs() const { return exec_.program().values[exec_.program().input].cols; }
    int64_t outputs() const { return exec_.program().values[exec_.program().output].cols; }

  private:
    Exec<T> exec_;
    Criterion criterion_;
    Method method_;
    std::vector<Group> groups_;
    std::vector<Slot<T>> slots_;
    std::vector<Rate<T>> rates_;
    std::vector<int> slot_of_;
    std::optional<double> limit_;
    Buffer<T> gathered_, targets_, block_;
    Buffer<int64_t> labels_;

    bool labelled() const { return criterion_.loss == Loss::cross_entropy; }

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

    Batch<T> slice(const Batch<T>& all, int64_t first, int64_t rows) const {
        const void* target = labelled() ? static_cast<const void*>(static_cast<const int64_t*>(all.target) + first)
                                        : static_cast<const T*>(all.target) + first * outputs();
        return {all.x + first * inputs(), target, rows};
    }

    Batch<T> gather(const Batch<T>& all, const int64_t* order, int64_t rows) {
        const int64_t in = inputs(), out = outputs();
        gathered_.grow(rows * in);
        for (int64_t r = 0; r < rows; r++) std::memcpy(gathered_.data() + r * in, all.x + order[r] * in, sizeof(T) * in);
        if (labelled()) {
            labels_.grow(rows);
            for (int64_t r = 0; r < rows; r++) labels_.data()[r] = static_cast<const int64_t*>(all.target)[order[r]];
            return {gathered_.data(), labels_.data(), rows};
        }
        targets_.grow(rows * out);
        for (int64_t r = 0; r < rows; r++)
            std::memcpy(targets_.data() + r * out, static_cast<const T*>(all.target) + order[r] * out, sizeof(T) * out);
        return {gathered_.data(), targets_.data(), rows};
    }

    // Each weight is updated block by block while its gradient is still in the first cache. That is safe because all
    // gradients of values, which need the old weights, are there already; a weight that is used twice waits for its sum.
    void update_as_they_come() {
        const Program& program = exec_.program();
        for (size_t i = 0; i < program.nodes.size(); i++) {
            const Node& n = program.nodes[i];
            if (n.op != Op::linear) continue;
            if (in_passing(n))
                update_in_passing(n);
            else
                exec_.linear_gradient(i, 0, 1, false);
        }
        for (size_t i = 0; i < slots_.size(); i++)
            if (!done_in_passing(slots_[i].parameter)) update_whole(i, T(1));
    }

    bool in_passing(const Node& n) {
        if (!exec_.trained(n.weight) || exec_.uses(n.weight) != 1 || slot_of_[n.weight] < 0) return false;
        const int64_t in = exec_.cols(n.a), out = exec_.cols(n.out);
        // Every block of the weight reads the whole batch, which has to stay in the second cache for that.
        return !is_large<T>(exec_.rows(), in, out) && in >= W && in * out >= 1024 && exec_.rows() * in * int64_t(sizeof(T)) <= 262144;
    }

    bool done_in_passing(int parameter) {
        for (const Node& n : exec_.program().nodes)
            if (n.op == Op::linear && n.weight == parameter) return in_passing(n);
        return false;
    }

    void update_in_passing(const Node& n) {
        constexpr int64_t block_size = 6144;  // numbers: 24 KiB of float, beside the batch in a 32 KiB first cache
        const int64_t in = exec_.cols(n.a), out = exec_.cols(n.out);
        const int64_t rows = std::clamp<int64_t>(block_size / in / tile_rows * tile_rows, tile_rows, out);
        block_.grow(rows * in + W);
        const Slot<T>& slot = slots_[slot_of_[n.weight]];
        for (int64_t first = 0; first < out; first += rows) {
            const int64_t count = std::min(rows, out - first);
            exec_.weight_gradient(n, 0, 1, first, count, block_.data(), false);
            update<T>(rates_[slot_of_[n.weight]], slot, exec_.parameter(n.weight), block_.data(), T(1), first * in, count * in);
        }
        if (exec_.trained(n.bias)) exec_.bias_gradient(n, 0, 1);
    }

    void update_whole(size_t i, T scale) {
        const Slot<T>& slot = slots_[i];
        update<T>(rates_[i], slot, exec_.parameter(slot.parameter), exec_.parameter_gradient(slot.parameter), scale, 0, slot.numel);
    }

    // torch.nn.utils.clip_grad_norm_: all of them times limit / (norm + 1e-6), at most 1.
    void update_clipped() {
        exec_.linear_gradients(0, 1, false);
        const Program& program = exec_.program();
        double squares = 0;
        for (size_t p = 0; p < program.parameters.size(); p++) {
            const T* g = exec_.parameter_gradient(int(p));
            for (int64_t i = 0; program.parameters[p].trained && i < program.parameters[p].numel; i++) squares += double(g[i]) * double(g[i]);
        }
        const double scale = *limit_ / (std::sqrt(squares) + 1e-6);
        for (size_t i = 0; i < slots_.size(); i++) update_whole(i, T(scale > 1 ? 1 : scale));  // NaN stays NaN
    }
};

}  // namespace hotlap
