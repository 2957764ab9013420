// A whole optimizer step on the `.grad` tensors that autograd left, found and checked without Python code.
#pragma once

#include "guard.hpp"
#include "optimizer.hpp"

namespace hotlap {

template <class T>
class Update {
  public:
    Update(Method method, std::vector<Group> groups, std::vector<Slot<T>> slots, std::vector<T*> data)
        : groups(std::move(groups)), method_(method), slots_(std::move(slots)), data_(std::move(data)) {
        grad_ = PyUnicode_InternFromString("grad");
    }
    Update(const Update&) = delete;
    ~Update() {
        Py_XDECREF(grad_);
        drop();
        for (PyObject* p : parameters_) Py_DECREF(p);
    }

    std::vector<Group> groups;

    void add_parameter(PyObject* p) {
        Py_INCREF(p);
        parameters_.push_back(p);
    }

    // Numbers that are updated.
    int64_t numel() const {
        int64_t n = 0;
        for (const Slot<T>& slot : slots_) n += slot.numel;
        return n;
    }

    // Find the gradients, and keep them alive until drop(). False where one is missing or not dense, where a guard does not
    // hold, and while another thread is in run().
    bool find(const Guard& guard, const Guard& settings, const Exchange& exchange) {
        if (!kept_.empty() || !guard.holds() || !settings.holds() || !settings.read_rates(groups)) return false;
        for (size_t i = 0; i < parameters_.size(); i++) {
            PyObject* g = PyObject_GetAttr(parameters_[i], grad_);
            if (!g) {
                PyErr_Clear();
                return drop();
            }
            TensorView v{};
            kept_.push_back(g);
            if (g == Py_None || !exchange.view(g, v) || !v.is(2, sizeof(T) * 8) || !v.dense() || v.numel() != slots_[i].numel)
                return drop();
            gradients_.push_back(static_cast<const T*>(v.start()));
        }
        return true;
    }

    // Update all parameters; needs no lock of the interpreter's.
    void run() {
        update_all<T>(method_, groups, slots_, [this](size_t i) { return std::pair(data_[i], gradients_[i]); });
    }

    bool drop() {
        for (PyObject* g : kept_) Py_DECREF(g);
        kept_.clear();
        gradients_.clear();
        return false;
    }

  private:
    Method method_;
    std::vector<Slot<T>> slots_;
    std::vector<T*> data_;
    std::vector<PyObject*> parameters_, kept_;
    std::vector<const T*> gradients_;
    PyObject* grad_;
};

}  // namespace hotlap
