#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include <doctest/doctest.h>

#include "gradcheck/decode.hpp"
#include "support/float_table.hpp"
#include "support/values.hpp"

namespace tape8::test {
namespace {

using tools::gradcheck::decode;
using tools::gradcheck::hadamard_transformed;
using tools::gradcheck::Matrix;

/// A tensor of a low-precision type from its bytes.
Tensor from_bytes(const std::vector<std::uint8_t>& bytes, const Shape& shape, DType dtype) {
  Tensor tensor = Tensor::empty(shape, dtype);
  REQUIRE(tensor.nbytes() == static_cast<std::int64_t>(bytes.size()));
  std::memcpy(tensor.mutable_data(), bytes.data(), bytes.size());
  return tensor;
}

TEST_CASE("gradcheck decode: every byte of the FP8 formats") {
  for (const DType dtype : {DType::e4m3, DType::e5m2}) {
    CAPTURE(to_string(dtype));
    std::vector<std::uint8_t> bytes(256);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i);
    const Matrix decoded = decode({.data = from_bytes(bytes, {2, 128}, dtype),
                                   .scale_inv = Tensor::from({0.25F}, {}),
                                   .scaling_mode = ScalingMode::per_tensor},
                                  Usage::rowwise, 2, 128);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const double value = float_table(dtype).decode(bytes[i]);
      CAPTURE(i);
      if (std::isnan(value)) {
        CHECK(std::isnan(decoded.values[i]));
      } else {
        CHECK(decoded.values[i] == 0.25 * value);
      }
    }
  }
}

/// Blocks whose scales are all different, so that each must be found for its own values.
struct BlockCase {
  ScalingMode mode;
  Usage usage;
  DType data;
  std::int64_t rows, cols;
};

TEST_CASE("gradcheck decode: each value by its own block's scale") {
  for (const BlockCase& c :
       {BlockCase{ScalingMode::mxfp8_1d, Usage::rowwise, DType::e4m3, 3, 70},
        BlockCase{ScalingMode::mxfp8_1d, Usage::columnwise, DType::e5m2, 70, 3},
        BlockCase{ScalingMode::float8_block_1d, Usage::rowwise, DType::e4m3, 2, 300},
        BlockCase{ScalingMode::float8_block_1d, Usage::columnwise, DType::e4m3, 300, 2},
        BlockCase{ScalingMode::float8_block_2d, Usage::rowwise, DType::e4m3, 130, 260},
        BlockCase{ScalingMode::float8_block_2d, Usage::columnwise, DType::e4m3, 130, 260}}) {
    CAPTURE(to_string(c.mode));
    CAPTURE(c.rows);
    const auto up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
    const ScalingBlock block = scaling_block(c.mode);
    const bool rowwise = c.usage == Usage::rowwise;
    const std::int64_t block_rows = rowwise ? block.across : block.along;
    const std::int64_t block_cols = rowwise ? block.along : block.across;
    const Shape scales{up(c.rows, block_rows), up(c.cols, block_cols)};
    const Values exponents = random_values(scales.numel(), 3, -9.0, 9.0);
    std::vector<std::uint8_t> codes;
    Values scale_values;
    for (const double exponent : exponents) {
      codes.push_back(static_cast<std::uint8_t>(127 + std::lround(exponent)));
      scale_values.push_back(c.mode == ScalingMode::mxfp8_1d
                                 ? std::exp2(static_cast<double>(std::lround(exponent)))
                                 : static_cast<double>(static_cast<float>(exponent)));
    }
    const Tensor data = random_tensor({c.rows, c.cols}, 4, c.data, -3.0, 3.0);
    const Matrix decoded = decode(
        {.data = data,
         .scale_inv = c.mode == ScalingMode::mxfp8_1d ? from_bytes(codes, scales, DType::e8m0)
                                                      : Tensor::from(exponents, scales, DType::f32),
         .scaling_mode = c.mode},
        c.usage, c.rows, c.cols);
    const Values values = values_of(data);
    bool all_equal = true;
    for (std::int64_t i = 0; i < c.rows * c.cols; ++i) {
      const std::int64_t scale = i / c.cols / block_rows * scales[1] + i % c.cols / block_cols;
      const auto at = static_cast<std::size_t>(i);
      all_equal = all_equal &&
                  decoded.values[at] == values[at] * scale_values[static_cast<std::size_t>(scale)];
    }
    CHECK(all_equal);
  }
}

TEST_CASE("gradcheck decode: FP4, two values a byte, the contracted axis last and filled up") {
  // 18 values a row: two blocks, the second one short; the codes 0 to 7 and their negatives.
  const std::array<double, 8> magnitudes{0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const std::array<double, 2> scales{0.5, 3.0};
  for (const Usage usage : {Usage::rowwise, Usage::columnwise}) {
    std::vector<std::uint8_t> bytes(3 * 16, 0);
    Values expected(3 * 18);
    for (std::size_t line = 0; line < 3; ++line) {
      for (std::size_t i = 0; i < 18; ++i) {
        const std::size_t code = (line * 5 + i) % 16;
        const double value = (code < 8 ? 1.0 : -1.0) * magnitudes[code % 8];
        bytes[line * 16 + i / 2] |= static_cast<std::uint8_t>(code << (i % 2 == 0 ? 0 : 4));
        const std::size_t at = usage == Usage::rowwise ? line * 18 + i : i * 3 + line;
        expected[at] = value * scales[i / 16] * 0.125;
      }
    }
    const Tensor scale_inv =
        Tensor::from({0.5F, 3.0F, 0.5F, 3.0F, 0.5F, 3.0F}, {3, 2}, DType::e4m3);
    const bool rowwise = usage == Usage::rowwise;
    const Matrix decoded = decode({.data = from_bytes(bytes, {3, 32}, DType::e2m1),
                                   .scale_inv = scale_inv,
                                   .scaling_mode = ScalingMode::nvfp4_1d,
                                   .tensor_scale_inv = Tensor::from({0.125F}, {})},
                                  usage, rowwise ? 3 : 18, rowwise ? 18 : 3);
    CHECK(decoded.values == expected);
  }
}

TEST_CASE("gradcheck: the Hadamard transform keeps products and is the reference's") {
  const Matrix a{21, 3, random_values(21 * 3, 1)};
  const Matrix b{21, 4, random_values(21 * 4, 2)};
  const Matrix a_t = hadamard_transformed(a);
  const Matrix b_t = hadamard_transformed(b);
  REQUIRE(a_t.rows == 32);
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t j = 0; j < 4; ++j) {
      double plain = 0.0;
      double transformed = 0.0;
      for (std::int64_t k = 0; k < 21; ++k) plain += a.at(k, i) * b.at(k, j);
      for (std::int64_t k = 0; k < 32; ++k) transformed += a_t.at(k, i) * b_t.at(k, j);
      CHECK(transformed == doctest::Approx(plain).epsilon(1e-12));
    }
  }
  // A one in row r becomes column r of H16 / 4, times the row's sign: the butterflies of it.
  const std::array<int, 16> signs{1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1};
  for (std::int64_t r = 0; r < 16; ++r) {
    Values column(16);
    column[static_cast<std::size_t>(r)] = signs[static_cast<std::size_t>(r)];
    for (std::size_t stride = 1; stride < 16; stride *= 2) {
      for (std::size_t i = 0; i < 16; ++i) {
        if ((i & stride) != 0) continue;
        const double sum = column[i] + column[i + stride];
        column[i + stride] = column[i] - column[i + stride];
        column[i] = sum;
      }
    }
    for (double& value : column) value *= 0.25;
    Matrix one{16, 1, Values(16)};
    one.at(r, 0) = 1.0;
    CHECK(hadamard_transformed(one).values == column);
  }
}

}  // namespace
}  // namespace tape8::test
