#include "cuda/both_backends.hpp"

namespace tape8::test {
namespace {

/// More tensors than one launch takes, of sizes around a block's chunk; some without elements.
std::vector<std::int64_t> sizes() {
  std::vector<std::int64_t> sizes = {4096, 4097, 8191, 0, 3};
  for (std::int64_t i = 0; i < 90; ++i) sizes.push_back(i % 7 * 5);
  return sizes;
}

struct Parameters {
  std::vector<Pair> weights, grads, first, second, copies;

  Parameters() {
    std::uint64_t seed = 1;
    for (const std::int64_t count : sizes()) {
      const DType dtype = seed % 2 == 0 ? DType::bf16 : DType::f32;
      weights.emplace_back(random_tensor({count}, seed++));
      grads.emplace_back(random_tensor({count}, seed * 3, dtype));
      first.emplace_back(random_tensor({count}, seed * 5));
      second.emplace_back(random_tensor({count}, seed * 7, DType::f32, 0.0, 1.0));
      copies.push_back(results({count}, DType::bf16));
    }
  }

  bool equal() const {
    for (const auto* pairs : {&weights, &first, &second, &copies}) {
      for (const Pair& pair : *pairs) {
        if (!pair.equal()) return false;
      }
    }
    return true;
  }
};

TEST_CASE("cuda: AdamW has the CPU's bytes, for many tensors") {
  Parameters parameters;
  for (const std::int64_t step : {1, 2, 1000}) {
    on_both([&](Backend& kernels, Device device) {
      std::vector<AdamWTensor> tensors;
      for (std::size_t i = 0; i < parameters.weights.size(); ++i) {
        tensors.push_back(
            {parameters.weights[i].cpu.numel(), parameters.weights[i].data<float>(device),
             parameters.grads[i].input(device), parameters.first[i].data<float>(device),
             parameters.second[i].data<float>(device),
             i % 3 == 0 ? Output{} : parameters.copies[i].output(device)});
      }
      kernels.adamw({.tensors = tensors,
                     .learning_rate = 1e-3F,
                     .beta1 = 0.9F,
                     .beta2 = 0.999F,
                     .epsilon = 1e-8F,
                     .weight_decay = 0.1F,
                     .step = step});
    });
    CHECK(parameters.equal());
  }
}

TEST_CASE("cuda: SGD has the CPU's bytes, for many tensors") {
  for (const bool nesterov : {false, true}) {
    Parameters parameters;
    for (int step = 0; step < 2; ++step) {
      on_both([&](Backend& kernels, Device device) {
        std::vector<SgdTensor> tensors;
        for (std::size_t i = 0; i < parameters.weights.size(); ++i) {
          tensors.push_back({parameters.weights[i].cpu.numel(),
                             parameters.weights[i].data<float>(device),
                             parameters.grads[i].input(device),
                             i % 2 == 0 ? nullptr : parameters.first[i].data<float>(device),
                             i % 3 == 0 ? Output{} : parameters.copies[i].output(device)});
        }
        kernels.sgd({tensors, 0.1F, 0.9F, 0.01F, nesterov});
      });
      CHECK(parameters.equal());
    }
  }
}

}  // namespace
}  // namespace tape8::test
