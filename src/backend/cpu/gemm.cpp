#include "backend/cpu/gemm.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include <fmt/format.h>

#include "backend/cpu/gemm_kernels.hpp"
#include "backend/cpu/gemm_operand.hpp"
#include "backend/cpu/gemm_plan.hpp"
#include "backend/cpu/parallel.hpp"
#include "backend/gemm_check.hpp"
#include "core/allocator.hpp"
#include "core/logger.hpp"

namespace tape8::cpu {
namespace {

const GemmKernels& kernels_of(Isa isa) {
  switch (isa) {
#if defined(TAPE8_X86_64)
    case Isa::avx512:
      return kGemmAvx512;
    case Isa::avx2:
      return kGemmAvx2;
#else
    case Isa::avx512:
    case Isa::avx2:
#endif
    case Isa::portable:
      break;
  }
  return kGemmPortable;
}

/// Memory of one thread that grows to what its largest call needed, in huge pages where it is
/// large.
class Scratch {
 public:
  Scratch() = default;
  ~Scratch() { release(); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  float* reserve(std::int64_t words) {
    const std::size_t bytes = static_cast<std::size_t>(words) * sizeof(float);
    if (bytes > bytes_) {
      release();
      memory_ = CachingAllocator::instance().allocate(bytes);
      bytes_ = bytes;
    }
    return static_cast<float*>(memory_);
  }

 private:
  void release() {
    if (memory_ != nullptr) CachingAllocator::instance().release(memory_, bytes_);
    memory_ = nullptr;
    bytes_ = 0;
  }

  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Packs values k of `width`-wide strip `rows` of an operand.
void pack(const GemmKernel& kernel, const OperandLayout& operand, Range rows, Range k,
          std::int64_t width, float* strip) {
  const std::int64_t element = operand.k_contiguous ? rows.begin * operand.stride + k.begin
                                                    : k.begin * operand.stride + rows.begin;
  kernel.pack({.data = static_cast<const char*>(operand.data) + element * bits(operand.dtype) / 8,
               .dtype = operand.dtype,
               .k_contiguous = operand.k_contiguous,
               .stride = operand.stride,
               .width = width,
               .count = rows.size(),
               .depth = k.size(),
               .scales = &operand.scales,
               .first_row = rows.begin,
               .first_k = k.begin},
              reinterpret_cast<std::uint32_t*>(strip));
}

/// One cell: the loops over blocks and tiles. Returns the largest |value| as bits.
class Cell {
 public:
  Cell(const Plan& plan, float* scratch)
      : plan_(plan), a_(scratch), b_(a_ + plan.a_words), sums_(b_ + plan.b_words) {}

  std::uint32_t run(Range rows, Range cols) {
    for (std::int64_t c = cols.begin; c < cols.end; c += plan_.block_cols) {
      for (std::int64_t r = rows.begin; r < rows.end; r += plan_.partial_rows) {
        partial_rows_ = {r, std::min(rows.end, r + plan_.partial_rows)};
        cols_ = {c, std::min(cols.end, c + plan_.block_cols)};
        has_a_ = plan_.keeps_a && c > cols.begin;
        for (std::int64_t block = 0; block < plan_.blocks_k; ++block) run_block_k(block);
      }
    }
    return largest_;
  }

 private:
  /// Width of the strip of b that begins at a column.
  std::int64_t strip_cols(std::int64_t col) const {
    const GemmKernel& kernel = *plan_.kernel;
    return cols_.end - col <= kernel.half_cols ? kernel.half_cols : kernel.cols;
  }

  void run_block_k(std::int64_t block) {
    first_ = block == 0;
    last_ = block == plan_.blocks_k - 1;
    k_ = {block * plan_.block_k, std::min(plan_.k, (block + 1) * plan_.block_k)};
    steps_ = plan_.steps(k_.size());
    for (std::int64_t c = cols_.begin; c < cols_.end; c += plan_.kernel->cols) {
      const Range strip{c, std::min(cols_.end, c + plan_.kernel->cols)};
      pack(*plan_.kernel, plan_.b, strip, k_, strip_cols(c), b_ + (c - cols_.begin) * steps_);
    }
    for (std::int64_t r = partial_rows_.begin; r < partial_rows_.end; r += plan_.block_rows) {
      run_block_rows({r, std::min(partial_rows_.end, r + plan_.block_rows)});
    }
  }

  void run_block_rows(Range rows) {
    float* const a = plan_.keeps_a ? a_ + (rows.begin - partial_rows_.begin) * steps_ : a_;
    for (std::int64_t r = rows.begin; r < rows.end && !has_a_; r += plan_.strip_rows) {
      const Range strip{r, std::min(rows.end, r + plan_.strip_rows)};
      pack(*plan_.kernel, plan_.a, strip, k_, strip.size(), a + (r - rows.begin) * steps_);
    }
    for (std::int64_t c = cols_.begin; c < cols_.end; c += plan_.kernel->cols) {
      for (std::int64_t r = rows.begin; r < rows.end; r += plan_.strip_rows) {
        run_tile({r, std::min(rows.end, r + plan_.strip_rows)}, a + (r - rows.begin) * steps_, c);
      }
    }
  }

  void run_tile(Range rows, const float* a, std::int64_t c) {
    float* sums = sums_;
    if (plan_.blocks_k > 1) {
      sums += (rows.begin - partial_rows_.begin) * plan_.block_cols +
              (c - cols_.begin) * plan_.strip_rows;
    }
    const float* b = b_ + (c - cols_.begin) * steps_;
    if (last_) prefetch(rows, c);
    plan_.kernel->multiply(rows.size(), strip_cols(c), steps_,
                           reinterpret_cast<const std::uint32_t*>(a),
                           reinterpret_cast<const std::uint32_t*>(b), !first_, sums);
    if (last_) store(rows, {c, std::min(cols_.end, c + plan_.kernel->cols)}, sums);
  }

  /// Asks for the lines of a tile of d, so that its stores do not wait for memory.
  void prefetch(Range rows, std::int64_t c) const {
    constexpr std::int64_t kLine = 64;
    const std::int64_t size = bits(plan_.args->d.dtype) / 8;
    const std::int64_t stride = plan_.args->n * size;
    const char* row = static_cast<const char*>(plan_.args->d.data) + rows.begin * stride + c * size;
    const std::int64_t width = std::min(plan_.kernel->cols, cols_.end - c) * size;
    for (std::int64_t r = rows.begin; r < rows.end; ++r, row += stride) {
      for (std::int64_t at = 0; at < width; at += kLine) __builtin_prefetch(row + at, 1);
    }
  }

  void store(Range rows, Range cols, const float* sums) {
    const GemmArgs& args = *plan_.args;
    const auto* bias = static_cast<const float*>(args.bias);
    const std::int64_t element = rows.begin * args.n + cols.begin;
    const std::uint32_t largest = plan_.kernel->store(
        {.sums = sums,
         .rows = rows.size(),
         .cols = cols.size(),
         .factor = plan_.factor,
         .bias = bias == nullptr ? nullptr : bias + cols.begin,
         .d = static_cast<char*>(args.d.data) + element * (bits(args.d.dtype) / 8),
         .dtype = args.d.dtype,
         .stride = args.n,
         .scale = plan_.scale});
    largest_ = std::max(largest_, largest);
  }

  const Plan& plan_;
  float* a_;
  float* b_;
  float* sums_;  // a tile, or with several blocks of k the tiles of partial_rows_ x cols_
  Range partial_rows_, cols_, k_;
  std::int64_t steps_ = 0;
  bool has_a_ = false;  // packed for a block of b before
  bool first_ = true, last_ = true;
  std::uint32_t largest_ = 0;
};

/// From the bits of the largest |value|; those of a NaN are above all others.
void set_amax(const GemmArgs& args, std::uint32_t largest) {
  if (args.d.amax == nullptr) return;
  const float value = std::bit_cast<float>(largest);
  args.d.amax->value = std::isnan(value) ? std::numeric_limits<float>::quiet_NaN() : value;
}

void run(const Plan& plan) {
  thread_local Scratch scratch;
  float* memory = scratch.reserve(plan.cells() * plan.cell_words());
  std::atomic<std::uint32_t> largest{0};
  parallel_for(plan.cells(), kSerialNanoseconds, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::uint32_t found =
          Cell(plan, memory + i * plan.cell_words()).run(plan.rows_of(i), plan.cols_of(i));
      std::uint32_t seen = largest.load(std::memory_order_relaxed);
      while (seen < found && !largest.compare_exchange_weak(seen, found)) {
      }
    }
  });
  set_amax(*plan.args, largest.load());
}

void run_f64(const GemmKernels& kernels, const GemmArgs& args) {
  const bool row_major_b = !args.b.transposed;
  auto* d = static_cast<double*>(args.d.data);
  const DoubleProduct product{.n = args.n,
                              .k = args.k,
                              .a = static_cast<const double*>(args.a.data),
                              .a_row = args.a.transposed ? 1 : args.k,
                              .a_k = args.a.transposed ? args.m : 1,
                              .b = static_cast<const double*>(args.b.data),
                              .b_k = row_major_b ? args.n : 1,
                              .b_col = row_major_b ? 1 : args.k,
                              .d = d};
  const double row_nanoseconds = 2.0 * static_cast<double>(args.n) * static_cast<double>(args.k);
  parallel_for(args.m, row_nanoseconds, [&](std::int64_t begin, std::int64_t end) {
    kernels.multiply_f64(product, begin, end);
  });

  const auto* bias = static_cast<const double*>(args.bias);
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < args.m * args.n; ++i) {
    if (bias != nullptr) d[i] += bias[i % args.n];
    largest = std::max(largest, std::bit_cast<std::uint32_t>(std::fabs(static_cast<float>(d[i]))));
  }
  set_amax(args, largest);
}

/// "e4m3", "mxfp8_1d e4m3".
std::string name_of(const GemmOperand& operand) {
  if (!is_block_scaled(operand.scaling_mode)) return std::string(to_string(operand.dtype));
  return fmt::format("{} {}", to_string(operand.scaling_mode), to_string(operand.dtype));
}

}  // namespace

void gemm(Isa isa, const GemmArgs& args) {
  check_gemm("cpu", args);
  const GemmKernels& kernels = kernels_of(isa);
  const bool f64 = args.a.dtype == DType::f64;
  const char* wider = wider_than_bf16(args);
  const GemmKernel& kernel = wider == nullptr ? kernels.bf16 : kernels.f32;
  if (logger().should_log(spdlog::level::debug)) {
    logger().debug("cpu: gemm: {}x{}x{} {}{} {} x {} -> {}: {}{}", args.m, args.n, args.k,
                   args.a.transposed ? 'T' : 'N', args.b.transposed ? 'T' : 'N', name_of(args.a),
                   name_of(args.b), to_string(args.d.dtype), f64 ? "f64 fma" : kernel.name,
                   f64                ? "; tiles declined: they have no f64 arithmetic"
                   : wider == nullptr ? ""
                                      : fmt::format("; bf16 dot declined: {}", wider));
  }
  if (args.m == 0 || args.n == 0) return set_amax(args, 0);
  if (f64) return run_f64(kernels, args);
  run(make_plan(args, kernel));
}

}  // namespace tape8::cpu
