#include <utility>

#include <tape8/autograd/tape.hpp>
#include <tape8/ops/layernorm_mlp.hpp>

#include "autograd/tape_impl.hpp"
#include "core/fail.hpp"
#include "ops/activate.hpp"
#include "ops/checks.hpp"
#include "ops/kernel_matmul.hpp"
#include "ops/norm.hpp"
#include "quantize/cast.hpp"

namespace tape8 {
namespace {

constexpr const char* kOp = "layernorm_mlp";
enum Argument : int { kX, kGamma, kBeta, kKernel1, kKernel2, kBias1, kBias2 };

struct Sizes {
  MatmulSizes dense_1, dense_2;
  Shape z_shape, activated_shape, y_shape;
};

struct Saved {
  SavedNorm norm;
  SavedMatmul dense_1;  // of the norm's output
  SavedActivation act;  // of dense_1's result
  SavedMatmul dense_2;  // of the activation's output
  // How operands that were not kept are made again.
  CastReplay norm_cast, act_cast;

  void visit(SavedVisitor& visitor) const {
    norm.visit(visitor);
    dense_1.visit(visitor);
    act.visit(visitor);
    dense_2.visit(visitor);
  }
};

void check_options(const Variable& x, const std::array<Variable, 2>& kernels,
                   const LayerNormMLPOptions& options, const Sizes& sizes) {
  check_quantizable(kOp, x.dtype(), options.quantizer_sets[0], "quantizer_sets[0]");
  check_quantizable(kOp, x.dtype(), options.quantizer_sets[1], "quantizer_sets[1]");
  const int x_rank = x.shape().rank();
  check_axes(kOp, "norm_input_axes", options.norm_input_axes, x_rank);
  check_axes(kOp, "dot_1_input_axes", options.dot_1_input_axes, x_rank);
  check_axes(kOp, "dot_2_input_axes", options.dot_2_input_axes, sizes.activated_shape.rank());
  check_axes(kOp, "kernel_1_axes", options.kernel_1_axes, kernels[0].shape().rank());
  check_axes(kOp, "kernel_2_axes", options.kernel_2_axes, kernels[1].shape().rank());
}

Sizes check_shapes(const Variable& x, const std::array<Variable, 2>& kernels,
                   const std::array<Variable, 2>& biases, const ActivationType& type) {
  check_given(kOp, "x", x);
  check_given(kOp, "kernel_1", kernels[0]);
  const Shape& kernel_1 = kernels[0].shape();
  const std::int64_t parts = type.count();
  const bool named = kernel_1.rank() == 3;
  if ((kernel_1.rank() != 2 && !named) || (named && kernel_1[1] != parts)) {
    fail<ShapeError>(
        "layernorm_mlp: kernel_1 must be [hidden_in, n * intermediate] or [hidden_in, n, "
        "intermediate] with n = {} for {}: got {}",
        parts, to_string(type), to_string(kernel_1));
  }
  if (!named && kernel_1[-1] % parts != 0) {
    fail<ShapeError>(
        "layernorm_mlp: kernel_1.shape[-1] must be a multiple of the {} parts of {}: got {}", parts,
        to_string(type), kernel_1[-1]);
  }
  Sizes sizes;
  sizes.dense_1 =
      check_matmul(kOp, x, kernels[0], biases[0], 1, {.kernel = "kernel_1", .bias = "bias_1"});
  const Shape batch = x.shape().axes(0, x.shape().rank() - 1);
  sizes.z_shape = batch.joined({sizes.dense_1.n});
  sizes.activated_shape = batch.joined({sizes.dense_1.n / parts});
  sizes.dense_2 =
      check_matmul(kOp, sizes.activated_shape, x.tensor().device(), kernels[1], biases[1], 1,
                   {.x = "the activation's output", .kernel = "kernel_2", .bias = "bias_2"});
  sizes.y_shape = batch.joined(kernels[1].shape().axes(1, kernels[1].shape().rank()));
  return sizes;
}

/// After the forward: forgets what backward will not contract, the casts too if they are to be
/// remade; returns how.
CastReplay keep_for_backward(SavedMatmul& dense, const QuantizerSet& set, const Variable& kernel,
                             const MatmulNeeds& will_need, CastReplay replay, bool remake) {
  keep_for_backward(dense, set, QuantizedTensor{}, kernel, will_need);
  const bool random = set.x && set.x.state()->random_state();
  if (remake && !random) dense.x = {};
  switch (set.backward_override) {
    case BackwardOverride::none:
      replay.request.usages.rowwise = false;
      break;
    case BackwardOverride::dequantized:
      break;
    case BackwardOverride::high_precision:
      replay = {};
      break;
  }
  return replay;
}

/// A matmul's x for backward: as it was kept or made again by `compute`, which writes its values.
template <class Compute>
void restore_operand(SavedMatmul& dense, const CastReplay& replay, const Device& device,
                     const Compute& compute) {
  if (dense.x.defined()) return;
  CastTarget target(replay, dense.x_shape, dense.x_dtype, device);
  compute(target.output());
  dense.x = target.finish();
}

void backward(const Saved& saved, Gradients& gradients) {
  const NormNeeds norm_needs{gradients.needs(kX), gradients.needs(kGamma), gradients.needs(kBeta)};
  const MatmulNeeds needs_1{norm_needs.any(), gradients.needs(kKernel1), gradients.needs(kBias1)};
  const MatmulNeeds needs_2{needs_1.any(), gradients.needs(kKernel2), gradients.needs(kBias2)};
  const Device device = saved.norm.x.device();

  SavedMatmul dense_2 = saved.dense_2;
  if (needs_2.kernel) {
    restore_operand(dense_2, saved.act_cast, device,
                    [&](const Output& y) { activation_forward(saved.act, y); });
  }
  MatmulGradients made_2 = matmul_backward(dense_2, gradients.output(), needs_2);
  dense_2.x = {};
  if (needs_2.kernel) gradients.set(kKernel2, std::move(made_2.kernel));
  if (needs_2.bias) gradients.set(kBias2, std::move(made_2.bias));
  if (!needs_1.any()) return;

  SavedMatmul dense_1 = saved.dense_1;
  if (needs_1.kernel) {
    restore_operand(dense_1, saved.norm_cast, device,
                    [&](const Output& y) { norm_again(saved.norm, y); });
  }
  Tensor dbias;
  if (needs_1.bias) {
    dbias = Tensor::empty(dense_1.bias_shape, stat_dtype(dense_1.x_dtype), device);
  }
  const bool needs_operand = needs_1.x || needs_1.kernel;
  CastTarget dz(needs_operand ? dense_1.dgrad : Quantizer{}, saved.act.x.shape(), dense_1.x_dtype,
                device, dy_cast_request(dense_1, needs_1));
  activation_backward(saved.act, made_2.x, dz.output(), dbias.mutable_data());
  made_2.x = {};
  MatmulGradients made_1 = contract_dy(dense_1, dz.finish(), needs_1);
  dense_1.x = {};
  if (needs_1.kernel) gradients.set(kKernel1, std::move(made_1.kernel));
  if (needs_1.bias) gradients.set(kBias1, converted(dbias, dense_1.bias_dtype));
  if (!norm_needs.any()) return;

  NormGradients norm = norm_backward(saved.norm, made_1.x, norm_needs);
  if (norm_needs.x) gradients.set(kX, std::move(norm.x));
  if (norm_needs.gamma) gradients.set(kGamma, std::move(norm.gamma));
  if (norm_needs.beta) gradients.set(kBeta, std::move(norm.beta));
}

}  // namespace

Variable layernorm_mlp(const Variable& x, const Variable& gamma, const Variable& beta,
                       const std::array<Variable, 2>& kernels,
                       const std::array<Variable, 2>& biases, const LayerNormMLPOptions& options) {
  const Sizes sizes = check_shapes(x, kernels, biases, options.activation_type);
  const NormOptions norm{options.norm_type, options.zero_centered_gamma, options.epsilon};
  check_norm(kOp, x, gamma, beta, norm);
  check_activation(kOp, x.dtype(), options.activation_type, options.activation_params);
  check_options(x, kernels, options, sizes);
  const auto& [set_1, set_2] = options.quantizer_sets;
  const MatmulNeeds will_need_1{
      gradient_wanted(x) || gradient_wanted(gamma) || gradient_wanted(beta),
      gradient_wanted(kernels[0]), gradient_wanted(biases[0])};
  const MatmulNeeds will_need_2{will_need_1.any(), gradient_wanted(kernels[1])};

  Saved saved{.norm = prepare_norm(x, gamma, beta, norm)};
  const Device device = saved.norm.x.device();
  CastTarget norm_target(set_1.x, x.shape(), x.dtype(), device,
                         x_cast_request(sizes.dense_1, set_1, will_need_1));
  norm_forward(saved.norm, norm_target.output());
  saved.dense_1 = prepare_matmul(sizes.dense_1, norm_target.finish(), x.dtype(), kernels[0],
                                 biases[0], set_1, will_need_1);
  saved.act = prepare_activation(matmul_forward(saved.dense_1, biases[0], sizes.z_shape),
                                 options.activation_type, options.activation_params);

  CastTarget act_target(set_2.x, sizes.activated_shape, x.dtype(), device,
                        x_cast_request(sizes.dense_2, set_2, will_need_2));
  activation_forward(saved.act, act_target.output());
  saved.dense_2 = prepare_matmul(sizes.dense_2, act_target.finish(), x.dtype(), kernels[1],
                                 biases[1], set_2, will_need_2);
  Tensor y = matmul_forward(saved.dense_2, biases[1], sizes.y_shape);

  saved.norm_cast = keep_for_backward(saved.dense_1, set_1, kernels[0], will_need_1,
                                      norm_target.replay(), options.remake_casts);
  saved.act_cast = keep_for_backward(saved.dense_2, set_2, kernels[1], will_need_2,
                                     act_target.replay(), options.remake_casts);
  saved.norm.runs_again = !saved.dense_1.x.defined();
  return record(kOp, {x, gamma, beta, kernels[0], kernels[1], biases[0], biases[1]}, std::move(y),
                std::move(saved), backward);
}

}  // namespace tape8
