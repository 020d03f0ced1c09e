// What happens where cuBLASLt has no algorithm, how often it is asked for one, and what is told.

#include <memory>
#include <sstream>
#include <string>

#include <doctest/doctest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <tape8/backend/info.hpp>
#include <tape8/core/error.hpp>

#include "core/logger.hpp"
#include "cuda/both_backends.hpp"
#include "cuda/matmul_log.hpp"

namespace tape8::test {
namespace {

const Device kHopper{DeviceType::cuda, 0};

/// What the library logs while it is there.
class LogText {
 public:
  explicit LogText(spdlog::level::level_enum level) : before_(logger().level()) {
    sinks_ = {std::make_shared<spdlog::sinks::ostream_sink_mt>(text_)};
    sinks_.swap(logger().sinks());
    logger().set_pattern("%l: %v");
    logger().set_level(level);
  }
  ~LogText() {
    sinks_.swap(logger().sinks());
    logger().set_level(before_);
  }
  LogText(const LogText&) = delete;
  LogText& operator=(const LogText&) = delete;

  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::vector<spdlog::sink_ptr> sinks_;
  spdlog::level::level_enum before_;
};

/// cuBLASLt without algorithms for some matmuls, while it is there.
class Lack {
 public:
  explicit Lack(std::function<bool(const cuda_emulation::Matmul&)> lacks) {
    cuda_emulation::library().has_no_algorithm = std::move(lacks);
  }
  ~Lack() { cuda_emulation::library().has_no_algorithm = nullptr; }
  Lack(const Lack&) = delete;
  Lack& operator=(const Lack&) = delete;
};

/// d = a b of values that FP8 has, [m, k] x [k, 16].
Values product(std::int64_t m, DType dtype = DType::e4m3, std::int64_t k = 16) {
  const Tensor a = Tensor::full({m, k}, 2.0, dtype).to(kHopper);
  const Tensor b = Tensor::full({16, k}, 0.5, dtype).to(kHopper);
  Tensor d = Tensor::empty({m, 16}, DType::f32, kHopper);
  backend(kHopper).gemm({.m = m,
                         .n = 16,
                         .k = k,
                         .a = {.data = a.data(), .dtype = dtype},
                         .b = {.data = b.data(), .dtype = dtype, .transposed = true},
                         .d = {.data = d.mutable_data()}});
  return values_of(d.to(Device{}));
}

TEST_CASE("cuda: gemm: FP8 without an algorithm is decoded, and a warning says so once") {
  const Lack lack(
      [](const cuda_emulation::Matmul& matmul) { return cuda_emulation::is_fp8(matmul.a.type); });
  const LogText log(spdlog::level::warn);
  for (const std::int64_t m : {201, 202, 201}) {
    const MatmulLog matmuls;
    CHECK(product(m) == Values(static_cast<std::size_t>(m) * 16, 16.0));
    REQUIRE(matmuls.matmuls().size() == 1);
    CHECK(matmuls.matmuls()[0].a.type == CUDA_R_16BF);
  }
  CHECK(log.text() ==
        "warning: cuda: gemm: cuBLASLt has no algorithm for 201x16x16 e4m3 x e4m3 transposed -> "
        "f32 (CUBLAS_STATUS_NOT_SUPPORTED): it is decoded, as will be others without\n");
}

TEST_CASE("cuda: gemm: no algorithm at all is an error that names the matmul") {
  const Lack lack([](const cuda_emulation::Matmul&) { return true; });
  CHECK_THROWS_WITH_AS(product(203),
                       "cuda: gemm: cuBLASLt has no algorithm for 203x16x16 bf16 x bf16 transposed "
                       "-> f32: CUBLAS_STATUS_NOT_SUPPORTED",
                       BackendError);
  CHECK_THROWS_AS(product(203, DType::bf16), BackendError);
}

TEST_CASE("cuda: gemm: an algorithm is looked up once, and 4096 of them are kept") {
  product(301);
  const std::int64_t before = cuda_emulation::library().lookups;
  const auto lookups = [&] { return cuda_emulation::library().lookups - before; };
  product(301);
  CHECK(lookups() == 0);
  product(302);
  product(302, DType::bf16);
  CHECK(lookups() == 2);
  constexpr int kMany = 4096;
  {
    // Not having found one is kept too, and takes less time.
    const Lack lack([](const cuda_emulation::Matmul&) { return true; });
    for (int m = 0; m < kMany; ++m) CHECK_THROWS(product(1000 + m, DType::bf16, 1));
    CHECK_THROWS(product(1000 + kMany - 1, DType::bf16, 1));
  }
  product(301);
  CHECK(lookups() == 2 + kMany + 1);
}

TEST_CASE("cuda: gemm: the debug log says what is done and why") {
  const LogText log(spdlog::level::debug);
  product(204);
  CHECK(
      log.text().find("debug: cuda: gemm: 204x16x16 e4m3 x e4m3 -> f32: cuBLASLt 204x16x16 e4m3 x "
                      "e4m3 transposed -> f32; a as it lies, b as it lies\n") != std::string::npos);
}

TEST_CASE("cuda: the machine's GPUs and what each multiplies as it is") {
  const std::string text = backends()[1].description;
  CAPTURE(text);
  for (const std::string part :
       {"cuda:0 emulated GPU, compute capability 9.0, native matmuls: bf16, FP8, Float8 block, "
        "decoded: MXFP8, NVFP4; ",
        "cuda:1 emulated GPU, compute capability 8.0, native matmuls: bf16, decoded: FP8, MXFP8, "
        "Float8 block, NVFP4; ",
        "cuda:4 emulated GPU, compute capability 12.0, native matmuls: bf16, FP8, MXFP8, NVFP4, "
        "decoded: Float8 block"}) {
    CHECK(text.find(part) != std::string::npos);
  }
}

}  // namespace
}  // namespace tape8::test
