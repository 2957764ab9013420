// A part of a picture of bytes, resized and turned over as Pillow does it: the same bytes, several at a time.
//
// Pillow (src/libImaging/Resample.c) rounds the weights of its filter to whole numbers of 22 bits, sums bytes times
// weights in 32 bits, and rounds to a byte after the pass along the rows and after the one along the columns; which of
// them comes first, the caller says. Whole numbers come out the same in whatever order they are added, and weights are
// computed by the same operations as there.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "../threads.hpp"
#include "../transpose.hpp"

namespace hotlap {

constexpr int WEIGHT_BITS = 22;
constexpr int LANES = 16;

typedef uint8_t Bytes __attribute__((vector_size(LANES)));

enum class Filter { BILINEAR = 2, BICUBIC = 3 };  // Pillow's numbers

inline double weight_at(Filter filter, double x) {
    if (x < 0.0) x = -x;
    if (filter == Filter::BILINEAR) return x < 1.0 ? 1.0 - x : 0.0;
    constexpr double a = -0.5;
    if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
    if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * a;
    return 0.0;
}

// Which of `in` pixels make each of `out`, and with which weights.
struct Weights {
    struct Span {
        int first, count;
        const int32_t* weights;
    };
    std::vector<Span> spans;

    Weights(int in, int out, Filter filter, bool turned) : spans(out) {
        const double scale = double(in) / out;
        const double wide = std::max(scale, 1.0);
        const double support = (filter == Filter::BILINEAR ? 1.0 : 2.0) * wide;
        const int most = int(std::ceil(support)) * 2 + 1;
        rounded_.resize(size_t(out) * most);
        std::vector<double> exact(most);
        for (int i = 0; i < out; i++) {
            int32_t* rounded = &rounded_[size_t(i) * most];
            Span& span = spans[turned ? out - 1 - i : i];
            span = {i, 1, rounded};
            rounded[0] = 1 << WEIGHT_BITS;
            if (in == out) continue;  // Pillow leaves the pass out
            const double center = (i + 0.5) * scale;
            const double inverse = 1.0 / wide;
            span.first = std::max(0, int(center - support + 0.5));
            span.count = std::min(in, int(center + support + 0.5)) - span.first;
            double sum = 0.0;
            for (int k = 0; k < span.count; k++) sum += exact[k] = weight_at(filter, (k + span.first - center + 0.5) * inverse);
            for (int k = 0; k < span.count; k++) {
                const double scaled = (sum != 0.0 ? exact[k] / sum : exact[k]) * (1 << WEIGHT_BITS);
                rounded[k] = int32_t(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
            }
        }
    }

  private:
    std::vector<int32_t> rounded_;
};

// A part of a picture (rows of `channels` bytes a pixel, one after the other) -> a whole picture.
struct Resample {
    const uint8_t* from;
    int64_t from_width;
    int channels, left, top, width, height;
    int out_width, out_height;
    Filter filter;
    bool columns_first, mirrored, upside_down;
    uint8_t* to;
};

// The first n bytes; nothing beyond them is touched.
inline Bytes load_bytes(const uint8_t* p, int64_t n) {
    Bytes v{};
    if (n >= LANES)
        std::memcpy(&v, p, LANES);
    else
        std::memcpy(&v, p, n);
    return v;
}

inline void store_bytes(uint8_t* p, Bytes v, int64_t n) {
    if (n >= LANES)
        std::memcpy(p, &v, LANES);
    else
        std::memcpy(p, &v, n);
}

// The sum of vectors that lie `step` bytes apart, of which n bytes count, as bytes.
inline Bytes weighted(const uint8_t* from, int64_t step, const Weights::Span& span, int64_t n) {
    constexpr int half = 1 << (WEIGHT_BITS - 1);
#if defined(HOTLAP_AVX2)  // with 512-bit vectors GCC does as well by itself; with these it takes twice as long
    __m256i low = _mm256_set1_epi32(half), high = low;
    for (int k = 0; k < span.count; k++) {
        const __m256i weight = _mm256_set1_epi32(span.weights[k]);
        const __m128i bytes = (__m128i)load_bytes(from + k * step, n);
        low = _mm256_add_epi32(low, _mm256_mullo_epi32(_mm256_cvtepu8_epi32(bytes), weight));
        high = _mm256_add_epi32(high, _mm256_mullo_epi32(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)), weight));
    }
    low = _mm256_srai_epi32(low, WEIGHT_BITS);
    high = _mm256_srai_epi32(high, WEIGHT_BITS);
    // Packed with signs, and to bytes without: what is below 0 or above 255 ends there.
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xD8);
    return (Bytes)_mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
#else
    int32_t sums[LANES];
    std::fill(sums, sums + LANES, half);
    for (int k = 0; k < span.count; k++) {
        const Bytes bytes = load_bytes(from + k * step, n);
        for (int i = 0; i < LANES; i++) sums[i] += bytes[i] * span.weights[k];
    }
    Bytes made;
    for (int i = 0; i < LANES; i++) made[i] = uint8_t(std::clamp(sums[i] >> WEIGHT_BITS, 0, 255));
    return made;
#endif
}

class Resampler {
  public:
    void run(const Resample& job) {
        const uint8_t* from = job.from + (job.top * job.from_width + job.left) * job.channels;
        const int64_t stride = job.from_width * job.channels, out_bytes = int64_t(job.out_width) * job.channels;
        if (job.width == job.out_width && job.height == job.out_height && !job.mirrored && !job.upside_down) {
            for (int row = 0; row < job.height; row++) std::memcpy(job.to + row * out_bytes, from + row * stride, out_bytes);
            return;
        }
        const Weights along_rows(job.width, job.out_width, job.filter, job.mirrored);
        const Weights along_columns(job.height, job.out_height, job.filter, job.upside_down);
        const int64_t in_bytes = int64_t(job.width) * job.channels;
        between_.resize(job.columns_first ? job.out_height * in_bytes : job.height * out_bytes);
        if (job.columns_first) {
            shrink_columns(from, stride, in_bytes, along_columns, between_.data());
            shrink_rows(between_.data(), in_bytes, job.out_height, job, along_rows, job.to);
        } else {
            shrink_rows(from, stride, job.height, job, along_rows, between_.data());
            shrink_columns(between_.data(), out_bytes, out_bytes, along_columns, job.to);
        }
    }

  private:
    static void shrink_columns(const uint8_t* from, int64_t stride, int64_t row_bytes, const Weights& weights, uint8_t* to) {
        for (const auto& span : weights.spans) {
            for (int64_t x = 0; x < row_bytes; x += LANES) {
                const int64_t n = row_bytes - x;
                store_bytes(to + x, weighted(from + span.first * stride + x, stride, span, n), n);
            }
            to += row_bytes;
        }
    }

    // 16 rows at a time, column by column: the bytes of a column lie side by side then.
    void shrink_rows(const uint8_t* from, int64_t stride, int height, const Resample& job, const Weights& weights, uint8_t* to) {
        const int64_t channels = job.channels, in_bytes = job.width * channels, out_bytes = job.out_width * channels;
        wide_.resize((in_bytes + LANES) * LANES);
        narrow_.resize((out_bytes + LANES) * LANES);
        for (int row = 0; row < height; row += LANES) {
            const int num_rows = std::min(LANES, height - row);
            for (int64_t x = 0; x < in_bytes; x += LANES) {
                Bytes rows[LANES]{};
                for (int i = 0; i < num_rows; i++) {
                    rows[i] = load_bytes(from + (row + i) * stride + x, in_bytes - x);
                    // The rows that come next: 129 us a picture of a batch in place of 145 us, where it lies in memory.
                    if (x % 64 == 0) __builtin_prefetch(from + (row + i + LANES) * stride + x);
                }
                transpose_block(rows);
                std::memcpy(&wide_[x * LANES], rows, sizeof rows);
            }
            uint8_t* made = narrow_.data();
            for (const auto& span : weights.spans)
                for (int64_t c = 0; c < channels; c++, made += LANES)
                    store_bytes(made, weighted(&wide_[(span.first * channels + c) * LANES], channels * LANES, span, LANES), LANES);
            for (int64_t x = 0; x < out_bytes; x += LANES) {
                Bytes rows[LANES];
                std::memcpy(rows, &narrow_[x * LANES], sizeof rows);
                transpose_block(rows);
                for (int i = 0; i < num_rows; i++) store_bytes(to + (row + i) * out_bytes + x, rows[i], out_bytes - x);
            }
        }
    }

    std::vector<uint8_t> wide_, narrow_, between_;
};

// Each byte of a picture as the number that `table` has for it, 256 for each channel. Channels of the numbers lie `plane`
// apart, pixels `pixel`.
template <int channels>
void look_up(const uint8_t* from, int64_t pixels, const float* table, int64_t plane, int64_t pixel, float* to) {
#pragma GCC unroll 4
    for (int64_t p = 0; p < pixels; p++)
        for (int c = 0; c < channels; c++) to[c * plane + p * pixel] = table[c * 256 + from[p * channels + c]];
}

// What a byte of a picture takes, in multiplications of a product: 0.9 ns beside the 0.2 ns of a number that is updated.
constexpr int64_t RESAMPLE_WORK = 80;

// Pictures of one size as numbers, one after the other.
inline void resample_batch(std::vector<Resample>& jobs, const float* table, int64_t plane, int64_t pixel, float* to) {
    const int64_t pixels = int64_t(jobs[0].out_width) * jobs[0].out_height, bytes = pixels * jobs[0].channels;
    std::atomic<size_t> next{0};
    // Each thread takes the next picture: one that is shrunk from a large part takes longer.
    in_parts(RESAMPLE_WORK * bytes * jobs.size(), jobs.size(), 1, [&](int64_t, int64_t) {
        Resampler resampler;
        std::vector<uint8_t> made(bytes);
        for (size_t i; (i = next++) < jobs.size();) {
            jobs[i].to = made.data();
            resampler.run(jobs[i]);
            (jobs[i].channels == 1 ? look_up<1> : look_up<3>)(made.data(), pixels, table, plane, pixel, to + i * bytes);
        }
    });
}

}  // namespace hotlap
