#include <cstdint>

#include <doctest/doctest.h>

#include <tape8/autograd/tape.hpp>
#include <tape8/core/memory.hpp>
#include <tape8/nn/dense.hpp>
#include <tape8/nn/layernorm_mlp.hpp>
#include <tape8/nn/optimizer.hpp>
#include <tape8/nn/parameters.hpp>
#include <tape8/ops/dropout.hpp>
#include <tape8/ops/softmax_cross_entropy.hpp>

#include "support/sanitizer.hpp"
#include "support/values.hpp"

namespace tape8 {
namespace {

TEST_CASE("training: after its first steps a loop takes no memory from the system" *
          doctest::skip(test::kAddressSanitizer)) {
  for (const Recipe& recipe :
       {Recipe{HighPrecision{}}, Recipe{DelayedScaling{.amax_history_len = 4}},
        Recipe{CurrentScaling{}}}) {
    CAPTURE(to_string(recipe));
    Rng rng(1);
    const LayerNormMLP mlp(
        {.hidden = 96, .intermediate = 384, .activation_type = swiglu, .recipe = recipe}, rng);
    const Dense head({.in_features = 96, .out_features = 10, .recipe = recipe}, rng);
    AdamW optimizer(parameters(mlp, head));
    const Tensor x = test::random_tensor({512, 96}, 2);
    const Tensor labels = Tensor::zeros({512}, DType::i32);
    const auto step = [&] {
      Tape tape;
      tape.backward(softmax_cross_entropy(head(dropout(mlp(x), 0.1F, rng)), labels));
      (void)clip_grad_norm(parameters(mlp, head), 1.0F);
      optimizer.step();
      optimizer.zero_grad();
    };
    for (int i = 0; i < 2; ++i) step();
    const MemoryStats settled = cpu_memory();
    for (int i = 0; i < 10; ++i) step();
    const MemoryStats after = cpu_memory();
    CHECK(after.system_calls == settled.system_calls);
    CHECK(after.reserved_bytes == settled.reserved_bytes);
    // A weight's cast may hold the scale that its quantizer has left behind since.
    constexpr std::int64_t kScales = 9 * 64;
    CHECK(after.in_use_bytes <= settled.in_use_bytes + kScales);
  }
}

}  // namespace
}  // namespace tape8
