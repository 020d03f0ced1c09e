#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include <tape8/core/dlpack.hpp>

#include "core/fail.hpp"

// The binary interface of DLPack, which is the same from version 0.2 on.
struct DLDevice {
  std::int32_t device_type;
  std::int32_t device_id;
};

struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null: row-major
  std::uint64_t byte_offset;
};

struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor*);
};

namespace tape8 {
namespace {

constexpr std::int32_t kDlCpu = 1;

struct DlCode {
  DType dtype;
  std::uint8_t code;
};

constexpr std::array<DlCode, 11> kCodes{{{DType::i32, 0},
                                         {DType::i64, 0},
                                         {DType::u8, 1},
                                         {DType::f64, 2},
                                         {DType::f32, 2},
                                         {DType::f16, 2},
                                         {DType::bf16, 4},
                                         {DType::boolean, 6},
                                         {DType::e4m3, 10},
                                         {DType::e5m2, 12},
                                         {DType::e8m0, 14}}};

DType dtype_of_dl(const DLDataType& type) {
  if (type.lanes != 1) fail<OptionError>("from_dlpack: lanes must be 1: got {}", type.lanes);
  for (const DlCode& known : kCodes) {
    if (known.code == type.code && bits(known.dtype) == type.bits) return known.dtype;
  }
  fail<DTypeError>("from_dlpack: type must be one that tape8 has: got code {} of {} bits",
                   type.code, type.bits);
}

DLDataType dl_type_of(DType dtype) {
  for (const DlCode& known : kCodes) {
    if (known.dtype == dtype) {
      return {.code = known.code, .bits = static_cast<std::uint8_t>(bits(dtype)), .lanes = 1};
    }
  }
  fail<DTypeError>("to_dlpack: dtype must have whole bytes: got {}", to_string(dtype));
}

/// What an exported tensor needs until its deleter is called.
struct Export {
  Tensor tensor;
  std::vector<std::int64_t> shape, strides;
  DLManagedTensor managed{};
};

}  // namespace

Tensor from_dlpack(DLManagedTensor* tensor) {
  if (tensor == nullptr) fail<OptionError>("from_dlpack: a tensor must be given: got null");
  const DLTensor& source = tensor->dl_tensor;
  if (source.device.device_type != kDlCpu) {
    fail<OptionError>("from_dlpack: device must be the CPU: got device type {}",
                      source.device.device_type);
  }
  const DType dtype = dtype_of_dl(source.dtype);
  if (source.ndim < 0)
    fail<OptionError>("from_dlpack: ndim must not be negative: got {}", source.ndim);
  const Shape shape(
      std::span<const std::int64_t>(source.shape, static_cast<std::size_t>(source.ndim)));
  void* data = static_cast<std::byte*>(source.data) + source.byte_offset;
  const Tensor::Deleter deleter = [tensor](void*) {
    if (tensor->deleter != nullptr) tensor->deleter(tensor);
  };
  if (source.strides == nullptr) return Tensor::wrap(data, shape, dtype, deleter);
  return Tensor::wrap_strided(
      data, shape,
      std::span<const std::int64_t>(source.strides, static_cast<std::size_t>(source.ndim)), dtype,
      deleter);
}

DLManagedTensor* to_dlpack(const Tensor& tensor) {
  if (!tensor.defined()) fail<OptionError>("to_dlpack: a tensor must be given: got none");
  if (tensor.device().type != DeviceType::cpu) {
    fail<UnsupportedError>("to_dlpack: the tensor must lie on the CPU: got {}",
                           to_string(tensor.device()));
  }
  const DLDataType type = dl_type_of(tensor.dtype());
  auto exported = std::make_unique<Export>();
  exported->tensor = tensor;
  exported->shape.assign(tensor.shape().begin(), tensor.shape().end());
  exported->strides.assign(tensor.strides().begin(), tensor.strides().end());
  exported->managed = {.dl_tensor = {.data = const_cast<void*>(tensor.data()),
                                     .device = {.device_type = kDlCpu, .device_id = 0},
                                     .ndim = tensor.rank(),
                                     .dtype = type,
                                     .shape = exported->shape.data(),
                                     .strides = exported->strides.data(),
                                     .byte_offset = 0},
                       .manager_ctx = exported.get(),
                       .deleter = [](DLManagedTensor* managed) {
                         delete static_cast<Export*>(managed->manager_ctx);
                       }};
  return &exported.release()->managed;
}

}  // namespace tape8
