#include <algorithm>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/autograd/tape.hpp>
#include <tape8/quantize/quantizer.hpp>

#include "support/expect.hpp"
#include "support/passes.hpp"

namespace tape8 {
namespace {

TEST_CASE("threads: each has its own current tape") {
  Tape tape;
  Tape* seen = &tape;
  std::thread([&] { seen = Tape::current(); }).join();
  CHECK(seen == nullptr);
  CHECK(Tape::current() == &tape);
}

TEST_CASE("threads: tapes with a shared quantizer each advance it once a backward") {
  constexpr int kThreads = 4;
  constexpr int kPasses = 200;
  const Quantizer shared =
      make_quantizer(DelayedScaling{.amax_history_len = kThreads * kPasses + 1}, TensorRole::x);
  std::vector<Variable> weights;
  for (int i = 0; i < kThreads; ++i) weights.push_back(parameter(Tensor::full({8}, 1.0)));
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([i, &shared, &weights] {
      const Variable& w = weights[static_cast<std::size_t>(i)];
      const Tensor x = Tensor::full({8}, static_cast<double>(i + 1));
      for (int pass = 0; pass < kPasses; ++pass) {
        Tape tape;
        (void)shared.quantize(x);
        tape.backward(test::sum(test::scaled(w, static_cast<float>(i + 1))));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < kThreads; ++i) {
    const auto grad = weights[static_cast<std::size_t>(i)].grad().to_vector<float>();
    CHECK(grad == std::vector<float>(8, static_cast<float>((i + 1) * kPasses)));
  }
  // No pass is lost and none is merged into another: every amax is in the history kPasses times.
  const auto history = shared.amax_history();
  for (int i = 0; i < kThreads; ++i) {
    CAPTURE(i);
    CHECK(std::count(history.begin(), history.end(), static_cast<float>(i + 1)) == kPasses);
  }
  CHECK(shared.scale() == Scale{112.0F});
}

}  // namespace
}  // namespace tape8
