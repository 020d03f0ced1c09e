#include <charconv>

#include <fmt/format.h>

#include <tape8/core/device.hpp>
#include <tape8/core/dtype.hpp>
#include <tape8/core/norm_type.hpp>
#include <tape8/core/scaling.hpp>

#include "core/fail.hpp"

namespace tape8 {

std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "f64";
    case DType::f32:
      return "f32";
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "f16";
    case DType::e4m3:
      return "e4m3";
    case DType::e5m2:
      return "e5m2";
    case DType::e2m1:
      return "e2m1";
    case DType::e8m0:
      return "e8m0";
    case DType::i32:
      return "i32";
    case DType::i64:
      return "i64";
    case DType::u8:
      return "u8";
    case DType::boolean:
      return "bool";
  }
  return "";
}

std::string to_string(const Device& device) {
  switch (device.type) {
    case DeviceType::cpu:
      return "cpu";
    case DeviceType::cuda:
      return fmt::format("cuda:{}", device.index);
  }
  return "";
}

Device device_from(std::string_view name) {
  constexpr std::string_view kCuda = "cuda";
  if (name == "cpu") return {};
  if (name == kCuda) return {DeviceType::cuda, 0};
  if (name.starts_with(kCuda) && name.size() > kCuda.size() && name[kCuda.size()] == ':') {
    const char* end = name.data() + name.size();
    Device device{DeviceType::cuda, 0};
    const auto [last, error] = std::from_chars(name.data() + kCuda.size() + 1, end, device.index);
    if (error == std::errc{} && last == end && device.index >= 0) return device;
  }
  fail<OptionError>("device_from: must be cpu, cuda or cuda:N: got {}", name);
}

std::string_view to_string(NormType norm_type) {
  switch (norm_type) {
    case NormType::layernorm:
      return "layernorm";
    case NormType::rmsnorm:
      return "rmsnorm";
  }
  return "";
}

std::string_view to_string(ScalingMode mode) {
  switch (mode) {
    case ScalingMode::none:
      return "none";
    case ScalingMode::per_tensor:
      return "per_tensor";
    case ScalingMode::mxfp8_1d:
      return "mxfp8_1d";
    case ScalingMode::float8_block_1d:
      return "float8_block_1d";
    case ScalingMode::float8_block_2d:
      return "float8_block_2d";
    case ScalingMode::nvfp4_1d:
      return "nvfp4_1d";
    case ScalingMode::nvfp4_2d:
      return "nvfp4_2d";
  }
  return "";
}

std::string_view to_string(TensorRole role) {
  switch (role) {
    case TensorRole::x:
      return "x";
    case TensorRole::kernel:
      return "kernel";
    case TensorRole::dgrad:
      return "dgrad";
  }
  return "";
}

}  // namespace tape8
