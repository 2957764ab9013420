// Memory that tensors of torch's borrow. Gradients of each step lie where those of the last one lay, if nobody has these any
// more: what malloc gives back for them may have been cut up meanwhile, by a loss that is kept, and fresh pages cost as much as
// the backward pass (a page fault for each 4 kB, and the zeros that Linux writes).
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
    // A new tensor of the form of `like`, which is dense; whatever lies there.
    nb::object lend(nb::handle like) {
        const TensorView form = view_of(like);
        auto loan = std::make_unique<Loan>();
        loan->memory = free_block(form.numel());
        loan->shape.assign(form.shape, form.shape + form.ndim);
        loan->strides.assign(form.strides, form.strides + form.ndim);
        loan->managed = {1, 0, loan.get(), [](Managed* m) { delete static_cast<Loan*>(m->owner); }, 0, form};
        TensorView& view = loan->managed.view;
        view.data = loan->memory->data(), view.byte_offset = 0;
        view.shape = loan->shape.data(), view.strides = loan->strides.data();
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

    // What nobody has borrowed twice over is let go: a script may keep its gradients for a while.
    static constexpr size_t MOST = 64;

    std::vector<Block> blocks_;

    Block free_block(int64_t numel) {
        for (Block& block : blocks_)
            if (block->size() == numel && block.use_count() == 1) {
                std::atomic_thread_fence(std::memory_order_acquire);  // whoever gave it back may be another thread
                return block;
            }
        auto fresh = std::make_shared<Buffer<T>>();
        fresh->grow(numel);
        if (blocks_.size() < MOST) blocks_.push_back(fresh);
        return fresh;
    }
};

}  // namespace hotlap
