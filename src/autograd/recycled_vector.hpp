#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace tape8 {

/// A vector in the memory of the last one of its kind on this thread, so that the tape of a
/// training step takes no fresh pages after the first.
template <class T>
class RecycledVector {
 public:
  RecycledVector() : items_(std::exchange(spare(), {})) {}
  ~RecycledVector() {
    items_.clear();
    if (items_.capacity() > spare().capacity()) spare() = std::move(items_);
  }
  RecycledVector(const RecycledVector&) = delete;
  RecycledVector& operator=(const RecycledVector&) = delete;

  std::vector<T>& operator*() { return items_; }
  const std::vector<T>& operator*() const { return items_; }
  std::vector<T>* operator->() { return &items_; }
  const std::vector<T>* operator->() const { return &items_; }

 private:
  static std::vector<T>& spare() {
    thread_local std::vector<T> memory;
    return memory;
  }

  std::vector<T> items_;
};

}  // namespace tape8
