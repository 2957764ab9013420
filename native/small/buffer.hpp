// Memory that starts on a cache line, is zero where nothing was written, and keeps its contents when it grows.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

namespace hotlap {

template <class T>
class Buffer {
  public:
    T* data() const { return data_.get(); }
    int64_t size() const { return size_; }

    // At least n elements. Pointers into the old memory are void after growth.
    void grow(int64_t n) {
        if (n <= size_) return;
        auto* fresh = static_cast<T*>(::operator new[](sizeof(T) * n, std::align_val_t(64)));
        if (size_) std::memcpy(fresh, data_.get(), sizeof(T) * size_);
        std::memset(static_cast<void*>(fresh + size_), 0, sizeof(T) * (n - size_));
        data_.reset(fresh);
        size_ = n;
    }

  private:
    struct Free {
        void operator()(T* p) const { ::operator delete[](p, std::align_val_t(64)); }
    };
    std::unique_ptr<T[], Free> data_;
    int64_t size_ = 0;
};

}  // namespace hotlap
