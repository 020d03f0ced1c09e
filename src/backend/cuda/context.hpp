#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

namespace tape8::cuda {

class Context;

/// Memory for the time of an op, from the context's pool in the order of its stream.
class Workspace {
 public:
  Workspace(Context& context, std::size_t bytes);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  Context& context_;
  void* data_ = nullptr;
};

/// The GPUs that there are; throws BackendError when there is no driver, or one that is too old.
int device_count();

/// One GPU: its stream, on which all of tape8's work for it runs in order, and its memory pool.
/// Made at the first use and kept to the end of the process.
class Context {
 public:
  /// Makes the device current for the calling thread. Throws BackendError when there is no driver
  /// or no device of that index.
  static Context& of(int device);

  int device() const { return device_; }
  cudaStream_t stream() const { return stream_; }
  /// 10 * major + minor.
  int compute_capability() const { return compute_capability_; }
  int multiprocessors() const { return multiprocessors_; }

  /// 256-byte aligned, in the order of the stream. Throws BackendError when the device has no more.
  void* allocate(std::size_t bytes);
  void release(void* data) noexcept;
  /// Waits for all that was put on the stream.
  void synchronize();

 private:
  explicit Context(int device);

  int device_;
  int compute_capability_ = 0;
  int multiprocessors_ = 0;
  cudaStream_t stream_ = nullptr;
};

}  // namespace tape8::cuda
