#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include <tape8/core/tensor.hpp>

#include "core/copy_bytes.hpp"
#include "core/device_memory.hpp"
#include "core/fail.hpp"
#include "core/storage.hpp"

namespace tape8 {
namespace {

std::array<std::int64_t, kMaxRank> row_major_strides(const Shape& shape) {
  std::array<std::int64_t, kMaxRank> strides{};
  std::int64_t stride = 1;
  const std::span<const std::int64_t> sizes = shape.sizes();
  for (std::size_t axis = sizes.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= std::max<std::int64_t>(sizes[axis], 1);
  }
  return strides;
}

std::int64_t bytes_for(std::int64_t count, DType dtype) {
  if (count > (std::numeric_limits<std::int64_t>::max() - 7) / bits(dtype)) {
    fail<ShapeError>("tensor: the bytes must not pass 2^60: got {} elements of {}", count,
                     to_string(dtype));
  }
  return (count * bits(dtype) + 7) / 8;
}

int checked_axis(const Shape& shape, int axis) {
  const int index = axis < 0 ? axis + shape.rank() : axis;
  if (index < 0 || index >= shape.rank()) {
    fail<ShapeError>("tensor: axis must lie within {} dimensions: got {}", shape.rank(), axis);
  }
  return index;
}

constexpr std::int64_t kMaxExtent = std::int64_t{1} << 58;

/// The checks of memory that is the caller's.
void check_memory(const void* data, std::int64_t elements, DType dtype) {
  const auto alignment = static_cast<std::uintptr_t>(std::max(bits(dtype) / 8, 1));
  if (data == nullptr && elements > 0) {
    fail<OptionError>("wrap: data must not be null: got null for {} elements", elements);
  }
  if (reinterpret_cast<std::uintptr_t>(data) % alignment != 0) {
    fail<OptionError>("wrap: data must be aligned to {} bytes for {}: got {}", alignment,
                      to_string(dtype), fmt::ptr(data));
  }
}

/// Views start at any element, which has to be a byte.
void check_viewable(DType dtype) {
  if (bits(dtype) < 8) {
    fail<DTypeError>("tensor: views need elements of whole bytes: got {}", to_string(dtype));
  }
}

}  // namespace

Tensor Tensor::empty(const Shape& shape, DType dtype, Device device) {
  Tensor tensor;
  tensor.storage_ =
      Storage::allocate(static_cast<std::size_t>(bytes_for(shape.numel(), dtype)), device);
  tensor.shape_ = shape;
  tensor.strides_ = row_major_strides(shape);
  tensor.dtype_ = dtype;
  return tensor;
}

Tensor Tensor::zeros(const Shape& shape, DType dtype, Device device) {
  Tensor tensor = empty(shape, dtype, device);
  // Zero is all bits clear in every type but e8m0, which has no zero and gets its smallest code.
  const std::size_t bytes = tensor.storage_->nbytes();
  if (device.type == DeviceType::cpu) {
    std::memset(tensor.storage_->data(), 0, bytes);
  } else {
    device_memory(device).set_bytes(tensor.storage_->data(), std::byte{0}, bytes);
  }
  return tensor;
}

Tensor Tensor::wrap(void* data, const Shape& shape, DType dtype, Deleter deleter, Device device) {
  check_memory(data, shape.numel(), dtype);
  return wrap_checked(data, shape, row_major_strides(shape), shape.numel(), dtype,
                      std::move(deleter), device);
}

Tensor Tensor::wrap_strided(void* data, const Shape& shape, std::span<const std::int64_t> strides,
                            DType dtype, Deleter deleter, Device device) {
  check_viewable(dtype);
  if (strides.size() != static_cast<std::size_t>(shape.rank())) {
    fail<OptionError>("wrap: strides must be one a dimension: got {} for shape {}", strides.size(),
                      to_string(shape));
  }
  std::array<std::int64_t, kMaxRank> all{};
  std::int64_t extent = shape.numel() == 0 ? 0 : 1;  // elements from the first to the last, both in
  for (std::size_t axis = 0; axis < strides.size(); ++axis) {
    const std::int64_t last = shape[static_cast<int>(axis)] - 1;
    if (strides[axis] < 0 || (last > 0 && strides[axis] > (kMaxExtent - extent) / last)) {
      fail<OptionError>("wrap: strides must not be negative nor past memory: got {}",
                        strides[axis]);
    }
    if (last > 0 && extent > 0) extent += last * strides[axis];
    all[axis] = strides[axis];
  }
  check_memory(data, extent, dtype);
  return wrap_checked(data, shape, all, extent, dtype, std::move(deleter), device);
}

Tensor Tensor::wrap_checked(void* data, const Shape& shape,
                            const std::array<std::int64_t, kMaxRank>& strides, std::int64_t extent,
                            DType dtype, Deleter deleter, const Device& device) {
  Tensor tensor;
  tensor.storage_ = std::make_shared<Storage>(
      data, static_cast<std::size_t>(bytes_for(extent, dtype)), device, std::move(deleter));
  tensor.shape_ = shape;
  tensor.strides_ = strides;
  tensor.dtype_ = dtype;
  return tensor;
}

void Tensor::check_wrap_length(std::size_t length, const Shape& shape) {
  if (static_cast<std::uint64_t>(shape.numel()) > length) {
    fail<ShapeError>("wrap: shape {} needs {} elements: got {}", to_string(shape), shape.numel(),
                     length);
  }
}

Device Tensor::device() const { return defined() ? storage_->device() : Device{}; }

bool Tensor::is_contiguous() const {
  std::int64_t expected = 1;
  for (int axis = rank() - 1; axis >= 0; --axis) {
    const std::int64_t size = shape_[axis];
    if (size == 0) return true;
    if (size != 1 && strides_[static_cast<std::size_t>(axis)] != expected) return false;
    expected *= size;
  }
  return true;
}

std::int64_t Tensor::nbytes() const { return defined() ? bytes_for(numel(), dtype_) : 0; }

const void* Tensor::data() const {
  if (!defined()) return nullptr;
  return static_cast<const std::byte*>(storage_->data()) + offset_ * bits(dtype_) / 8;
}

void* Tensor::mutable_data() {
  if (!defined()) return nullptr;
  storage_->bump_version();
  return static_cast<std::byte*>(storage_->data()) + offset_ * bits(dtype_) / 8;
}

void Tensor::check_defined() const {
  if (!defined()) fail<StateError>("tensor: must have values to read or write: got none");
}

void Tensor::check_span(DType wanted) const {
  check_defined();
  if (device().type != DeviceType::cpu) {
    fail<UnsupportedError>("span: the tensor must lie on the CPU: got {}", to_string(device()));
  }
  if (wanted != dtype_) {
    fail<DTypeError>("span: the element type must be the tensor's: got {} for {}",
                     to_string(wanted), to_string(dtype_));
  }
  if (!is_contiguous()) {
    fail<ShapeError>("span: the tensor must be contiguous: got strides of a view");
  }
}

Tensor Tensor::reshape(std::initializer_list<std::int64_t> sizes) const {
  std::vector<std::int64_t> resolved(sizes);
  const auto open = std::find(resolved.begin(), resolved.end(), -1);
  if (open != resolved.end()) {
    *open = 1;
    const std::int64_t known = Shape(resolved).numel();
    if (known == 0 || numel() % known != 0) {
      fail<ShapeError>("reshape: the size given as -1 must come out whole: got {} elements over {}",
                       numel(), known);
    }
    *open = numel() / known;
  }
  return reshape(Shape(resolved));
}

Tensor Tensor::reshape(const Shape& shape) const {
  if (shape.numel() != numel()) {
    fail<ShapeError>("reshape: the number of elements must stay: got {} from {}", to_string(shape),
                     to_string(shape_));
  }
  Tensor view = contiguous();
  view.shape_ = shape;
  view.strides_ = row_major_strides(shape);
  return view;
}

Tensor Tensor::slice(int axis, std::int64_t begin, std::int64_t end) const {
  const int index = checked_axis(shape_, axis);
  if (begin < 0 || begin > end || end > shape_[index]) {
    fail<ShapeError>("slice: range must lie within axis {} of {}: got [{}, {})", axis,
                     to_string(shape_), begin, end);
  }
  check_viewable(dtype_);
  std::vector<std::int64_t> sizes(shape_.begin(), shape_.end());
  sizes[static_cast<std::size_t>(index)] = end - begin;
  Tensor view = *this;
  view.shape_ = Shape(sizes);
  view.offset_ += begin * strides_[static_cast<std::size_t>(index)];
  return view;
}

Tensor Tensor::transpose(int axis_a, int axis_b) const {
  const auto a = static_cast<std::size_t>(checked_axis(shape_, axis_a));
  const auto b = static_cast<std::size_t>(checked_axis(shape_, axis_b));
  check_viewable(dtype_);
  std::vector<std::int64_t> sizes(shape_.begin(), shape_.end());
  std::swap(sizes[a], sizes[b]);
  Tensor view = *this;
  view.shape_ = Shape(sizes);
  std::swap(view.strides_[a], view.strides_[b]);
  return view;
}

Tensor Tensor::contiguous() const { return !defined() || is_contiguous() ? *this : clone(); }

Tensor Tensor::clone() const {
  if (!defined()) return {};
  Tensor copy = empty(shape_, dtype_, device());
  if (is_contiguous()) {
    copy_bytes(*this, copy);
  } else {
    copy.copy_from(*this);
  }
  return copy;
}

Tensor Tensor::to(DType dtype) const {
  if (!defined() || dtype == dtype_) return *this;
  Tensor copy = empty(shape_, dtype, device());
  copy.copy_from(*this);
  return copy;
}

Tensor Tensor::to(const Device& device) const {
  if (!defined() || device == this->device()) return *this;
  const Tensor source = contiguous();
  Tensor copy = empty(shape_, dtype_, device);
  copy_bytes(source, copy);
  return copy;
}

std::uint64_t Tensor::version() const { return defined() ? storage_->version() : 0; }

}  // namespace tape8
