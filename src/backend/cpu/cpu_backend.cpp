#include "backend/cpu/cpu_backend.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <vector>

#include "backend/checks.hpp"
#include "backend/cpu/activation_parts.hpp"
#include "backend/cpu/costs.hpp"
#include "backend/cpu/dropout_mask.hpp"
#include "backend/cpu/float64_kernels.hpp"
#include "backend/cpu/gemm.hpp"
#include "backend/cpu/kernels.hpp"
#include "backend/cpu/parallel.hpp"
#include "backend/cpu/run.hpp"
#include "backend/cpu/scales.hpp"
#include "backend/cpu/tiled_ops.hpp"
#include "core/fail.hpp"
#include "core/logger.hpp"

namespace tape8::cpu {
namespace {

KernelSet kernels_of(Isa isa) {
  switch (isa) {
#if defined(TAPE8_X86_64)
    case Isa::avx512:
      return {avx512_kernels(), avx512_block_kernels()};
    case Isa::avx2:
      return {avx2_kernels(), avx2_block_kernels()};
#else
    case Isa::avx512:
    case Isa::avx2:
#endif
    case Isa::portable:
      break;
  }
  return {portable_kernels(), portable_block_kernels()};
}

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(Isa isa) : isa_(isa), set_(kernels_of(isa)), kernels_(set_.kernels) {}

  std::string_view name() const override { return "cpu"; }

  void cast(const CastArgs& args) override {
    const bool f64 = args.x.dtype == DType::f64 || (args.y.data && args.y.dtype == DType::f64);
    begin("cast", f64, {args.x}, {args.y}, BlockSupport::inputs_and_outputs);
    if (f64 && args.hadamard_amax != nullptr) {
      fail<UnsupportedError>("cpu: cast: takes no hadamard_amax with f64");
    }
    if (f64) return float64::cast(args);
    if (args.x.blocks != nullptr || args.y.blocks != nullptr || args.hadamard_amax != nullptr) {
      return tiled::cast(set_, args);
    }
    if (args.dbias == nullptr) {
      return run_flat(args.y.amax, args.rows * args.cols, kCastCost, [&](Range elements) {
        return kernels_.cast(args, {{0, 1}, elements}, nullptr);
      });
    }
    run_with_sums<1>(args.y.amax, args.rows, args.cols, row_cost(kCastCost, args.cols),
                     {args.dbias}, [&](Range rows, const RowSums<1>& sums) {
                       return kernels_.cast(args, {rows, {0, args.cols}}, sums.of(rows.begin)[0]);
                     });
  }

  void activation(const ActivationArgs& args) override {
    const bool f64 = args.x.dtype == DType::f64;
    begin("activation", f64, {args.x}, {args.y}, BlockSupport::outputs);
    if (f64) return float64::activation(args);
    if (args.y.blocks != nullptr) return tiled::activation(set_, args);
    const ActivationParts parts = parts_of(args.type);
    if (parts.count == 1) {
      return run_flat(args.y.amax, args.rows * args.cols, kActivationCost, [&](Range elements) {
        return kernels_.activation(args, parts, {{0, 1}, elements});
      });
    }
    run(args.y.amax, args.rows, row_cost(kActivationCost, args.cols), [&](Range rows) {
      return kernels_.activation(args, parts, {rows, {0, args.cols}});
    });
  }

  void activation_backward(const ActivationBackwardArgs& args) override {
    const bool f64 = args.x.dtype == DType::f64;
    begin("activation_backward", f64, {args.dy, args.x}, {args.dx}, BlockSupport::outputs);
    if (f64) return float64::activation_backward(args);
    if (args.dx.blocks != nullptr) return tiled::activation_backward(set_, args);
    const ActivationParts parts = parts_of(args.type);
    if (parts.count == 1 && args.dbias == nullptr) {
      return run_flat(
          args.dx.amax, args.rows * args.cols, kActivationBackwardCost, [&](Range elements) {
            return kernels_.activation_backward(args, parts, {{0, 1}, elements}, nullptr);
          });
    }
    const std::int64_t x_cols = args.cols * parts.count;
    if (args.dbias == nullptr) {
      return run(
          args.dx.amax, args.rows, row_cost(kActivationBackwardCost, x_cols), [&](Range rows) {
            return kernels_.activation_backward(args, parts, {rows, {0, args.cols}}, nullptr);
          });
    }
    run_with_sums<1>(args.dx.amax, args.rows, x_cols, row_cost(kActivationBackwardCost, x_cols),
                     {args.dbias}, [&](Range rows, const RowSums<1>& sums) {
                       return kernels_.activation_backward(args, parts, {rows, {0, args.cols}},
                                                           sums.of(rows.begin)[0]);
                     });
  }

  void norm(const NormArgs& args) override {
    const bool f64 = args.x.dtype == DType::f64;
    begin("norm", f64, {args.x}, {args.y}, BlockSupport::outputs);
    if (f64) return float64::norm(args);
    if (args.y.blocks != nullptr) return tiled::norm(set_, args);
    run(args.y.amax, args.rows, row_cost(kNormCost, args.cols),
        [&](Range rows) { return kernels_.norm(args, rows); });
  }

  void norm_backward(const NormBackwardArgs& args) override {
    const bool f64 = args.x.dtype == DType::f64;
    begin("norm_backward", f64, {args.dy, args.x}, {args.dx});
    if (f64) return float64::norm_backward(args);
    run_with_sums<2>(args.dx.amax, args.rows, args.cols, row_cost(kNormBackwardCost, args.cols),
                     {args.dgamma, args.dbeta}, [&](Range rows, const RowSums<2>& sums) {
                       const auto [dgamma, dbeta] = sums.of(rows.begin);
                       return kernels_.norm_backward(args, rows, dgamma, dbeta);
                     });
  }

  void gemm(const GemmArgs& args) override {
    check_no_blocks("cpu", "gemm", args.d);
    cpu::gemm(isa_, args);
  }

  void softmax_cross_entropy(const SoftmaxCrossEntropyArgs& args) override {
    const bool f64 = args.logits.dtype == DType::f64;
    begin("softmax_cross_entropy", f64, {args.logits}, {});
    if (f64) return float64::softmax_cross_entropy(args);
    thread_local std::vector<double> memory;
    std::vector<double>& losses = memory;  // the caller's, in every thread of the team
    losses.assign(static_cast<std::size_t>(args.rows), 0.0);
    parallel_for(args.rows, row_cost(kSoftmaxCost, args.classes),
                 [&](std::int64_t first, std::int64_t last) {
                   kernels_.softmax_cross_entropy(args, {first, last}, losses.data());
                 });
    double sum = 0.0;
    for (const double loss : losses) sum += loss;
    const auto counted = static_cast<double>(std::max<std::int64_t>(args.counted, 1));
    *static_cast<float*>(args.loss) = static_cast<float>(sum / counted);
  }

  void softmax_cross_entropy_backward(const SoftmaxCrossEntropyBackwardArgs& args) override {
    const bool f64 = args.logits.dtype == DType::f64;
    begin("softmax_cross_entropy_backward", f64, {args.logits}, {args.dlogits});
    if (f64) return float64::softmax_cross_entropy_backward(args);
    run(args.dlogits.amax, args.rows, row_cost(kSoftmaxCost, args.classes),
        [&](Range rows) { return kernels_.softmax_cross_entropy_backward(args, rows); });
  }

  void binary(const BinaryArgs& args) override {
    const bool f64 = args.a.dtype == DType::f64 || args.b.dtype == DType::f64;
    begin("binary", f64, {args.a, args.b}, {args.y});
    if (f64) return float64::binary(args);
    run_flat(args.y.amax, args.count, kCastCost,
             [&](Range elements) { return kernels_.binary(args, elements); });
  }

  void scale(const ScaleArgs& args) override {
    const bool f64 = args.x.dtype == DType::f64;
    begin("scale", f64, {args.x}, {args.y});
    if (f64) return float64::scale(args);
    run_flat(args.y.amax, args.count, kCastCost,
             [&](Range elements) { return kernels_.scale(args, elements); });
  }

  void reduce(const ReduceArgs& args) override {
    const bool f64 = args.x.dtype == DType::f64;
    begin("reduce", f64, {args.x}, {args.y});
    if (f64) return float64::reduce(args);
    if (args.inner == 1) return reduce_rows(args);
    const std::int64_t blocks = divide_up(args.inner, kReduceCols);
    run(args.y.amax, args.outer * blocks, row_cost(kCastCost, args.reduced * kReduceCols),
        [&](Range range) {
          AmaxBits bits = 0;
          for (std::int64_t i = range.begin; i < range.end; ++i) {
            const std::int64_t first = i % blocks * kReduceCols;
            bits = std::max(
                bits, kernels_.reduce_columns(args, i / blocks,
                                              {first, std::min(first + kReduceCols, args.inner)}));
          }
          return bits;
        });
  }

  void broadcast(const BroadcastArgs& args) override {
    const bool f64 = args.x.dtype == DType::f64;
    begin("broadcast", f64, {args.x}, {args.y});
    if (f64) return float64::broadcast(args);
    if (args.inner == 1) {
      run(args.y.amax, args.outer, row_cost(kCastCost, args.reduced), [&](Range range) {
        AmaxBits bits = 0;
        for (std::int64_t o = range.begin; o < range.end; ++o) {
          bits = std::max(bits, kernels_.broadcast_scalar(args, o, {0, args.reduced}));
        }
        return bits;
      });
      return;
    }
    run(args.y.amax, args.outer * args.reduced, row_cost(kCastCost, args.inner),
        [&](Range rows) { return kernels_.broadcast(args, rows); });
  }

  void dropout(const DropoutArgs& args) override {
    const bool f64 = args.x.dtype == DType::f64;
    begin("dropout", f64, {args.x}, {args.y});
    if (f64) return float64::dropout(args);
    run_flat(args.y.amax, args.count, kDropoutCost,
             [&](Range elements) { return kernels_.dropout(args, keep_elements, elements); });
  }

  void mse(const MseArgs& args) override {
    const bool f64 = args.prediction.dtype == DType::f64 || args.target.dtype == DType::f64;
    begin("mse", f64, {args.prediction, args.target}, {});
    if (f64) return float64::mse(args);
    const double sum = sum_chunks(args.count, kCastCost, [&](Range elements) {
      return kernels_.squared_error(args, elements);
    });
    const auto count = static_cast<double>(std::max<std::int64_t>(args.count, 1));
    *static_cast<float*>(args.loss) = static_cast<float>(sum / count);
  }

  void mse_backward(const MseBackwardArgs& args) override {
    const bool f64 = args.prediction.dtype == DType::f64 || args.target.dtype == DType::f64;
    begin("mse_backward", f64, {args.prediction, args.target}, {args.dprediction});
    if (f64) return float64::mse_backward(args);
    run_flat(args.dprediction.amax, args.count, kCastCost,
             [&](Range elements) { return kernels_.mse_backward(args, elements); });
  }

  double sum_of_squares(std::int64_t count, const Input& x) override {
    const bool f64 = x.dtype == DType::f64;
    begin("sum_of_squares", f64, {x}, {});
    if (f64) return float64::sum_of_squares(count, x);
    return sum_chunks(count, kCastCost,
                      [&](Range elements) { return kernels_.sum_of_squares(x, elements); });
  }

  void adamw(const AdamWArgs& args) override {
    const AdamWFactors factors = factors_of(args);
    update("adamw", args.tensors, [&](const AdamWTensor& tensor, Range elements) {
      return kernels_.adamw(tensor, factors, elements);
    });
  }

  void sgd(const SgdArgs& args) override {
    const SgdFactors factors = factors_of(args);
    update("sgd", args.tensors, [&](const SgdTensor& tensor, Range elements) {
      return kernels_.sgd(tensor, factors, elements);
    });
  }

  void update_scales(const UpdateScalesArgs& args) override { cpu::update_scales(args); }

  bool all_finite(std::int64_t count, const Input& x) override {
    const bool f64 = x.dtype == DType::f64;
    begin("all_finite", f64, {x}, {});
    if (f64) return float64::all_finite(count, x);
    Amax amax;
    run_flat(&amax, count, kCastCost, [&](Range elements) { return kernels_.amax(x, elements); });
    return std::isfinite(amax.value);
  }

 private:
  /// y[o] = factor * the sum of row o; one row is cut into chunks for the threads.
  void reduce_rows(const ReduceArgs& args) {
    std::vector<double> sums(static_cast<std::size_t>(args.outer));
    const auto row = [&](std::int64_t o, Range part) {
      return kernels_.sum(args.x, {o * args.reduced + part.begin, o * args.reduced + part.end});
    };
    if (args.outer == 1) {
      sums[0] = sum_chunks(args.reduced, kCastCost, [&](Range part) { return row(0, part); });
    } else {
      parallel_for(args.outer, row_cost(kCastCost, args.reduced),
                   [&](std::int64_t first, std::int64_t last) {
                     for (std::int64_t o = first; o < last; ++o) {
                       sums[static_cast<std::size_t>(o)] = row(o, {0, args.reduced});
                     }
                   });
    }
    std::vector<float> values(sums.size());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      values[i] = static_cast<float>(sums[i] * args.factor);
    }
    cast({.rows = 1, .cols = args.outer, .x = {.data = values.data()}, .y = args.y});
  }

  /// Notes the call and refuses what the kernels do not have, before anything is written.
  void begin(std::string_view op, bool f64, std::initializer_list<Input> inputs,
             std::initializer_list<Output> outputs,
             BlockSupport block_support = BlockSupport::none) const {
    check_operands("cpu", op, f64, inputs, outputs, block_support);
    if (logger().should_log(spdlog::level::debug)) {
      logger().debug("cpu: {} [{}]", op, f64 ? std::string_view("f64") : to_string(isa_));
    }
  }

  /// One parallel region over the chunks of all tensors.
  template <class Tensor, class Kernel>
  void update(std::string_view op, std::span<const Tensor> tensors, const Kernel& kernel) const {
    std::int64_t chunks = 0;
    for (const Tensor& tensor : tensors) {
      begin(op, false, {tensor.grad}, {tensor.copy});
      chunks += divide_up(tensor.count, kChunk);
    }
    for (const Tensor& tensor : tensors) {
      if (tensor.copy.amax != nullptr) *tensor.copy.amax = {};
    }
    parallel_for(chunks, kOptimizerCost * kChunk, [&](std::int64_t first, std::int64_t last) {
      std::int64_t offset = 0;  // of the tensor's first chunk
      for (const Tensor& tensor : tensors) {
        const std::int64_t own = divide_up(tensor.count, kChunk);
        const std::int64_t begin_chunk = std::max(first - offset, std::int64_t{0});
        const std::int64_t end_chunk = std::min(last - offset, own);
        offset += own;
        if (begin_chunk >= end_chunk) continue;
        const Range elements{begin_chunk * kChunk, std::min(end_chunk * kChunk, tensor.count)};
        note_amax(tensor.copy.amax, kernel(tensor, elements));
      }
    });
    for (const Tensor& tensor : tensors) finish_amax(tensor.copy.amax);
  }

  Isa isa_;
  KernelSet set_;
  const Kernels& kernels_;
};

}  // namespace

std::unique_ptr<Backend> make_backend(Isa isa) { return std::make_unique<CpuBackend>(isa); }

}  // namespace tape8::cpu
