// The emulation's cuBLASLt refuses what the library's documentation does: each rule is broken by a
// matmul that is taken without that one fault.

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

#include <doctest/doctest.h>

#include "cuda/cublaslt_case.hpp"

namespace tape8::test {
namespace {

/// The number of the rule that refuses.
std::string number_of(const std::string& text) { return text.substr(0, text.find(':')); }
std::string rule(const Case& matmul) { return number_of(refusal(matmul)); }
std::string run_rule(const Case& matmul) { return number_of(run_refusal(matmul)); }
const std::string kTaken;

Case bf16() { return {.a = CUDA_R_16BF, .b = CUDA_R_16BF, .a_scale = false, .b_scale = false}; }
Case mxfp8() { return {.gpu = kBlackwell, .a_mode = kVec32, .b_mode = kVec32}; }
Case nvfp4() {
  return {.gpu = kBlackwell,
          .a = CUDA_R_4F_E2M1,
          .b = CUDA_R_4F_E2M1,
          .a_mode = kVec16,
          .b_mode = kVec16};
}
Case blocks_of_128() { return {.a_mode = kVec128, .b_mode = kVec128}; }

template <class Change>
Case with(Case matmul, const Change& change) {
  change(matmul);
  return matmul;
}

TEST_CASE("cublaslt rules: what the others are compared with is taken") {
  for (const Case& matmul : {Case{}, bf16(), mxfp8(), nvfp4(), blocks_of_128()}) {
    CHECK(run_refusal(matmul) == "");
  }
}

TEST_CASE("cublaslt rules: 0: matrices that fit") {
  CHECK(rule({.d_stride = 48}) == "0");
  CHECK(rule({.m = 0}) == "0");
  CHECK(rule({.b_k = 64}) == "0");
}

TEST_CASE("cublaslt rules: 1: types") {
  CHECK(rule({.compute = CUBLAS_COMPUTE_32F_FAST_TF32}) == "1");
  CHECK(rule({.scale_type = CUDA_R_16BF}) == "1");
  CHECK(rule({.b = CUDA_R_16BF, .b_scale = false}) == "1");
  CHECK(rule({.gpu = kBlackwell, .b = CUDA_R_4F_E2M1}) == "1");
  CHECK(rule({.a = CUDA_R_8F_E5M2, .b = CUDA_R_8F_E5M2}) == "1");
  CHECK(rule({.a = CUDA_R_8F_E5M2}) == kTaken);
  CHECK(rule({.b = CUDA_R_8F_E5M2}) == kTaken);
  CHECK(rule(with(bf16(), [](Case& x) { x.b = CUDA_R_16F; })) == "1");
  Case f64 = bf16();
  f64.a = f64.b = f64.c = f64.d = CUDA_R_64F;
  CHECK(rule(f64) == "1");
  f64.compute = CUBLAS_COMPUTE_64F;
  f64.scale_type = CUDA_R_64F;
  CHECK(rule(f64) == kTaken);
}

TEST_CASE("cublaslt rules: 2: TN") {
  for (const int gpu : {kHopper, kAda, kGeforce}) {
    CHECK(rule({.gpu = gpu}) == kTaken);
    CHECK(rule({.gpu = gpu, .a_operation = CUBLAS_OP_N}) == "2");
    CHECK(rule({.gpu = gpu, .b_operation = CUBLAS_OP_T}) == "2");
  }
  CHECK(rule({.gpu = kBlackwell, .a_operation = CUBLAS_OP_N}) == kTaken);
  CHECK(rule({.gpu = kBlackwell, .b_operation = CUBLAS_OP_T}) == kTaken);
  CHECK(rule(with(nvfp4(), [](Case& x) { x.a_operation = CUBLAS_OP_N; })) == "2");
  CHECK(rule(with(bf16(), [](Case& x) { x.a_operation = CUBLAS_OP_N; })) == kTaken);
}

TEST_CASE("cublaslt rules: 3: multiples of 16 bytes") {
  CHECK(rule({.n = 47}) == kTaken);
  CHECK(rule({.k = 120}) == "3");
  CHECK(rule({.m = 68}) == "3");
  CHECK(rule({.d = CUDA_R_32F, .m = 68}) == "3");  // c is bf16
  CHECK(rule({.c = CUDA_R_32F, .d = CUDA_R_32F, .m = 68}) == kTaken);
  CHECK(rule({.d_stride = 68}) == "3");
  CHECK(rule({.gpu = kBlackwell, .b_operation = CUBLAS_OP_T, .n = 40}) == "3");
  CHECK(rule({.gpu = kBlackwell, .a_operation = CUBLAS_OP_N, .m = 72}) == "3");
  CHECK(rule(with(nvfp4(), [](Case& x) { x.k = 112; })) == "3");
  CHECK(run_rule({.a_offset = 16}) == kTaken);
  CHECK(run_rule({.a_offset = 8}) == "3");
  CHECK(run_rule({.workspace_offset = 256}) == kTaken);
  CHECK(run_rule({.workspace_offset = 128}) == "3");
}

TEST_CASE("cublaslt rules: 4: types of c and d") {
  for (const cudaDataType_t type : {CUDA_R_16BF, CUDA_R_16F, CUDA_R_32F}) {
    CHECK(rule({.c = type, .d = type}) == kTaken);
  }
  CHECK(rule({.c = CUDA_R_16F}) == "4");
  CHECK(rule({.d = CUDA_R_8F_E4M3}) == kTaken);
  CHECK(rule({.c = CUDA_R_32F, .d = CUDA_R_8F_E4M3}) == "4");
  CHECK(rule({.c = CUDA_R_8F_E4M3, .d = CUDA_R_8F_E4M3}) == "4");
  CHECK(rule({.d = CUDA_R_8F_E5M2}) == "4");
  CHECK(rule({.a = CUDA_R_8F_E5M2, .d = CUDA_R_8F_E5M2}) == kTaken);
  CHECK(rule(with(bf16(), [](Case& x) { x.c = x.d = CUDA_R_16F; })) == "4");
  CHECK(rule(with(bf16(), [](Case& x) { x.c = x.d = CUDA_R_32F; })) == kTaken);
}

TEST_CASE("cublaslt rules: 5: the bias's type") {
  const auto biased = [](cudaDataType_t c, cudaDataType_t d, std::int32_t type) {
    return rule({.c = c, .d = d, .epilogue = CUBLASLT_EPILOGUE_BIAS, .bias_type = type});
  };
  CHECK(biased(CUDA_R_16BF, CUDA_R_16BF, -1) == kTaken);
  CHECK(biased(CUDA_R_16F, CUDA_R_16F, CUDA_R_16F) == kTaken);
  CHECK(biased(CUDA_R_16BF, CUDA_R_16BF, CUDA_R_32F) == "5");
  CHECK(biased(CUDA_R_32F, CUDA_R_32F, CUDA_R_16BF) == kTaken);
  CHECK(biased(CUDA_R_32F, CUDA_R_32F, CUDA_R_32F) == "5");
  CHECK(biased(CUDA_R_32F, CUDA_R_32F, -1) == "5");
  CHECK(biased(CUDA_R_16F, CUDA_R_8F_E4M3, CUDA_R_16F) == kTaken);
  CHECK(biased(CUDA_R_16F, CUDA_R_8F_E4M3, CUDA_R_16BF) == "5");
  Case wide = bf16();
  wide.c = wide.d = CUDA_R_32F;
  wide.epilogue = CUBLASLT_EPILOGUE_BIAS;
  CHECK(rule(wide) == kTaken);
  wide.bias_type = CUDA_R_16BF;
  CHECK(rule(wide) == "5");
  CHECK(rule({.epilogue = CUBLASLT_EPILOGUE_BIAS, .has_bias = false}) == "5");
  // m values of two bytes.
  CHECK(run_rule({.epilogue = CUBLASLT_EPILOGUE_BIAS, .bias_bytes = 128}) == kTaken);
  CHECK(run_rule({.epilogue = CUBLASLT_EPILOGUE_BIAS, .bias_bytes = 126}) == "5");
  CHECK(refusal(with(nvfp4(), [](Case& x) { x.epilogue = CUBLASLT_EPILOGUE_BIAS; })) ==
        "NVFP4 has no bias: a fault of the library's");
}

TEST_CASE("cublaslt rules: 6: scales and amax of narrow matrices alone") {
  CHECK(rule(with(bf16(), [](Case& x) { x.a_scale = true; })) == "6");
  CHECK(rule(with(bf16(), [](Case& x) { x.b_scale = true; })) == "6");
  CHECK(rule(with(bf16(), [](Case& x) { x.a_mode = kVec32; })) == "6");
  CHECK(rule({.d_scale = true}) == "6");
  CHECK(rule({.d = CUDA_R_8F_E4M3, .d_scale = true}) == kTaken);
  CHECK(rule({.amax = true}) == "6");
  CHECK(rule({.d = CUDA_R_8F_E4M3, .amax = true}) == kTaken);
  CHECK(run_rule({.scale_offset = 4}) == kTaken);
  CHECK(run_rule({.scale_offset = 2}) == "8");
  CHECK(run_rule({.d = CUDA_R_8F_E4M3,
                  .a_scale = false,
                  .b_scale = false,
                  .d_scale = true,
                  .scale_offset = 2}) == "6");
}

TEST_CASE("cublaslt rules: 7: scaling modes and GPUs") {
  const auto taken_by = [](Case matmul) {
    std::string gpus;
    for (int gpu = 0; gpu < 5; ++gpu) {
      matmul.gpu = gpu;
      const std::string result = rule(matmul);
      CHECK((result == kTaken || result == "7"));
      gpus += result == kTaken ? static_cast<char>('0' + gpu) : '-';
    }
    return gpus;
  };
  static_assert(kHopper == 0 && kAmpere == 1 && kAda == 2 && kBlackwell == 3 && kGeforce == 4);
  CHECK(taken_by({}) == "0-234");
  CHECK(taken_by({.a_scale = false, .b_scale = false}) == "0-234");
  CHECK(taken_by({.a_mode = kOuter, .b_mode = kOuter}) == "0----");
  CHECK(taken_by(blocks_of_128()) == "0----");
  CHECK(taken_by({.a_mode = kBlk128, .b_mode = kVec128}) == "0----");
  CHECK(taken_by({.a_mode = kVec128, .b_mode = kBlk128}) == "0----");
  CHECK(taken_by({.a_mode = kBlk128, .b_mode = kBlk128}) == "-----");
  CHECK(taken_by(mxfp8()) == "---34");
  CHECK(taken_by(nvfp4()) == "---34");
  CHECK(taken_by({.a_mode = kVec32}) == "-----");
  CHECK(taken_by({.a_mode = kVec128}) == "-----");
  CHECK(taken_by({.a_mode = kVec16, .b_mode = kVec16}) == "-----");
  CHECK(taken_by(with(nvfp4(), [](Case& x) { x.a_mode = x.b_mode = kScalar; })) == "-----");
  CHECK(taken_by(with(nvfp4(), [](Case& x) { x.a_mode = x.b_mode = kVec32; })) == "-----");
  CHECK(taken_by(with(nvfp4(), [](Case& x) { x.a_mode = x.b_mode = kOuter; })) == "-----");
  CHECK(taken_by(with(mxfp8(), [](Case& x) { x.b_scale = false; })) == "-----");
  CHECK(taken_by(with(blocks_of_128(), [](Case& x) { x.n = 46; })) == "-----");
  CHECK(taken_by(with(blocks_of_128(), [](Case& x) { x.d = CUDA_R_8F_E4M3; })) == "-----");
}

TEST_CASE("cublaslt rules: 8: whole tiles of scales, zeros after them") {
  // 48 and 64 lines of 4 scales: a tile of 512 bytes.
  CHECK(run_rule(with(mxfp8(), [](Case& x) { x.scale_bytes = 512; })) == kTaken);
  CHECK(run_rule(with(mxfp8(), [](Case& x) { x.scale_bytes = 511; })) == "8");
  CHECK(run_rule(with(mxfp8(), [](Case& x) { x.scale_offset = 16; })) == kTaken);
  CHECK(run_rule(with(mxfp8(), [](Case& x) { x.scale_offset = 8; })) == "8");
  CHECK(run_rule(with(mxfp8(), [](Case& x) { x.scale_byte = 1; })) == "8");
  CHECK(run_rule(with(nvfp4(), [](Case& x) { x.scale_byte = 1; })) == "8");
  // 8 scales of 16 values: two tiles.
  CHECK(run_rule(with(nvfp4(), [](Case& x) { x.scale_bytes = 1024; })) == kTaken);
  CHECK(run_rule(with(nvfp4(), [](Case& x) { x.scale_bytes = 1023; })) == "8");
  // One of 128 values: a scale a line, or 4 for all of them.
  CHECK(run_rule(with(blocks_of_128(), [](Case& x) { x.scale_bytes = 256; })) == kTaken);
  CHECK(run_rule(with(blocks_of_128(), [](Case& x) { x.scale_bytes = 252; })) == "8");
}

TEST_CASE("cublaslt rules: 10: epilogues") {
  const auto auxiliary = [](cublasLtEpilogue_t epilogue, std::int64_t stride) {
    return rule(with(bf16(), [&](Case& x) {
      x.epilogue = epilogue;
      x.auxiliary_stride = stride;
    }));
  };
  CHECK(auxiliary(CUBLASLT_EPILOGUE_GELU_AUX, 72) == kTaken);
  CHECK(auxiliary(CUBLASLT_EPILOGUE_GELU_AUX, 68) == "10");
  CHECK(auxiliary(CUBLASLT_EPILOGUE_GELU_AUX, 56) == "10");
  CHECK(auxiliary(CUBLASLT_EPILOGUE_RELU_AUX, 128) == kTaken);
  CHECK(auxiliary(CUBLASLT_EPILOGUE_RELU_AUX, 72) == "10");
  CHECK(refusal({.epilogue = CUBLASLT_EPILOGUE_BGRADB}) ==
        "10: gradient of a bias from narrow matrices");
  CHECK(refusal(with(blocks_of_128(), [](Case& x) { x.epilogue = CUBLASLT_EPILOGUE_GELU; })) ==
        "10: epilogue of blocks of 128");
  CHECK(rule(with(blocks_of_128(), [](Case& x) { x.epilogue = CUBLASLT_EPILOGUE_BIAS; })) ==
        kTaken);
}

TEST_CASE("cublaslt rules: alpha and beta where the pointer mode says") {
  CHECK(run_rule({.pointer_mode = CUBLASLT_POINTER_MODE_DEVICE}) == kTaken);
  CHECK(run_rule({.alpha_elsewhere = true}) == "0");
  CHECK(run_rule({.pointer_mode = CUBLASLT_POINTER_MODE_DEVICE, .alpha_elsewhere = true}) == "0");
  CHECK(rule({.pointer_mode = CUBLASLT_POINTER_MODE_DEVICE_VECTOR}) == "0");
}

TEST_CASE("cublaslt rules: 9: d = sD (alpha sA sB a b + beta c); amax before sD") {
  // 128 products of 1 and 0.5; c is bf16 of 0x3838.
  constexpr std::uint8_t kOne = 0x38, kHalf = 0x30;
  const float c = std::bit_cast<float>(0x38380000U);
  Described wide({.c = CUDA_R_32F,
                  .d = CUDA_R_32F,
                  .alpha = 3.0F,
                  .a_byte = kOne,
                  .b_byte = kHalf,
                  .scale = 0.25F});
  CHECK(wide.run() == "");
  float d = 0.0F;
  std::memcpy(&d, wide.d().data(), sizeof(d));
  CHECK(d == 3.0F * 0.25F * 0.25F * 64.0F);
  Described added(
      {.beta = 1024.0F, .a_byte = kOne, .b_byte = kHalf, .c_byte = kOne, .scale = 0.5F});
  CHECK(added.run() == "");
  const std::uint16_t code = static_cast<std::uint16_t>(added.d()[0] | added.d()[1] << 8);
  CHECK(std::bit_cast<float>(std::uint32_t{code} << 16) ==
        doctest::Approx(16.0F + 1024.0F * c).epsilon(0x1p-8));
  // The amax, of 16, takes the place of the scales, which all are 0.5.
  Described narrow({.d = CUDA_R_8F_E4M3,
                    .d_scale = true,
                    .amax = true,
                    .a_byte = kOne,
                    .b_byte = kHalf,
                    .scale = 0.5F});
  CHECK(narrow.run() == "");
  CHECK(narrow.d()[0] == 0x50);  // 8 in e4m3
  CHECK(narrow.first_scale() == 16.0F);
}

}  // namespace
}  // namespace tape8::test
