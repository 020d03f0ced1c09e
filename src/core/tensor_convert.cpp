// Conversions between element types, one value at a time: exact and general. Ops use the backend's
// casts.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include <tape8/core/tensor.hpp>

#include "core/copy_bytes.hpp"
#include "core/device_memory.hpp"
#include "core/fail.hpp"
#include "core/formats.hpp"

namespace tape8 {
namespace {

template <class T>
T load_as(const std::byte* data, std::int64_t index) {
  T value;
  std::memcpy(&value, data + index * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <class T>
void store_as(std::byte* data, std::int64_t index, T value) {
  std::memcpy(data + index * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
}

/// The value of an integer, rounded to odd where f64 cannot hold it: a second rounding, to far
/// fewer bits, then gives what rounding once gives.
double narrowable(std::int64_t value) {
  const auto nearest = static_cast<double>(value);
  if (nearest == 0x1p63) return std::nextafter(nearest, 0.0);
  const auto back = static_cast<std::int64_t>(nearest);
  if (back == value || (std::bit_cast<std::uint64_t>(nearest) & 1U) != 0) return nearest;
  return std::nextafter(nearest, back < value ? 0x1p63 : -0x1p63);
}

double narrowable(double value) { return value; }

/// Float values go through double, which holds all of them; integers through int64.
double load_float(const std::byte* data, DType dtype, std::int64_t index) {
  switch (dtype) {
    case DType::f64:
      return load_as<double>(data, index);
    case DType::f32:
      return load_as<float>(data, index);
    case DType::bf16:
    case DType::f16:
      return decode(dtype, load_as<std::uint16_t>(data, index));
    case DType::e4m3:
    case DType::e5m2:
    case DType::e8m0:
      return decode(dtype, load_as<std::uint8_t>(data, index));
    case DType::e2m1: {
      const auto pair = load_as<std::uint8_t>(data, index / 2);
      return decode(dtype, index % 2 == 0 ? pair & 0xFU : pair >> 4U);
    }
    case DType::i32:
      return load_as<std::int32_t>(data, index);
    case DType::i64:
      return static_cast<double>(load_as<std::int64_t>(data, index));
    case DType::u8:
    case DType::boolean:
      return load_as<std::uint8_t>(data, index);
  }
  return 0.0;
}

/// To the nearest integer, ties to even; past the type's ends its ends; NaN to 0.
template <class Integer>
Integer to_integer(double value) {
  if (std::isnan(value)) return 0;
  const double nearest = std::nearbyint(value);
  // The largest integer may round up to a power of two as a double, which is past it.
  if (nearest >= static_cast<double>(std::numeric_limits<Integer>::max())) {
    return std::numeric_limits<Integer>::max();
  }
  if (nearest <= static_cast<double>(std::numeric_limits<Integer>::min())) {
    return std::numeric_limits<Integer>::min();
  }
  return static_cast<Integer>(nearest);
}

template <class Integer>
Integer to_integer(std::int64_t value) {
  return static_cast<Integer>(std::clamp<std::int64_t>(value, std::numeric_limits<Integer>::min(),
                                                       std::numeric_limits<Integer>::max()));
}

std::int64_t load_integer(const std::byte* data, DType dtype, std::int64_t index) {
  return dtype == DType::i64 ? load_as<std::int64_t>(data, index)
                             : to_integer<std::int64_t>(load_float(data, dtype, index));
}

template <class Value>  // double or std::int64_t
void store(std::byte* data, DType dtype, std::int64_t index, Value value) {
  switch (dtype) {
    case DType::f64:
      return store_as(data, index, static_cast<double>(value));
    case DType::f32:
      return store_as(data, index, static_cast<float>(value));
    case DType::bf16:
    case DType::f16:
      return store_as(data, index, encode(dtype, narrowable(value)));
    case DType::e4m3:
    case DType::e5m2:
    case DType::e8m0:
      return store_as(data, index, static_cast<std::uint8_t>(encode(dtype, narrowable(value))));
    case DType::e2m1: {
      const auto old = load_as<std::uint8_t>(data, index / 2);
      const auto code = static_cast<std::uint8_t>(encode(dtype, narrowable(value)));
      const unsigned pair = index % 2 == 0 ? (old & 0xF0U) | code : (old & 0x0FU) | (code << 4U);
      return store_as(data, index / 2, static_cast<std::uint8_t>(pair));
    }
    case DType::i32:
      return store_as(data, index, to_integer<std::int32_t>(value));
    case DType::i64:
      return store_as(data, index, to_integer<std::int64_t>(value));
    case DType::u8:
      return store_as(data, index, to_integer<std::uint8_t>(value));
    case DType::boolean:
      return store_as(data, index, static_cast<std::uint8_t>(value != Value{0}));
  }
}

/// Calls visit(offset in a, offset in b), both in elements, for each element of two views of one
/// shape, in row-major order.
template <class Visit>
void for_each_pair(const Shape& shape, std::span<const std::int64_t> a_strides,
                   std::span<const std::int64_t> b_strides, const Visit& visit) {
  const std::int64_t count = shape.numel();
  std::array<std::int64_t, kMaxRank> index{};
  std::int64_t a = 0;
  std::int64_t b = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    visit(a, b);
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      const auto at = static_cast<std::size_t>(axis);
      a += a_strides[at];
      b += b_strides[at];
      if (++index[at] < shape[axis]) break;
      a -= index[at] * a_strides[at];
      b -= index[at] * b_strides[at];
      index[at] = 0;
    }
  }
}

/// Calls visit(row-major index, offset in elements) for each element of a view.
template <class Visit>
void for_each_element(const Shape& shape, std::span<const std::int64_t> strides,
                      const Visit& visit) {
  std::int64_t i = 0;
  for_each_pair(shape, strides, strides,
                [&](std::int64_t offset, std::int64_t) { visit(i++, offset); });
}

StridedView view(const Tensor& tensor, void* data) {
  StridedView view{.data = data, .dtype = tensor.dtype(), .rank = tensor.rank()};
  std::copy(tensor.shape().begin(), tensor.shape().end(), view.sizes.begin());
  std::copy(tensor.strides().begin(), tensor.strides().end(), view.strides.begin());
  return view;
}

const std::byte* bytes_of(const Tensor& tensor) {
  return static_cast<const std::byte*>(tensor.data());
}

}  // namespace

template <Element T>
std::vector<T> Tensor::to_vector() const {
  check_defined();
  if (device().type != DeviceType::cpu) return to(Device{}).to_vector<T>();
  std::vector<T> values(static_cast<std::size_t>(numel()));
  const std::byte* source = bytes_of(*this);
  for_each_element(shape_, strides(), [&](std::int64_t i, std::int64_t offset) {
    const auto index = static_cast<std::size_t>(i);
    if constexpr (std::is_same_v<T, bool>) {
      values[index] = load_float(source, dtype_, offset) != 0.0;
    } else if constexpr (std::is_floating_point_v<T>) {
      values[index] = static_cast<T>(load_float(source, dtype_, offset));
    } else {
      values[index] = to_integer<T>(load_integer(source, dtype_, offset));
    }
  });
  return values;
}

template std::vector<double> Tensor::to_vector<double>() const;
template std::vector<float> Tensor::to_vector<float>() const;
template std::vector<std::int32_t> Tensor::to_vector<std::int32_t>() const;
template std::vector<std::int64_t> Tensor::to_vector<std::int64_t>() const;
template std::vector<std::uint8_t> Tensor::to_vector<std::uint8_t>() const;
template std::vector<bool> Tensor::to_vector<bool>() const;

template <Element T>
T Tensor::item() const {
  if (!defined() || numel() != 1) {
    fail<ShapeError>("item: the tensor must have one element: got shape {}", to_string(shape_));
  }
  return to_vector<T>().front();
}

template double Tensor::item<double>() const;
template float Tensor::item<float>() const;
template std::int32_t Tensor::item<std::int32_t>() const;
template std::int64_t Tensor::item<std::int64_t>() const;
template std::uint8_t Tensor::item<std::uint8_t>() const;
template bool Tensor::item<bool>() const;

Tensor Tensor::from_values(const void* values, std::size_t count, DType source_dtype,
                           const Shape& shape, DType dtype) {
  if (static_cast<std::uint64_t>(shape.numel()) != count) {
    fail<ShapeError>("from: shape {} needs {} values: got {}", to_string(shape), shape.numel(),
                     count);
  }
  // Only read, and not kept: the copy below is what is handed out.
  const Tensor source = wrap(const_cast<void*>(values), shape, source_dtype);
  return dtype == source_dtype ? source.clone() : source.to(dtype);
}

Tensor Tensor::full(const Shape& shape, double value, DType dtype, Device device) {
  Tensor tensor = empty(shape, dtype, device);
  tensor.fill(value);
  return tensor;
}

void Tensor::fill(double value) {
  check_defined();
  if (device().type != DeviceType::cpu) return fill_on_device(value);
  auto* data = static_cast<std::byte*>(mutable_data());
  for_each_element(shape_, strides(),
                   [&](std::int64_t, std::int64_t offset) { store(data, dtype_, offset, value); });
}

void Tensor::fill_on_device(double value) {
  // Two elements, as e2m1 has none of whole bytes.
  const Tensor values = full({2}, value, dtype_);
  if (bits(dtype_) <= 8 && is_contiguous()) {
    return device_memory(device()).set_bytes(mutable_data(), *bytes_of(values),
                                             static_cast<std::size_t>(nbytes()));
  }
  const Tensor moved = values.to(device());
  StridedView source = view(*this, const_cast<void*>(moved.data()));
  source.strides = {};
  device_memory(device()).convert(view(*this, mutable_data()), source);
}

void Tensor::copy_from(const Tensor& source) {
  if (!source.defined() || !defined() || source.shape_ != shape_) {
    fail<ShapeError>("copy_from: the shapes must be equal: got {} into {}",
                     to_string(source.shape_), to_string(shape_));
  }
  if (shares_storage(source)) return copy_from(source.clone());
  if (source.device() != device()) {
    // Converted where the values come from: what travels is as small as it may be.
    Tensor moved = source.to(dtype_).to(device());
    return is_contiguous() ? copy_bytes(moved, *this) : copy_from(moved);
  }
  if (device().type != DeviceType::cpu) {
    return device_memory(device()).convert(view(*this, mutable_data()),
                                           view(source, const_cast<void*>(source.data())));
  }
  const std::byte* from = bytes_of(source);
  auto* to = static_cast<std::byte*>(mutable_data());
  if (source.dtype_ == dtype_ && bits(dtype_) >= 8) {
    const auto size = static_cast<std::size_t>(bits(dtype_) / 8);
    for_each_pair(shape_, source.strides(), strides(), [&](std::int64_t at, std::int64_t target) {
      std::memcpy(to + target * static_cast<std::int64_t>(size),
                  from + at * static_cast<std::int64_t>(size), size);
    });
  } else if (is_integer(source.dtype_) || source.dtype_ == DType::boolean) {
    for_each_pair(shape_, source.strides(), strides(), [&](std::int64_t at, std::int64_t target) {
      store(to, dtype_, target, load_integer(from, source.dtype_, at));
    });
  } else {
    for_each_pair(shape_, source.strides(), strides(), [&](std::int64_t at, std::int64_t target) {
      store(to, dtype_, target, load_float(from, source.dtype_, at));
    });
  }
}

}  // namespace tape8
