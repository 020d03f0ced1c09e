#include <cmath>

#include "cuda/both_backends.hpp"

namespace tape8::test {
namespace {

constexpr DType kAll[] = {DType::f64,  DType::f32,  DType::bf16, DType::f16,
                          DType::e4m3, DType::e5m2, DType::e2m1, DType::e8m0,
                          DType::i32,  DType::i64,  DType::u8,   DType::boolean};

/// Zeros, ties, ends of formats and past them, Inf and NaN, and values between; an even count,
/// as the half byte past an odd one of e2m1 is nobody's.
Values interesting_values() {
  Values values = {0.0, -0.0, std::nan(""), INFINITY, -INFINITY, 0.5, 1.5, 2.5, 0.25, -0.75};
  for (const double each :
       {448.0,         464.0,        464.0000001,  57344.0,        65504.0,  65520.0,
        6.0,           255.0,        2147483647.0, 9.3e18,         1e39,     1e300,
        5e-324,        1e-45,        1e-40,        6e-8,           0x1p-127, 0x1p-10,
        0x1.000001p-7, 3.0000000001, 1.00390625,   1.0039062500001}) {
    values.push_back(each);
    values.push_back(-each);
  }
  for (const double value : random_values(500, 1, -500.0, 500.0)) values.push_back(value);
  if (values.size() % 2 != 0) values.push_back(7.0);
  return values;
}

TEST_CASE("cuda: each pair of types converts as on the CPU") {
  const Values values = interesting_values();
  const auto count = static_cast<std::int64_t>(values.size());
  for (const DType from : kAll) {
    const Pair source(Tensor::from(values, {count}, from));
    for (const DType to : kAll) {
      CAPTURE(to_string(from));
      CAPTURE(to_string(to));
      CHECK(bytes_on_host(source.gpu.to(to)) == bytes_on_host(source.cpu.to(to)));
    }
  }
}

TEST_CASE("cuda: integers past 2^53 are rounded once") {
  std::vector<std::int64_t> values = {INT64_MAX, INT64_MIN, (std::int64_t{1} << 62) + 1, 0};
  for (int shift = 50; shift < 63; ++shift) {
    for (const int delta : {-1, 1}) {
      // Beside the ties of bf16 and f16.
      values.push_back((std::int64_t{257} << (shift - 8)) + delta);
      values.push_back((std::int64_t{2049} << (shift - 11)) + delta);
    }
  }
  const Pair source(Tensor::from(values, {static_cast<std::int64_t>(values.size())}, DType::i64));
  for (const DType to : kAll) {
    CAPTURE(to_string(to));
    CHECK(bytes_on_host(source.gpu.to(to)) == bytes_on_host(source.cpu.to(to)));
  }
}

TEST_CASE("cuda: views of any strides are copied, converted and filled") {
  const Pair source(random_tensor({5, 6, 7}, 3, DType::f32, -9.0, 9.0));
  for (const DType to : {DType::f32, DType::bf16, DType::u8, DType::f64, DType::e2m1}) {
    CAPTURE(to_string(to));
    Pair target = results({7, 6, 5}, to);
    target.cpu.copy_from(source.cpu.transpose(0, 2));
    target.gpu.copy_from(source.gpu.transpose(0, 2));
    CHECK(target.equal());
    target.cpu.fill(2.5);
    target.gpu.fill(2.5);
    CHECK(target.equal());
    if (to == DType::e2m1) continue;
    Tensor cpu_part = target.cpu.transpose(0, 1), gpu_part = target.gpu.transpose(0, 1);
    cpu_part.fill(-1.25);
    gpu_part.fill(-1.25);
    CHECK(target.equal());
  }
}

}  // namespace
}  // namespace tape8::test
