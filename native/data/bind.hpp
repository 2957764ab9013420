// The Python function of hotlap.data.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>

#include "resample.hpp"

namespace hotlap {

namespace nb = nanobind;

// Addresses and sizes of pixels, as `Resample` has them.
inline void resample(uintptr_t from, int64_t from_width, std::tuple<int, int, int, int> box, std::tuple<int, int> out, int channels,
                     int filter, bool columns_first, bool mirrored, bool upside_down, uintptr_t to) {
    const auto [left, top, right, bottom] = box;
    const auto [out_width, out_height] = out;
    const Resample job{reinterpret_cast<const uint8_t*>(from), from_width, channels, left, top, right - left, bottom - top, out_width,
                       out_height, Filter(filter), columns_first, mirrored, upside_down, reinterpret_cast<uint8_t*>(to)};
    nb::gil_scoped_release release;
    Resampler().run(job);
}

inline void bind_data(nb::module_& m) { m.def("resample", &resample); }

}  // namespace hotlap
