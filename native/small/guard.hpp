// Notices between two calls that what a native step was made from is no longer what it was.
//
// All checks are of identity or of a tensor's description, some tens of nanoseconds each, because a whole step of a
// tiny network takes a microsecond.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace hotlap {

namespace nb = nanobind;

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
        bool rows = true;
        for (int i = ndim - 1; i >= 0; i--) {
            rows &= shape[i] == 1 || !strides || strides[i] == expected;
            expected *= shape[i];
        }
        return rows || expected == 0;
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
    void *allocate, *from_object;
    int (*to_object)(void* managed, void** out);
    int (*view)(void* object, TensorView* out);
    void* stream;
};

// torch's, once the module was given it.
inline const Exchange* exchange = nullptr;

// From the capsule `torch.Tensor.__dlpack_c_exchange_api__`; false where it is none that we know.
inline bool set_exchange(PyObject* capsule) {
    if (!PyCapsule_IsValid(capsule, "dlpack_exchange_api")) return false;
    const auto* given = static_cast<Exchange*>(PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
    if (given->major != 1 || !given->view || !given->to_object) return false;
    exchange = given;
    return true;
}

// False, with no Python error set, where `tensor` has no such view.
inline bool look_into(PyObject* tensor, TensorView& out) {
    if (exchange && exchange->view(tensor, &out) == 0) return true;
    PyErr_Clear();
    return false;
}

inline TensorView view_of(nb::handle tensor) {
    TensorView v{};
    if (!look_into(tensor.ptr(), v)) throw std::invalid_argument("not a tensor with a view");
    return v;
}

class Guard {
  public:
    // Where it lies, and its form; one that cannot be looked into, or lies elsewhere, is left out.
    void tensor(nb::handle t) {
        TensorView v{};
        if (!look_into(t.ptr(), v) || v.device.type != 1) return;
        tensors_.push_back({nb::borrow(t), v, std::vector<int64_t>(v.shape, v.shape + v.ndim)});
        tensors_.back().form.insert(tensors_.back().form.end(), v.strides, v.strides + v.ndim);
    }
    // An attribute that its class computes in C, as a tensor's do, is asked for there: to find it takes as long.
    void attribute(nb::handle o, nb::handle name, nb::handle expected) {
        const nb::object found = nb::getattr(o.type(), name, nb::none());
        const bool in_c = Py_IS_TYPE(found.ptr(), &PyGetSetDescr_Type);
        attributes_.push_back({nb::borrow(o), nb::borrow(name), nb::borrow(expected),
                               in_c ? reinterpret_cast<PyGetSetDescrObject*>(found.ptr())->d_getset : nullptr});
    }
    void entry(nb::handle dict, nb::handle key, nb::handle expected) {
        entries_.push_back({nb::borrow(dict), nb::borrow(key), nb::borrow(expected), nullptr});
    }
    // What a function of no arguments returns.
    void result(nb::handle function, nb::handle expected) { results_.push_back({nb::borrow(function), {}, nb::borrow(expected), nullptr}); }
    // How much a dict holds now.
    void size(nb::dict dict) { sizes_.push_back({dict, PyDict_GET_SIZE(dict.ptr())}); }

    // All that a dict or a list holds now, in its order.
    void contents(nb::handle container) {
        Contents made{nb::borrow(container), {}};
        each(container.ptr(), [&](PyObject* o) {
            made.items.push_back(nb::borrow(o));
            return true;
        });
        contents_.push_back(std::move(made));
    }

    bool holds() const {
        for (const auto& s : sizes_)
            if (PyDict_GET_SIZE(s.dict.ptr()) != s.expected) return false;
        for (const auto& c : contents_)
            if (!same(c)) return false;
        for (const auto& e : entries_)
            if (PyDict_GetItem(e.object.ptr(), e.key.ptr()) != e.expected.ptr()) return false;
        for (const auto& a : attributes_)
            if (!same(a)) return false;
        for (const auto& t : tensors_)
            if (!same(t)) return false;
        for (const auto& r : results_) {
            const nb::object now = nb::steal(PyObject_CallNoArgs(r.object.ptr()));
            if (!now) PyErr_Clear();
            if (now.ptr() != r.expected.ptr()) return false;
        }
        return true;
    }

  private:
    struct Tensor {
        nb::object object;
        TensorView view;  // whose shape and strides are void
        std::vector<int64_t> form;
    };
    struct Entry {
        nb::object object, key, expected;
        PyGetSetDef* in_c;
    };
    struct Size {
        nb::dict dict;
        int64_t expected;
    };
    struct Contents {
        nb::object container;
        std::vector<nb::object> items;
    };

    // Whether f is true of each key and value of a dict, or of each item of a list.
    template <class F>
    static bool each(PyObject* container, F f) {
        if (PyDict_Check(container)) {
            PyObject *key, *value;
            for (Py_ssize_t at = 0; PyDict_Next(container, &at, &key, &value);)
                if (!f(key) || !f(value)) return false;
        } else {
            for (Py_ssize_t i = 0; i < PyList_GET_SIZE(container); i++)
                if (!f(PyList_GET_ITEM(container, i))) return false;
        }
        return true;
    }

    static bool same(const Contents& c) {
        size_t n = 0;
        return each(c.container.ptr(), [&](PyObject* o) { return n < c.items.size() && c.items[n++].ptr() == o; }) && n == c.items.size();
    }

    // Whole numbers by what they say, all else by identity.
    static bool same(const Entry& a) {
        PyObject* o = a.object.ptr();
        PyObject *now = a.in_c ? a.in_c->get(o, a.in_c->closure) : PyObject_GetAttr(o, a.key.ptr()), *expected = a.expected.ptr();
        if (!now) PyErr_Clear();
        bool is_same = now == expected;
        if (now && !is_same && PyLong_CheckExact(now) && PyLong_CheckExact(expected))
            is_same = PyObject_RichCompareBool(now, expected, Py_EQ) == 1;
        Py_XDECREF(now);
        return is_same;
    }

    static bool same(const Tensor& t) {
        TensorView v{};
        const bool is_there = look_into(t.object.ptr(), v) && v.start() == t.view.start() && v.ndim == t.view.ndim;
        if (!is_there || !v.is(t.view.dtype.code, t.view.dtype.bits)) return false;
        const auto strides = t.form.begin() + v.ndim;
        return std::equal(t.form.begin(), strides, v.shape) && std::equal(strides, t.form.end(), v.strides);
    }

    std::vector<Tensor> tensors_;
    std::vector<Entry> entries_, attributes_, results_;
    std::vector<Size> sizes_;
    std::vector<Contents> contents_;
};

}  // namespace hotlap
