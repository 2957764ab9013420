// The Python function of hotlap.data.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "resample.hpp"

namespace hotlap {

namespace nb = nanobind;

// Addresses and sizes of pixels, as `Resample` has them.
using ResampleTuple = std::tuple<uintptr_t, int64_t, std::tuple<int, int, int, int>, std::tuple<int, int>, int, int, bool, bool, bool, uintptr_t>;

inline void resample_all(const std::vector<ResampleTuple>& wanted, int num_threads) {
    std::vector<Resample> jobs;
    for (const auto& [from, from_width, box, out, channels, filter, columns_first, mirrored, upside_down, to] : wanted) {
        const auto [left, top, right, bottom] = box;
        const auto [out_width, out_height] = out;
        jobs.push_back({reinterpret_cast<const uint8_t*>(from), from_width, channels, left, top, right - left, bottom - top, out_width,
                        out_height, Filter(filter), columns_first, mirrored, upside_down, reinterpret_cast<uint8_t*>(to)});
    }
    nb::gil_scoped_release release;
    resample(jobs, num_threads);
}

inline void bind_data(nb::module_& m) { m.def("resample", &resample_all); }

}  // namespace hotlap
