// The Python functions of hotlap.data.
#pragma once

#include <algorithm>

#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "gather.hpp"
#include "picture.hpp"
#include "put.hpp"
#include "resample.hpp"

namespace hotlap {

namespace nb = nanobind;

// Addresses and sizes of pixels, as `Resample` has them.
using Wanted = std::tuple<uintptr_t, int64_t, std::tuple<int, int, int, int>, std::tuple<int, int>, int, int, bool, bool, bool>;

inline Resample job_of(const Wanted& wanted, uintptr_t to) {
    const auto& [from, from_width, box, out, channels, filter, columns_first, mirrored, upside_down] = wanted;
    const auto [left, top, right, bottom] = box;
    const auto [out_width, out_height] = out;
    return {reinterpret_cast<const uint8_t*>(from), from_width, channels, left, top, right - left, bottom - top, out_width,
            out_height, Filter(filter), columns_first, mirrored, upside_down, reinterpret_cast<uint8_t*>(to)};
}

inline void resample(const Wanted& wanted, uintptr_t to) {
    const Resample job = job_of(wanted, to);
    nb::gil_scoped_release release;
    Resampler().run(job);
}

// `wanted`: of one picture at least. `table`, `to`: addresses of float32 numbers.
inline void resample_all(const std::vector<Wanted>& wanted, uintptr_t table, int64_t plane, int64_t pixel, uintptr_t to) {
    std::vector<Resample> jobs;
    for (const Wanted& one : wanted) jobs.push_back(job_of(one, 0));
    nb::gil_scoped_release release;
    resample_batch(jobs, reinterpret_cast<const float*>(table), plane, pixel, reinterpret_cast<float*>(to));
}

inline void gather(uintptr_t table, int64_t size, uintptr_t positions, int64_t rows, uintptr_t to) {
    nb::gil_scoped_release release;
    gather_over_255(reinterpret_cast<const uint8_t*>(table), size, reinterpret_cast<const int64_t*>(positions), rows,
                    reinterpret_cast<float*>(to));
}

// `exported`: the capsule "arrow_array" of a picture, which must live as long as what is returned. ValueError: they are not one row.
inline nb::object picture_bytes(nb::handle exported, int64_t size) {
    const auto* array = static_cast<const ArrowArray*>(PyCapsule_GetPointer(exported.ptr(), "arrow_array"));
    const void* found = bytes_of(array, size);
    if (!found) throw nb::value_error("not a row of so many bytes");
    return nb::steal(PyMemoryView_FromMemory(static_cast<char*>(const_cast<void*>(found)), size, PyBUF_READ));
}

// Rows of `size` numbers at these addresses become rows of `table` at these positions; false where one is not of bytes.
inline bool put(uintptr_t table, int64_t size, uintptr_t positions, const std::vector<uintptr_t>& rows) {
    bool fits = true;
    for (size_t r = 0; r < rows.size() && fits; r++)
        fits = times_255(reinterpret_cast<const float*>(rows[r]), size,
                         reinterpret_cast<uint8_t*>(table) + reinterpret_cast<const int64_t*>(positions)[r] * size);
    return fits;
}

// True if these entries of two lists are the same objects; false also where a number is none of a place in both.
inline bool same_entries(nb::list now, nb::list then, nb::list numbers) {
    const Py_ssize_t length = std::min(PyList_Size(now.ptr()), PyList_Size(then.ptr()));
    for (Py_ssize_t i = 0, count = PyList_Size(numbers.ptr()); i < count; i++) {
        const Py_ssize_t at = PyLong_AsSsize_t(PyList_GetItem(numbers.ptr(), i));
        if (at < 0 || at >= length) {
            PyErr_Clear();  // of what is no number, or a long one
            return false;
        }
        if (PyList_GetItem(now.ptr(), at) != PyList_GetItem(then.ptr(), at)) return false;
    }
    return true;
}

inline void bind_data(nb::module_& m) {
    m.def("resample", &resample);
    m.def("resample_batch", &resample_all);
    m.def("gather_over_255", &gather);
    m.def("put_times_255", &put);
    m.def("picture_bytes", &picture_bytes);
    m.def("same_entries", &same_entries);
}

}  // namespace hotlap
