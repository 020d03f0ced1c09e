// Conversions between element types, one value at a time: exact and general, as on the CPU
// (core/tensor_convert.cpp). Bytes an element: its two types'.

#include <cstdint>
#include <limits>

#include "backend/cuda/convert.hpp"
#include "backend/cuda/flat.hpp"

namespace tape8::cuda {
namespace {

/// Where element i, row-major, lies in both views; axes that lie as one are one.
struct Layout {
  int rank = 0;
  std::int64_t sizes[kMaxRank] = {};
  std::int64_t to_strides[kMaxRank] = {};
  std::int64_t from_strides[kMaxRank] = {};

  Layout(const StridedView& to, const StridedView& from) {
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(to.rank); ++axis) {
      const std::int64_t size = to.sizes[axis];
      const std::int64_t to_stride = to.strides[axis], from_stride = from.strides[axis];
      if (size == 1) continue;
      if (rank > 0 && to_strides[rank - 1] == to_stride * size &&
          from_strides[rank - 1] == from_stride * size) {
        --rank;
        sizes[rank] *= size;
      } else {
        sizes[rank] = size;
      }
      to_strides[rank] = to_stride;
      from_strides[rank] = from_stride;
      ++rank;
    }
  }

  bool is_contiguous() const {
    return rank == 0 || (rank == 1 && to_strides[0] == 1 && from_strides[0] == 1);
  }

  __device__ void offsets(std::int64_t i, std::int64_t& to, std::int64_t& from) const {
    to = 0;
    from = 0;
    for (int axis = rank - 1; axis >= 0; --axis) {
      const std::int64_t at = axis == 0 ? i : i % sizes[axis];
      to += at * to_strides[axis];
      from += at * from_strides[axis];
      i = axis == 0 ? 0 : i / sizes[axis];
    }
  }
};

template <class T>
__device__ T element(const void* data, std::int64_t index) {
  return static_cast<const T*>(data)[index];
}

template <class T>  // of 16 bits
__device__ std::uint16_t code_of(T value) {
  std::uint16_t code;
  memcpy(&code, &value, sizeof(code));
  return code;
}

/// The one NaN that formats of 16 bits and fewer decode to.
__device__ double without_payload(float value) {
  return value == value ? static_cast<double>(value) : std::numeric_limits<double>::quiet_NaN();
}

__device__ double decode_e8m0(std::uint8_t code) {
  return code == 255 ? std::numeric_limits<double>::quiet_NaN() : ldexp(1.0, code - 127);
}

__device__ double load_float(const void* data, DType dtype, std::int64_t index) {
  switch (dtype) {
    case DType::f64:
      return element<double>(data, index);
    case DType::f32:
      return static_cast<double>(element<float>(data, index));
    case DType::bf16:
      return without_payload(static_cast<float>(element<__nv_bfloat16>(data, index)));
    case DType::f16:
      return without_payload(static_cast<float>(element<__half>(data, index)));
    case DType::e4m3:
      return without_payload(static_cast<float>(element<__nv_fp8_e4m3>(data, index)));
    case DType::e5m2:
      return without_payload(static_cast<float>(element<__nv_fp8_e5m2>(data, index)));
    case DType::e2m1: {
      const unsigned pair = element<std::uint8_t>(data, index / 2);
      __nv_fp4_e2m1 value;
      value.__x = static_cast<__nv_fp4_storage_t>(index % 2 == 0 ? pair & 0xFU : pair >> 4U);
      return static_cast<double>(static_cast<float>(value));
    }
    case DType::e8m0:
      return decode_e8m0(element<std::uint8_t>(data, index));
    default:
      return 0.0;
  }
}

__device__ std::int64_t load_integer(const void* data, DType dtype, std::int64_t index) {
  switch (dtype) {
    case DType::i64:
      return element<std::int64_t>(data, index);
    case DType::i32:
      return element<std::int32_t>(data, index);
    default:
      return element<std::uint8_t>(data, index);  // u8 and bool
  }
}

__device__ double narrowable(double value) { return value; }

/// An integer rounded to odd where f64 cannot hold it: a second rounding, to far fewer bits, then
/// gives what rounding once gives.
__device__ double narrowable(std::int64_t value) {
  const auto nearest = static_cast<double>(value);
  if (nearest == 0x1p63) return nextafter(nearest, 0.0);
  const auto back = static_cast<std::int64_t>(nearest);
  std::uint64_t bits;
  memcpy(&bits, &nearest, sizeof(bits));
  if (back == value || (bits & 1U) != 0) return nearest;
  return nextafter(nearest, back < value ? 0x1p63 : -0x1p63);
}

/// To the nearest integer, ties to even; past the type's ends its ends; NaN to 0.
template <class Integer>
__device__ Integer to_integer(double value) {
  constexpr Integer kLeast = std::numeric_limits<Integer>::min();
  constexpr Integer kMost = std::numeric_limits<Integer>::max();
  if (value != value) return 0;
  const double nearest = rint(value);
  // The largest integer may round up to a power of two as a double, which is past it.
  if (nearest >= static_cast<double>(kMost)) return kMost;
  if (nearest <= static_cast<double>(kLeast)) return kLeast;
  return static_cast<Integer>(nearest);
}

template <class Integer>
__device__ Integer to_integer(std::int64_t value) {
  constexpr std::int64_t kLeast = std::numeric_limits<Integer>::min();
  constexpr std::int64_t kMost = std::numeric_limits<Integer>::max();
  return static_cast<Integer>(value < kLeast ? kLeast : value > kMost ? kMost : value);
}

/// To the power of two that is not less; negative values count as zero.
__device__ std::uint8_t encode_e8m0(double value) {
  if (value != value) return 255;
  if (!(value > 0x1p-127)) return 0;
  if (value >= 0x1p127) return 254;
  int exponent = 0;
  const double fraction = frexp(value, &exponent);  // in [0.5, 1)
  return static_cast<std::uint8_t>((fraction == 0.5 ? exponent - 1 : exponent) + 127);
}

/// The bits of a value in a float format of 16 bits or fewer, rounded once. Each has one NaN.
__device__ std::uint16_t encode(DType dtype, double value) {
  const bool nan = value != value;
  switch (dtype) {
    case DType::bf16:
      return nan ? std::uint16_t{0x7FC0} : code_of(__double2bfloat16(value));
    case DType::f16:
      return nan ? std::uint16_t{0x7E00} : code_of(__double2half(value));
    case DType::e4m3:
      return nan ? std::uint16_t{0x7F} : __nv_cvt_double_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
    case DType::e5m2:
      return nan ? std::uint16_t{0x7F} : __nv_cvt_double_to_fp8(value, __NV_SATFINITE, __NV_E5M2);
    case DType::e2m1:
      return nan ? std::uint16_t{0x7} : __nv_cvt_double_to_fp4(value, __NV_E2M1, cudaRoundNearest);
    default:
      return encode_e8m0(value);
  }
}

/// All but e2m1, whose values share bytes.
template <class Value>  // double or std::int64_t
__device__ void store(void* data, DType dtype, std::int64_t index, Value value) {
  switch (dtype) {
    case DType::f64:
      static_cast<double*>(data)[index] = static_cast<double>(value);
      break;
    case DType::f32:
      static_cast<float*>(data)[index] = static_cast<float>(value);
      break;
    case DType::bf16:
    case DType::f16:
      static_cast<std::uint16_t*>(data)[index] = encode(dtype, narrowable(value));
      break;
    case DType::i32:
      static_cast<std::int32_t*>(data)[index] = to_integer<std::int32_t>(value);
      break;
    case DType::i64:
      static_cast<std::int64_t*>(data)[index] = to_integer<std::int64_t>(value);
      break;
    case DType::u8:
      static_cast<std::uint8_t*>(data)[index] = to_integer<std::uint8_t>(value);
      break;
    case DType::boolean:
      static_cast<std::uint8_t*>(data)[index] = value != Value{0} ? 1 : 0;
      break;
    default:
      static_cast<std::uint8_t*>(data)[index] =
          static_cast<std::uint8_t>(encode(dtype, narrowable(value)));
  }
}

struct Operands {
  void* to;
  DType to_type;
  const void* from;
  DType from_type;

  /// Calls body(value) with element `index` of `from`, an std::int64_t or a double.
  template <class Body>
  __device__ void with_value(std::int64_t index, const Body& body) const {
    if (is_integer(from_type) || from_type == DType::boolean) {
      body(load_integer(from, from_type, index));
    } else {
      body(load_float(from, from_type, index));
    }
  }
};

__global__ void convert_kernel(std::int64_t count, Layout layout, Operands operands) {
  for_each_vector<1>(count, [&](std::int64_t i, int) {
    std::int64_t to, from;
    layout.offsets(i, to, from);
    operands.with_value(from, [&](auto value) { store(operands.to, operands.to_type, to, value); });
  });
}

/// Values of one type are moved as they are.
template <class Bits>
__global__ void move_kernel(std::int64_t count, Layout layout, Operands operands) {
  for_each_vector<1>(count, [&](std::int64_t i, int) {
    std::int64_t to, from;
    layout.offsets(i, to, from);
    static_cast<Bits*>(operands.to)[to] = element<Bits>(operands.from, from);
  });
}

/// A thread makes both values of a byte; after an odd count the last one's other half stays.
__global__ void convert_to_e2m1_kernel(std::int64_t count, Layout layout, Operands operands) {
  for_each_vector<2>(count, [&](std::int64_t first, int valid) {
    auto* const bytes = static_cast<std::uint8_t*>(operands.to);
    unsigned pair = valid == 2 ? 0U : bytes[first / 2] & 0xF0U;
    for (int i = 0; i < valid; ++i) {
      std::int64_t to, from;
      layout.offsets(first + i, to, from);
      operands.with_value(from, [&](auto value) {
        pair |= static_cast<unsigned>(encode(DType::e2m1, narrowable(value))) << 4 * i;
      });
    }
    bytes[first / 2] = static_cast<std::uint8_t>(pair);
  });
}

}  // namespace

void convert_strided(Context& context, const StridedView& to, const StridedView& from) {
  std::int64_t count = 1;
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(to.rank); ++axis) {
    count *= to.sizes[axis];
  }
  if (count == 0) return;
  const Layout layout(to, from);
  const Operands operands{to.data, to.dtype, from.data, from.dtype};
  const LaunchConfig config = flat_config_of<1>(context, count);
  if (to.dtype == DType::e2m1) {
    return launch(convert_to_e2m1_kernel, flat_config_of<2>(context, count), count, layout,
                  operands);
  }
  if (to.dtype != from.dtype) return launch(convert_kernel, config, count, layout, operands);
  const int size = bits(to.dtype) / 8;
  if (layout.is_contiguous()) {
    const std::size_t bytes = static_cast<std::size_t>(count) * static_cast<std::size_t>(size);
    return check(
        cudaMemcpyAsync(to.data, from.data, bytes, cudaMemcpyDeviceToDevice, context.stream()),
        "cudaMemcpyAsync");
  }
  switch (size) {
    case 1:
      return launch(move_kernel<std::uint8_t>, config, count, layout, operands);
    case 2:
      return launch(move_kernel<std::uint16_t>, config, count, layout, operands);
    case 4:
      return launch(move_kernel<std::uint32_t>, config, count, layout, operands);
    default:
      return launch(move_kernel<std::uint64_t>, config, count, layout, operands);
  }
}

}  // namespace tape8::cuda
