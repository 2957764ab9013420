// Rows of a table of bytes as numbers in [0, 1]: what `ToTensor` makes of pictures, gathered and divided in one pass.
#pragma once

#include <cmath>
#include <cstdint>

namespace hotlap {

// Rows at these positions of `table`, whose rows have `size` bytes, each byte over 255 in float32.
inline void gather_over_255(const uint8_t* table, int64_t size, const int64_t* positions, int64_t rows, float* to) {
    constexpr int64_t AHEAD = 4, LINE = 64;
    for (int64_t r = 0; r < rows; r++, to += size) {
        if (r + AHEAD < rows)
            for (int64_t line = 0; line < size; line += LINE) __builtin_prefetch(table + positions[r + AHEAD] * size + line);
        const uint8_t* from = table + positions[r] * size;
        // With what it lacks added once, the product is the quotient for each of the 256 bytes; a division takes longer.
        for (int64_t i = 0; i < size; i++) {
            const float byte = from[i], near = byte * (1.0f / 255);
            to[i] = std::fma(std::fma(-near, 255.0f, byte), 1.0f / 255, near);
        }
    }
}

}  // namespace hotlap
