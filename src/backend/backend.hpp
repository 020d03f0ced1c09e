#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <tape8/core/activation_type.hpp>
#include <tape8/core/device.hpp>
#include <tape8/core/dtype.hpp>
#include <tape8/core/export.hpp>
#include <tape8/core/norm_type.hpp>
#include <tape8/core/scaling.hpp>

namespace tape8 {

// The flat kernel interface. Arguments are raw row-major memory on the backend's device, already
// checked by the op that calls; outputs do not overlap inputs unless a comment allows it. Values
// are computed in f32, and in f64 where x is f64; `Stat` memory (statistics, affine parameters,
// sums) is f32 then, or f64. Any count may be 0. Sums run in an order that depends on the sizes
// alone, never on the threads.

// Block-scaled matrices. What is stored of a matrix [R, C] for a usage, with (along, across) of its
// scaling_block() and sizes of scales rounded up:
//
//   mode                      usage       data                          block scales
//   mxfp8_1d, float8_block_*  rowwise     [R, C]                        [R / across, C / along]
//                             columnwise  [R, C]                        [R / along, C / across]
//   nvfp4_*                   rowwise     [R, C up to a multiple of 16] [R / across, C / 16]
//                             columnwise  [C, R up to a multiple of 16] [C / across, R / 16]
//
// So FP8 lies as the matrix does, and NVFP4 with the contracted axis last, its rows whole bytes:
// what lies past the matrix is zero, or what the Hadamard transform makes of zeros.

/// The blocks of data to read.
struct BlockInput {
  ScalingMode scaling_mode = ScalingMode::none;
  Usage usage = Usage::rowwise;
  const void* scale_inv = nullptr;  // one a block, scale_dtype(scaling_mode)
  bool hadamard = false;            // the transform is undone
};

/// Memory to read. FP8 and FP4 values count as float(q) * their block's scale * *scale_inv (null:
/// 1).
struct Input {
  const void* data = nullptr;
  DType dtype = DType::f32;
  const ScaleInv* scale_inv = nullptr;
  const BlockInput* blocks = nullptr;  // null: not block-scaled; for cast() alone
};

/// A stream of random numbers. Element e (its index in the matrix as it is cast, row-major, rows
/// past the end counted on) has 16 bits r of philox(key, {e / 8, its high half | columnwise << 31,
/// cast, its high half}): half e % 8, low halves first. A value v between neighbours, lo <= |v| <=
/// hi with |v| at most 6, becomes the upper one where (|v| - lo) / (hi - lo) > (r + 0.5) 2^-16: on
/// average v, and always v where that is exact.
struct StochasticRounding {
  std::uint64_t key = 0;
  std::uint64_t cast = 0;
};

/// What one usage's cast writes, as above.
struct BlockPart {
  void* data = nullptr;        // null: this usage is not wanted
  void* scale_inv = nullptr;   // one a block
  const Amax* amax = nullptr;  // nvfp4: of all the values (transformed ones with hadamard)
  ScaleInv* tensor_scale_inv = nullptr;  // nvfp4: receives what the matmul multiplies by
};

/// A cast with block scales, each usage from the same values in one pass; their bytes are those of
/// a cast alone.
///
/// mxfp8: scale_inv = 2^ceil(log2(amax / max)), data = cast(x / scale_inv). float8_block: scale =
/// max / amax (1 for an amax of 0, Inf or NaN; at most FLT_MAX), its mantissa cleared with
/// power_of_2_scale; scale_inv = 1 / scale. nvfp4: with t = 6 * 448 / amax
/// (FLT_MAX where that is Inf, 1 where it is 0) and tensor_scale_inv = 1 / t, block scale s =
/// e4m3(block amax / 6 * t), data = e2m1(x * min(1 / (s * tensor_scale_inv), FLT_MAX)), FLT_MAX for
/// an s of NaN too.
struct BlockOutput {
  ScalingMode scaling_mode = ScalingMode::none;
  DType dtype = DType::e4m3;
  bool power_of_2_scale = true;
  /// nvfp4_1d: the columnwise cast is of blocks transformed by H16 diag(signs), the randomized
  /// 16-point Hadamard transform.
  bool hadamard = false;
  const StochasticRounding* rounding = nullptr;  // nvfp4: null rounds to nearest even
  BlockPart rowwise, columnwise;
};

/// Memory to write computed values to, rounded once to dtype. FP8 stores cast(value * *scale)
/// (null: 1) and saturates.
struct Output {
  void* data = nullptr;  // null: the values are not wanted
  DType dtype = DType::f32;
  const Scale* scale = nullptr;
  Amax* amax = nullptr;  // null, or receives max |value| before scaling; NaN if any value is
  /// Instead of data, dtype and scale: of cast(), norm(), activation(), activation_backward().
  const BlockOutput* blocks = nullptr;
};

/// Statistics, gamma, beta, bias and their gradients: f32, or f64 where x is f64.
using Stat = void;

/// y = x, converted; optionally the sum over rows of x. x: [rows, cols].
struct CastArgs {
  std::int64_t rows = 0, cols = 0;
  Input x;
  Output y;
  Stat* dbias = nullptr;  // [cols], summed in f32 from x as it is before the cast; null: not wanted
  Amax* hadamard_amax = nullptr;  // of x transformed as a columnwise nvfp4 cast has it; likewise
};

/// y[r, c] = product over parts p of act_p(x[r, p * cols + c]). x: [rows, parts * cols].
struct ActivationArgs {
  ActivationType type = Act::linear;
  ActivationParams params;
  std::int64_t rows = 0, cols = 0;
  Input x;
  Output y;  // [rows, cols]
};

/// dx of the same; with dbias the sum over rows of dx before its cast.
struct ActivationBackwardArgs {
  ActivationType type = Act::linear;
  ActivationParams params;
  std::int64_t rows = 0, cols = 0;
  Input dy;               // [rows, cols]
  Input x;                // [rows, parts * cols]
  Output dx;              // [rows, parts * cols]
  Stat* dbias = nullptr;  // [parts * cols]; null: not wanted
};

/// layernorm or rmsnorm over the last axis of x: [rows, cols].
struct NormArgs {
  NormType type = NormType::layernorm;
  bool zero_centered_gamma = false;  // gamma + 1 is used
  float epsilon = 1e-6F;
  std::int64_t rows = 0, cols = 0;
  Input x;
  const Stat* gamma = nullptr;  // [cols]
  const Stat* beta = nullptr;   // [cols]; null: zeros
  Output y;                     // [rows, cols]
  Stat* mu = nullptr;           // [rows]; layernorm only
  Stat* rsigma = nullptr;       // [rows]
};

struct NormBackwardArgs {
  NormType type = NormType::layernorm;
  bool zero_centered_gamma = false;
  std::int64_t rows = 0, cols = 0;
  Input dy;
  Input x;
  const Stat* gamma = nullptr;
  const Stat* mu = nullptr;  // layernorm only
  const Stat* rsigma = nullptr;
  Output dx;               // data null: not wanted
  Stat* dgamma = nullptr;  // [cols]; null: not wanted
  Stat* dbeta = nullptr;   // [cols]; null: not wanted
};

/// A matrix as it lies in memory. `transposed` says that memory holds the transpose of the operand.
/// Blocks of scales lie along k. nvfp4 has k last in memory, so transposed is false for a and true
/// for b, and its rows are k rounded up to a multiple of 16 long.
struct GemmOperand {
  const void* data = nullptr;
  DType dtype = DType::f32;
  bool transposed = false;
  ScalingMode scaling_mode = ScalingMode::none;
  const ScaleInv* scale_inv = nullptr;    // per_tensor, nvfp4: the tensor's; null: 1
  const void* block_scale_inv = nullptr;  // one a block, scale_dtype(scaling_mode)
  bool hadamard = false;                  // both operands are transformed along k, or neither
};

/// d = scale_inv_a * scale_inv_b * (a * b) + bias, accumulated over ascending k. Block scales are
/// multiplied into the operands' values, float(q) * scale, as these are decoded.
///
/// Operands in bf16, FP8 and FP4 are exact in bf16 (float8_block ones where each scale is a power
/// of two), and their products are summed as vdpbf16ps does: for
/// each pair of k, acc = fma(a[2j], b[2j], fma(a[2j+1], b[2j+1], acc)) to nearest even with
/// denormal inputs and results of each step flushed to a zero of their sign; an odd k is padded
/// with zeros. With another operand both are decoded to f32 and acc = fma(a[j], b[j], acc)
/// in IEEE arithmetic; f64 operands, only together, likewise in f64.
struct GemmArgs {
  std::int64_t m = 0, n = 0, k = 0;
  GemmOperand a;               // [m, k]; memory [k, m] if transposed
  GemmOperand b;               // [k, n]; memory [n, k] if transposed
  const Stat* bias = nullptr;  // [n]; null: none
  Output d;                    // [m, n]
};

/// The mean, over the rows whose label is not kIgnoredLabel, of
/// logsumexp(logits[r]) - (1 - s) logits[r, labels[r]] - s mean(logits[r]) with s =
/// label_smoothing; 0 when there are none.
struct SoftmaxCrossEntropyArgs {
  std::int64_t rows = 0, classes = 0;
  float label_smoothing = 0.0F;
  Input logits;                          // [rows, classes]
  const std::int32_t* labels = nullptr;  // [rows], each in [0, classes) or kIgnoredLabel
  std::int64_t counted = 0;              // rows whose label is not ignored
  Stat* loss = nullptr;                  // [1]
  Stat* logsumexp = nullptr;             // [rows]
};

inline constexpr std::int32_t kIgnoredLabel = -1;

/// dlogits[r, c] = (exp(logits[r, c] - logsumexp[r]) - (1 - s) (c == labels[r]) - s / classes)
/// * *dloss / counted; 0 in ignored rows.
struct SoftmaxCrossEntropyBackwardArgs {
  std::int64_t rows = 0, classes = 0;
  float label_smoothing = 0.0F;
  Input logits;
  const std::int32_t* labels = nullptr;
  std::int64_t counted = 0;
  const Stat* logsumexp = nullptr;
  const Stat* dloss = nullptr;  // [1]
  Output dlogits;               // [rows, classes]
};

enum class BinaryOp { add, sub, mul };

/// y = a op b; y may be a or b.
struct BinaryArgs {
  BinaryOp op = BinaryOp::add;
  std::int64_t count = 0;
  Input a, b;
  Output y;
};

/// y = x * factor; y may be x.
struct ScaleArgs {
  std::int64_t count = 0;
  Input x;
  double factor = 1.0;
  Output y;
};

/// y[o, i] = factor * sum over r of x[o, r, i]. x: [outer, reduced, inner].
struct ReduceArgs {
  std::int64_t outer = 0, reduced = 0, inner = 0;
  Input x;
  double factor = 1.0;
  Output y;
};

/// y[o, r, i] = factor * x[o, i]: the backward of a reduction.
struct BroadcastArgs {
  std::int64_t outer = 0, reduced = 0, inner = 0;
  Input x;
  double factor = 1.0;
  Output y;
};

/// y[i] = keep(i) ? x[i] / (1 - rate) : 0, where keep(i) is a uniform number of (seed, i) >= rate.
struct DropoutArgs {
  std::int64_t count = 0;
  Input x;
  float rate = 0.0F;
  std::uint64_t seed = 0;
  Output y;
};

/// loss = mean of (prediction - target)^2; 0 for no elements.
struct MseArgs {
  std::int64_t count = 0;
  Input prediction, target;
  Stat* loss = nullptr;  // [1]
};

/// dprediction = 2 (prediction - target) * *dloss / count.
struct MseBackwardArgs {
  std::int64_t count = 0;
  Input prediction, target;
  const Stat* dloss = nullptr;  // [1]
  Output dprediction;
};

/// One parameter of an optimizer step. `weight` is the f32 master; `copy`, where given, receives it
/// rounded to the parameter's own type in the same pass.
struct AdamWTensor {
  std::int64_t count = 0;
  float* weight = nullptr;
  Input grad;
  float* exp_avg = nullptr;
  float* exp_avg_sq = nullptr;
  Output copy;
};

/// Decoupled weight decay (Loshchilov and Hutter, 2019): with g the gradient,
/// m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
/// w = w - learning_rate (m / c1 / (sqrt(v / c2) + epsilon) + weight_decay w),
/// c1 = 1 - beta1^step, c2 = 1 - beta2^step.
struct AdamWArgs {
  std::span<const AdamWTensor> tensors;
  float learning_rate = 0, beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0;
  std::int64_t step = 1;
};

struct SgdTensor {
  std::int64_t count = 0;
  float* weight = nullptr;
  Input grad;
  float* velocity = nullptr;  // null without momentum
  Output copy;
};

/// g = grad + weight_decay w; velocity = momentum velocity + g; w = w - learning_rate * (velocity,
/// or g without momentum; g + momentum velocity with nesterov).
struct SgdArgs {
  std::span<const SgdTensor> tensors;
  float learning_rate = 0, momentum = 0, weight_decay = 0;
  bool nesterov = false;
};

/// The inverse of a smaller scale could be Inf, and zeros would decode to NaN.
inline constexpr float kSmallestScale = 0x1p-126F;

/// The scale that follows from the amax of what was cast: a quantizer's whose pass is over (delayed
/// scaling), or one tensor's (current scaling). With max the format's largest value and previous
/// the old *scale, the new one is max / amax / 2^margin, at least kSmallestScale and at most
/// FLT_MAX; previous for an amax that is 0 or not finite.
struct ScaleUpdate {
  DType format = DType::e4m3;
  std::span<const Amax* const> amaxes;  // the largest of them counts; NaN if one is
  int margin = 0;
  bool power_of_2_scale = false;  // the mantissa is cleared
  /// Delayed scaling. h[0] becomes the amax and max(h), or h[0] with most_recent, is what the scale
  /// is made of; then h moves on by one: h[0] goes last, and 0 comes first. If the amax is not
  /// finite, h and the scale stand and *non_finite_passes counts up.
  float* amax_history = nullptr;  // null: none
  std::int64_t amax_history_length = 0;
  bool most_recent = false;
  std::int64_t* non_finite_passes = nullptr;  // null where amax_history is

  const Scale* previous = nullptr;  // null: 1
  Scale* scale = nullptr;
  ScaleInv* scale_inv = nullptr;
};

struct UpdateScalesArgs {
  std::span<const ScaleUpdate> updates;
};

/// Kernels of one device type.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;

  virtual void cast(const CastArgs& args) = 0;
  virtual void activation(const ActivationArgs& args) = 0;
  virtual void activation_backward(const ActivationBackwardArgs& args) = 0;
  virtual void norm(const NormArgs& args) = 0;
  virtual void norm_backward(const NormBackwardArgs& args) = 0;
  virtual void gemm(const GemmArgs& args) = 0;
  virtual void softmax_cross_entropy(const SoftmaxCrossEntropyArgs& args) = 0;
  virtual void softmax_cross_entropy_backward(const SoftmaxCrossEntropyBackwardArgs& args) = 0;
  virtual void binary(const BinaryArgs& args) = 0;
  virtual void scale(const ScaleArgs& args) = 0;
  virtual void reduce(const ReduceArgs& args) = 0;
  virtual void broadcast(const BroadcastArgs& args) = 0;
  virtual void dropout(const DropoutArgs& args) = 0;
  virtual void mse(const MseArgs& args) = 0;
  virtual void mse_backward(const MseBackwardArgs& args) = 0;
  virtual void adamw(const AdamWArgs& args) = 0;
  virtual void sgd(const SgdArgs& args) = 0;
  virtual void update_scales(const UpdateScalesArgs& args) = 0;
  /// The sum of the squares of `count` values, in f64.
  virtual double sum_of_squares(std::int64_t count, const Input& x) = 0;
  /// False if one of `count` values is NaN or Inf.
  virtual bool all_finite(std::int64_t count, const Input& x) = 0;
};

/// The backend of a device; throws UnsupportedError when this build has none.
TAPE8_API Backend& backend(const Device& device);

}  // namespace tape8
