#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include <tape8/core/device.hpp>
#include <tape8/core/dtype.hpp>
#include <tape8/core/export.hpp>
#include <tape8/core/shape.hpp>

namespace tape8 {

class Storage;

/// A typed n-dimensional array: a handle to shared memory, an offset, sizes and strides. Copying a
/// Tensor copies the handle; clone() copies the values. Fresh tensors are row-major; slice() and
/// transpose() give views. `Tensor{}` is none: defined() is false, and its values are a StateError.
class TAPE8_API Tensor {
 public:
  using Deleter = std::function<void(void*)>;

  Tensor() = default;

  /// Values are not set.
  static Tensor empty(const Shape& shape, DType dtype = DType::f32, Device device = {});
  static Tensor zeros(const Shape& shape, DType dtype = DType::f32, Device device = {});
  /// Every element `value`, rounded once to `dtype`.
  static Tensor full(const Shape& shape, double value, DType dtype = DType::f32,
                     Device device = {});

  /// Copies row-major `values`, each rounded once to `dtype` (to nearest even; low-precision
  /// formats saturate). Throws ShapeError unless there are shape.numel() of them.
  template <Element T>
  static Tensor from(std::initializer_list<T> values, const Shape& shape,
                     DType dtype = dtype_of<T>()) {
    return from_values(values.begin(), values.size(), dtype_of<T>(), shape, dtype);
  }
  template <Element T>
  static Tensor from(std::span<const T> values, const Shape& shape, DType dtype = dtype_of<T>()) {
    return from_values(values.data(), values.size(), dtype_of<T>(), shape, dtype);
  }
  template <Element T>
  static Tensor from(const std::vector<T>& values, const Shape& shape,
                     DType dtype = dtype_of<T>()) {
    return from(std::span<const T>(values), shape, dtype);
  }

  /// Memory of the caller's: row-major, of shape.numel() elements, on `device`. It must outlive all
  /// handles; `deleter(data)` is called once when the last one goes. Throws OptionError when `data`
  /// is null with elements to hold or not aligned to the element.
  static Tensor wrap(void* data, const Shape& shape, DType dtype, Deleter deleter = {},
                     Device device = {});
  /// The same with strides of the caller's, in elements, none negative; throws OptionError
  /// otherwise.
  static Tensor wrap_strided(void* data, const Shape& shape, std::span<const std::int64_t> strides,
                             DType dtype, Deleter deleter = {}, Device device = {});
  /// The same over a span; throws ShapeError when it is shorter than the shape.
  template <Element T>
  static Tensor wrap(std::span<T> values, const Shape& shape) {
    check_wrap_length(values.size(), shape);
    return wrap(values.data(), shape, dtype_of<T>());
  }

  bool defined() const { return storage_ != nullptr; }
  explicit operator bool() const { return defined(); }

  const Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  std::int64_t numel() const { return shape_.numel(); }
  DType dtype() const { return dtype_; }
  Device device() const;
  /// Elements from one index to the next along each axis; the first rank() count.
  std::span<const std::int64_t> strides() const {
    return {strides_.data(), static_cast<std::size_t>(shape_.rank())};
  }
  bool is_contiguous() const;
  /// Bytes that the elements take, without gaps.
  std::int64_t nbytes() const;

  /// The first element. mutable_data() counts as a change: it moves version().
  const void* data() const;
  void* mutable_data();
  /// Contiguous elements as T; throws DTypeError unless T is the tensor's own type,
  /// UnsupportedError unless it lies on the CPU.
  template <Element T>
  std::span<const T> span() const {
    check_span(dtype_of<T>());
    return {static_cast<const T*>(data()), static_cast<std::size_t>(numel())};
  }
  template <Element T>
  std::span<T> mutable_span() {
    check_span(dtype_of<T>());
    return {static_cast<T*>(mutable_data()), static_cast<std::size_t>(numel())};
  }

  /// Decoded values in row-major order, from whichever device. Exact where T can hold them.
  template <Element T>
  std::vector<T> to_vector() const;
  /// The one value of a tensor with one element; throws ShapeError otherwise.
  template <Element T>
  T item() const;

  /// Row-major with other sizes: a view when contiguous, else a copy. One size may be -1.
  Tensor reshape(std::initializer_list<std::int64_t> sizes) const;
  Tensor reshape(const Shape& shape) const;
  /// View of [begin, end) of one axis.
  Tensor slice(int axis, std::int64_t begin, std::int64_t end) const;
  /// View with two axes exchanged.
  Tensor transpose(int axis_a, int axis_b) const;
  /// This tensor if it is contiguous, else a row-major copy.
  Tensor contiguous() const;
  /// A row-major copy in fresh memory.
  Tensor clone() const;
  /// This tensor if it has that type, else a copy with each value rounded once to `dtype`.
  Tensor to(DType dtype) const;
  /// This tensor if it lies there, else a row-major copy. Throws BackendError where there is no
  /// such device, UnsupportedError where this build has none of its type.
  Tensor to(const Device& device) const;
  /// Overwrites the values, converting them; the shapes must be equal, the memory may be the same,
  /// or another device's.
  void copy_from(const Tensor& source);
  void fill(double value);

  /// Moves with every change in place of the memory, by whichever handle.
  std::uint64_t version() const;
  /// True when both handles lead to the same memory block.
  bool shares_storage(const Tensor& other) const { return storage_ == other.storage_; }
  const Storage* storage() const { return storage_.get(); }
  /// Handles (of tensors) that hold the memory block.
  long use_count() const { return storage_.use_count(); }

 private:
  static Tensor from_values(const void* values, std::size_t count, DType source_dtype,
                            const Shape& shape, DType dtype);
  static Tensor wrap_checked(void* data, const Shape& shape,
                             const std::array<std::int64_t, kMaxRank>& strides, std::int64_t extent,
                             DType dtype, Deleter deleter, const Device& device);
  static void check_wrap_length(std::size_t length, const Shape& shape);
  void fill_on_device(double value);
  void check_defined() const;
  void check_span(DType wanted) const;

  std::shared_ptr<Storage> storage_;
  std::int64_t offset_ = 0;  // elements
  Shape shape_;
  std::array<std::int64_t, kMaxRank> strides_{};
  DType dtype_ = DType::f32;
};

}  // namespace tape8
