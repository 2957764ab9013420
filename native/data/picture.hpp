// The bytes of a picture where Pillow keeps them.
#pragma once

#include <cstdint>

namespace hotlap {

// As the C data interface of Apache Arrow has it (arrow.apache.org/docs/format/CDataInterface.html).
struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void** buffers;
    ArrowArray** children;
    ArrowArray* dictionary;
    void (*release)(ArrowArray*);
    void* private_data;
};

// A row of so many bytes, be it the array itself (one channel) or what its pixels consist of (four); null: it is none.
inline const void* bytes_of(const ArrowArray* array, int64_t size) {
    if (array && array->n_children == 1) array = array->children[0];
    const bool known = array && array->n_buffers == 2 && array->offset == 0 && array->length == size;
    return known ? array->buffers[1] : nullptr;
}

}  // namespace hotlap
