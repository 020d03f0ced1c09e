#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "backend/block_formats.hpp"
#include "cuda/both_backends.hpp"

namespace tape8::test {

struct Usages {
  bool rowwise = true, columnwise = true;
};

/// How codes differ: the largest distance, and how many are apart.
struct CodeDifference {
  int most = 0;
  std::size_t count = 0;
};

/// Of codes of 4 or 8 bits.
inline CodeDifference code_difference(const std::vector<std::uint8_t>& a,
                                      const std::vector<std::uint8_t>& b, int code_bits) {
  CodeDifference difference;
  const int mask = (1 << code_bits) - 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (int shift = 0; shift < 8; shift += code_bits) {
      const int distance = std::abs((a[i] >> shift & mask) - (b[i] >> shift & mask));
      difference.most = std::max(difference.most, distance);
      difference.count += distance == 0 ? 0 : 1;
    }
  }
  return difference;
}

/// The amaxes that an nvfp4 cast of x is given.
inline std::array<float, 2> amaxes_of(const Tensor& x, const BlockFormat& format) {
  if (!is_nvfp4(format.scaling_mode)) return {};
  return cast_amaxes(x.to_vector<float>(), x.shape()[0], x.shape()[1], format);
}

/// Memory of a block cast's results on both devices, with some bytes more that no kernel may touch.
class BlockPair {
 public:
  BlockPair(std::int64_t rows, std::int64_t cols, const BlockFormat& format, Usages usages,
            const std::array<float, 2>& amaxes)
      : format_(format),
        parts_{Part(format, rows, cols, usages.rowwise, amaxes[0]),
               Part(format, cols, rows, usages.columnwise, amaxes[1])} {}

  BlockOutput output(Device device) {
    BlockOutput blocks = output_of(format_);
    blocks.rowwise = parts_[0].on(device);
    blocks.columnwise = parts_[1].on(device);
    return blocks;
  }

  BlockInput block_input(Usage usage, Device device) {
    return {.scaling_mode = format_.scaling_mode,
            .usage = usage,
            .scale_inv = part(usage).scale_inv.data(device),
            .hadamard = format_.hadamard && usage == Usage::columnwise};
  }
  /// One usage, to read; nvfp4 with its tensor's scale.
  Input input(Usage usage, Device device, const BlockInput& blocks) {
    const bool nvfp4 = is_nvfp4(format_.scaling_mode);
    return {.data = part(usage).data.data(device),
            .dtype = format_.dtype,
            .scale_inv = nvfp4 ? part(usage).tensor_scale_inv.data<ScaleInv>(device) : nullptr,
            .blocks = &blocks};
  }

  /// All bytes that were written, and those that were not.
  bool equal() const {
    return std::all_of(parts_.begin(), parts_.end(), [](const Part& p) {
      return p.data.equal() && p.scale_inv.equal() && p.tensor_scale_inv.equal();
    });
  }
  /// On one device, the same bytes as the other has.
  bool same_on(Device device, const BlockPair& other) const {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const Part& a = parts_[i];
      const Part& b = other.parts_[i];
      for (const auto member : {&Part::data, &Part::scale_inv, &Part::tensor_scale_inv}) {
        if (bytes_on_host((a.*member).on(device)) != bytes_on_host((b.*member).on(device))) {
          return false;
        }
      }
    }
    return true;
  }
  /// Between the devices, in one usage's codes.
  CodeDifference difference(Usage usage) const {
    const Pair& data = parts_[usage == Usage::rowwise ? 0 : 1].data;
    return code_difference(bytes_on_host(data.cpu), bytes_on_host(data.gpu),
                           is_nvfp4(format_.scaling_mode) ? 4 : 8);
  }

 private:
  struct Part {
    bool wanted;
    Pair data, scale_inv, amax, tensor_scale_inv;

    Part(const BlockFormat& format, std::int64_t lines, std::int64_t length, bool is_wanted,
         float amax_value)
        : wanted(is_wanted),
          data(memory(data_bytes(format, lines, length))),
          scale_inv(memory(scale_count(format, lines, length) *
                           (bits(scale_dtype(format.scaling_mode)) / 8))),
          amax(Tensor::full({}, double{amax_value})),
          tensor_scale_inv(Tensor::full({}, -1.0)) {}

    BlockPart on(Device device) {
      if (!wanted) return {};
      return {data.data(device), scale_inv.data(device), amax.data<Amax>(device),
              tensor_scale_inv.data<ScaleInv>(device)};
    }

    static Tensor memory(std::int64_t bytes) {
      constexpr std::int64_t kGuard = 32;
      return Tensor::full({bytes + kGuard}, 0xA5, DType::u8);
    }
  };

  Part& part(Usage usage) { return parts_[usage == Usage::rowwise ? 0 : 1]; }

  BlockFormat format_;
  std::array<Part, 2> parts_;
};

}  // namespace tape8::test
