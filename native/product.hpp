// Products of any size: large ones are cut into parts that stay in the caches.
#pragma once

#include "buffer.hpp"
#include "matrix.hpp"

namespace hotlap {

// All rows against one block of columns, their numbers taken from pack_block().
template <class T>
void regrouped_rows(BroadcastArgs<T> g, int64_t rows, int vectors, int last, const T* block) {
    for (int64_t r0 = 0; r0 < rows;) {
        const int r = block_of(rows - r0, tile_rows);
        g.a = block;
        g.row_stride = 1;
        g.k_stride = r;
        broadcast_block<T>(g, r, 0, 0, vectors, last);
        g.c += r * g.ldc;
        block += r * g.K;
        r0 += r;
    }
}

// What a large product is cut into: a panel of M that stays in the first cache (24 of 32 KiB), and a block of A, where
// its numbers for one k are not neighbours of those for the next, that stays in the second (128 KiB).
template <class T>
struct Packing {
    static constexpr int64_t panel_cols = tile_vectors * Simd<T>::W, depth = 24576 / sizeof(T) / panel_cols;
    static constexpr int64_t block_rows = 131072 / sizeof(T) / depth / tile_rows * tile_rows;
    Buffer<T> panel, block;
};

// A panel of M, its last columns filled up with zeros.
template <class T>
void pack_panel(const BroadcastArgs<T>& g, int64_t k0, int64_t depth, int64_t n0, int vectors, int last, T* to) {
    constexpr int W = Simd<T>::W;
    const int whole = g.whole_m ? W : last;
    for (int64_t k = 0; k < depth; k++) {
        const T* row = g.m + (k0 + k) * g.ldm + n0;
        for (int v = 0; v < vectors - 1; v++) store<T>(to + v * W, load<T>(row + v * W));
        store<T>(to + (vectors - 1) * W, load_n<T>(row + (vectors - 1) * W, whole));
        to += vectors * W;
    }
}

// rows of A in groups as block_of() makes them, each group's numbers for one k side by side.
template <class T>
void pack_block(const BroadcastArgs<T>& g, int64_t r0, int64_t rows, int64_t k0, int64_t depth, T* to) {
    for (int64_t done = 0; done < rows;) {
        const int n = block_of(rows - done, tile_rows);
        const T* from = g.a + (r0 + done) * g.row_stride + k0 * g.k_stride;
        if (n == tile_rows && g.row_stride == 1)
            for (int64_t k = 0; k < depth; k++) __builtin_memcpy(to + k * tile_rows, from + k * g.k_stride, sizeof(T) * tile_rows);
        else
            for (int64_t k = 0; k < depth; k++)
                for (int r = 0; r < n; r++) to[k * n + r] = from[r * g.row_stride + k * g.k_stride];
        to += n * depth;
        done += n;
    }
}

// The same as multiply_broadcast (`start` only with whole_m), for products whose M does not stay in the first cache.
template <class T>
void multiply_large(const BroadcastArgs<T>& g, int64_t rows, int64_t cols, Packing<T>& packing) {
    using P = Packing<T>;
    constexpr int W = Simd<T>::W;
    const int64_t vectors = (cols + W - 1) / W;
    const int tail = int(cols - (vectors - 1) * W);
    const bool regroup = g.k_stride != 1;
    packing.panel.grow(P::depth * P::panel_cols);
    if (regroup) packing.block.grow(P::depth * P::block_rows);
    for (int64_t k0 = 0; k0 < g.K; k0 += P::depth) {
        const int64_t depth = std::min(P::depth, g.K - k0);
        for (int64_t r0 = 0; r0 < rows; r0 += P::block_rows) {
            const int64_t count = std::min(P::block_rows, rows - r0);
            if (regroup) pack_block(g, r0, count, k0, depth, packing.block.data());
            for (int64_t v0 = 0; v0 < vectors;) {
                const int n = block_of(vectors - v0, tile_vectors);
                const int last = v0 + n == vectors ? tail : W;
                pack_panel(g, k0, depth, v0 * W, n, last, packing.panel.data());
                BroadcastArgs<T> part{g.a + r0 * g.row_stride + k0, g.row_stride, 1, packing.panel.data(), n * W, depth,
                                      g.c + r0 * g.ldc + v0 * W, g.ldc, nullptr, g.accumulate || k0 > 0, true, g.whole_c};
                if (g.start && k0 == 0) part.start = g.start + v0 * W;
                if (!regroup)
                    broadcast_rows<T>(part, count, 0, n, last);
                else
                    regrouped_rows<T>(part, count, n, last, packing.block.data());
                v0 += n;
            }
        }
    }
}

// The product in the form that its size asks for.
template <class T>
void multiply(const BroadcastArgs<T>& g, int64_t rows, int64_t cols, Packing<T>& packing) {
    if (rows >= 8 * tile_rows && g.K * cols * int64_t(sizeof(T)) > 24576)
        multiply_large<T>(g, rows, cols, packing);
    else
        multiply_broadcast<T>(g, rows, cols);
}

}  // namespace hotlap
