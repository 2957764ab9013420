// A whole optimizer step on the `.grad` tensors that autograd left, found and checked without Python code.
#pragma once

#include "guard.hpp"
#include "optimizer.hpp"

namespace hotlap {

template <class T>
class Update {
  public:
    // `parameters`: those of the slots, in their order.
    Update(Optimizer<T> optimizer, const std::vector<PyObject*>& parameters) : optimizer(std::move(optimizer)) {
        if (parameters.size() != this->optimizer.slots.size()) throw std::invalid_argument("one parameter for each slot is expected");
        for (PyObject* p : parameters) {
            TensorView v{};
            if (!look_into(p, v)) throw std::invalid_argument("not a tensor with a view");
            Py_INCREF(p);
            parameters_.push_back(p);
            data_.push_back(static_cast<T*>(v.start()));
        }
    }
    Update(const Update&) = delete;
    ~Update() {
        Py_XDECREF(grad_);
        drop();
        for (PyObject* p : parameters_) Py_DECREF(p);
    }

    Optimizer<T> optimizer;

    // Numbers that are updated.
    int64_t numel() const {
        int64_t n = 0;
        for (const Slot<T>& slot : optimizer.slots) n += slot.numel;
        return n;
    }

    // Find the gradients, and keep them alive until drop(). False where one is missing or not dense, where a guard does not
    // hold, and while another thread is in run().
    bool find(const Guard& guard, const Guard& settings) {
        if (!kept_.empty() || !guard.holds() || !settings.holds() || !settings.read_rates(optimizer.groups)) return false;
        for (size_t i = 0; i < parameters_.size(); i++) {
            PyObject* g = PyObject_GetAttr(parameters_[i], grad_);
            if (!g) {
                PyErr_Clear();
                return drop();
            }
            TensorView v{};
            kept_.push_back(g);
            if (g == Py_None || !look_into(g, v) || !v.is(2, sizeof(T) * 8) || !v.dense() || v.numel() != optimizer.slots[i].numel)
                return drop();
            gradients_.push_back(static_cast<const T*>(v.start()));
        }
        return true;
    }

    // Update all parameters; needs no lock of the interpreter's.
    void run() {
        optimizer.step([this](int p) { return std::pair(data_[p], gradients_[p]); });
    }

    bool drop() {
        for (PyObject* g : kept_) Py_DECREF(g);
        kept_.clear();
        gradients_.clear();
        return false;
    }

  private:
    std::vector<T*> data_;
    std::vector<PyObject*> parameters_, kept_;
    std::vector<const T*> gradients_;
    PyObject* grad_ = PyUnicode_InternFromString("grad");
};

}  // namespace hotlap
