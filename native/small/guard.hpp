// Notices between two calls that what a native step was made from is no longer what it was.
//
// All checks are of identity or of a tensor's description, some tens of nanoseconds each, because a whole step of a
// tiny network takes a microsecond.
#pragma once

#include <Python.h>

#include <cstdint>
#include <stdexcept>
#include <vector>

namespace hotlap {

// DLPack's description of a tensor and torch's C functions that fill it in (dlpack.h 1.2, Apache-2.0: a stable ABI).
struct TensorView {
    void* data;
    struct {
        int32_t type, id;
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t* shape;
    int64_t* strides;
    uint64_t byte_offset;

    void* start() const { return static_cast<char*>(data) + byte_offset; }
    bool is(int code, int bits) const { return dtype.code == code && dtype.bits == bits && dtype.lanes == 1 && device.type == 1; }

    // Elements one after the other, in rows.
    bool dense() const {
        int64_t expected = 1;
        for (int i = ndim - 1; i >= 0 && numel() > 0; i--) {
            if (shape[i] != 1 && strides && strides[i] != expected) return false;
            expected *= shape[i];
        }
        return true;
    }
    int64_t numel() const {
        int64_t n = 1;
        for (int i = 0; i < ndim; i++) n *= shape[i];
        return n;
    }
};

struct Exchange {
    uint32_t major, minor;
    Exchange* previous;
    void *allocate, *from_object, *to_object;
    int (*view)(void* object, TensorView* out);
    void* stream;
};

// torch's, once the module was given it.
inline const Exchange* exchange = nullptr;

// From the capsule `torch.Tensor.__dlpack_c_exchange_api__`; false where it is none that we know.
inline bool set_exchange(PyObject* capsule) {
    if (!PyCapsule_IsValid(capsule, "dlpack_exchange_api")) return false;
    const auto* given = static_cast<Exchange*>(PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
    if (given->major != 1 || !given->view) return false;
    exchange = given;
    return true;
}

// False, with no Python error set, where `tensor` has no such view.
inline bool look_into(PyObject* tensor, TensorView& out) {
    if (exchange && exchange->view(tensor, &out) == 0) return true;
    PyErr_Clear();
    return false;
}

class Guard {
  public:
    Guard() = default;
    Guard(const Guard&) = delete;
    ~Guard() {
        for (PyObject* o : owned_) Py_DECREF(o);
    }

    void tensor(PyObject* t) {
        TensorView v{};
        if (!look_into(t, v)) throw std::invalid_argument("not a tensor with a view");
        tensors_.push_back({keep(t), v.start(), std::vector<int64_t>(v.shape, v.shape + v.ndim), v.dtype.bits});
    }
    void entry(PyObject* dict, PyObject* key, PyObject* expected) { entries_.push_back({keep(dict), keep(key), keep(expected)}); }
    void size(PyObject* dict, int64_t expected) { sizes_.push_back({keep(dict), expected}); }
    void attribute(PyObject* o, PyObject* name, PyObject* expected) { attributes_.push_back({keep(o), keep(name), keep(expected)}); }
    void rate(PyObject* group, PyObject* key) { rates_.push_back({keep(group), keep(key), nullptr}); }

    bool holds() const {
        for (const auto& s : sizes_)
            if (PyObject_Size(s.dict) != s.expected) return false;
        for (const auto& e : entries_)
            if (PyDict_GetItem(e.object, e.key) != e.expected) return false;
        for (const auto& a : attributes_) {
            PyObject* now = PyObject_GetAttr(a.object, a.key);
            const bool is_same = now && same_value(now, a.expected);
            Py_XDECREF(now);
            if (!now) PyErr_Clear();
            if (!is_same) return false;
        }
        for (const auto& t : tensors_)
            if (!same(t)) return false;
        return true;
    }

    // The learning rates as they are now; false where one is no number.
    template <class Groups>
    bool read_rates(Groups& groups) const {
        for (size_t i = 0; i < rates_.size(); i++) {
            PyObject* lr = PyDict_GetItem(rates_[i].object, rates_[i].key);
            if (!lr || !(PyFloat_Check(lr) || PyLong_Check(lr))) return false;
            groups[i].lr = PyFloat_AsDouble(lr);
        }
        return true;
    }

  private:
    struct Tensor {
        PyObject* object;
        void* data;
        std::vector<int64_t> shape;
        int bits;
    };
    struct Entry {
        PyObject *object, *key, *expected;
    };
    struct Size {
        PyObject* dict;
        int64_t expected;
    };

    PyObject* keep(PyObject* o) {
        Py_INCREF(o);
        owned_.push_back(o);
        return o;
    }

    // Whole numbers by what they say, all else by identity.
    static bool same_value(PyObject* now, PyObject* expected) {
        if (now == expected || !PyLong_CheckExact(now) || !PyLong_CheckExact(expected)) return now == expected;
        return PyObject_RichCompareBool(now, expected, Py_EQ) == 1;
    }

    bool same(const Tensor& t) const {
        TensorView v{};
        if (!look_into(t.object, v)) return false;
        if (v.start() != t.data || v.ndim != int(t.shape.size()) || v.dtype.bits != t.bits || v.device.type != 1) return false;
        for (int i = 0; i < v.ndim; i++)
            if (v.shape[i] != t.shape[i]) return false;
        return v.dense();
    }

    std::vector<PyObject*> owned_;
    std::vector<Tensor> tensors_;
    std::vector<Entry> entries_, attributes_, rates_;
    std::vector<Size> sizes_;
};

}  // namespace hotlap
