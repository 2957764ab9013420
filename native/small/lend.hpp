// Memory that tensors of torch's borrow. Gradients of each step, and batches of each epoch, lie where the last ones lay, if nobody
// has these any more: what malloc gives back for them may have been cut up meanwhile, by a loss that is kept, and fresh pages
// cost as much as a backward pass (a page fault for each 4 kB, and the zeros that Linux writes).
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "buffer.hpp"
#include "guard.hpp"

namespace hotlap {

// DLPack's DLManagedTensorVersioned.
struct Managed {
    uint32_t major, minor;
    void* owner;
    void (*drop)(Managed*);
    uint64_t flags;
    TensorView view;
};

template <class T>
class Lender {
  public:
    // A new dense tensor of this shape; whatever lies there.
    nb::object lend(std::vector<int64_t> shape) {
        auto loan = std::make_unique<Loan>();
        loan->shape = std::move(shape);
        loan->strides.resize(loan->shape.size());
        int64_t numel = 1;
        for (size_t i = loan->shape.size(); i-- > 0; numel *= loan->shape[i]) loan->strides[i] = numel;
        loan->memory = free_block(numel);
        loan->managed = {1, 0, loan.get(), [](Managed* m) { delete static_cast<Loan*>(m->owner); }, 0, {}};
        loan->managed.view = {loan->memory->data(), {1, 0}, int32_t(loan->shape.size()), {2, sizeof(T) * 8, 1}, loan->shape.data(),
                              loan->strides.data(), 0};
        PyObject* made = nullptr;
        if (exchange->to_object(&loan->managed, reinterpret_cast<void**>(&made))) nb::raise_python_error();
        loan.release();  // it is the tensor's now
        return nb::steal(made);
    }

  private:
    using Block = std::shared_ptr<Buffer<T>>;
    struct Loan {
        Managed managed;
        Block memory;
        std::vector<int64_t> shape, strides;
    };

    // Of more than this a script once had all at a time, and may never again: it is not kept.
    static constexpr int64_t MOST_BYTES = 64 << 20;

    int64_t bytes_ = 0;
    std::vector<Block> blocks_;

    Block free_block(int64_t numel) {
        for (Block& block : blocks_)
            if (block->size() == numel && block.use_count() == 1) {
                std::atomic_thread_fence(std::memory_order_acquire);  // whoever gave it back may be another thread
                return block;
            }
        auto fresh = std::make_shared<Buffer<T>>();
        fresh->grow(numel);
        const int64_t bytes = numel * int64_t(sizeof(T));
        if (bytes_ + bytes <= MOST_BYTES) {
            bytes_ += bytes;
            blocks_.push_back(fresh);
        }
        return fresh;
    }
};

}  // namespace hotlap
