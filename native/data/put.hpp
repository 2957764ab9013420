// Numbers in [0, 1] back into the bytes that `ToTensor` made them of.
#pragma once

#include <bit>
#include <cstdint>

namespace hotlap {

// The bytes that become these very numbers when they are divided by 255 in float32; false if one is of no byte.
inline bool times_255(const float* from, int64_t size, uint8_t* to) {
    int32_t differs = 0;
    for (int64_t i = 0; i < size; i++) {
        const float scaled = from[i] * 255.0f;
        const int32_t byte = int32_t(scaled >= 0 && scaled < 255.5f ? scaled + 0.5f : 0.0f);
        differs |= std::bit_cast<int32_t>(float(byte) / 255.0f) ^ std::bit_cast<int32_t>(from[i]);
        to[i] = uint8_t(byte);
    }
    return !differs;
}

}  // namespace hotlap
