#include "backend/cpu/gemm.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <new>

#include "backend/cpu/gemm_kernels.hpp"
#include "backend/cpu/parallel.hpp"
#include "core/fail.hpp"
#include "core/logger.hpp"

namespace tape8::cpu {
namespace {

// Blocks of packed words: one strip of b and one block of a share the second-level cache while a
// block of b stays in the third.
constexpr std::int64_t kBlockSteps = 1024;
constexpr std::int64_t kBlockRows = 64;
constexpr std::int64_t kBlockCols = 1024;
/// Rows whose sums are kept across blocks of k.
constexpr std::int64_t kPartialRows = 1024;
constexpr double kPackNanoseconds = 0.2;  // roughly, an element

std::int64_t round_up(std::int64_t a, std::int64_t b) { return divide_up(a, b) * b; }

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

/// Memory of one thread that grows to what its largest call needed.
class Scratch {
 public:
  float* reserve(std::int64_t words) {
    if (words > words_) {
      memory_.reset();
      words_ = 0;
      memory_.reset(static_cast<float*>(::operator new (
          static_cast<std::size_t>(words) * sizeof(float), std::align_val_t{kAlignment})));
      words_ = words;
    }
    return memory_.get();
  }

 private:
  static constexpr std::size_t kAlignment = 64;
  struct Free {
    void operator()(float* memory) const {
      ::operator delete (memory, std::align_val_t{kAlignment});
    }
  };
  std::unique_ptr<float, Free> memory_;
  std::int64_t words_ = 0;
};

struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

/// How a product is cut: into a grid of cells for the threads, and each cell into blocks. k is
/// never cut between threads, and no cut changes the order of a sum.
struct Plan {
  const GemmArgs* args = nullptr;
  const GemmKernel* kernel = nullptr;
  float factor = 1.0F;
  float scale = 1.0F;
  std::int64_t strip_rows = 1;                // rows of a tile, so that the last is no small rest
  std::int64_t grid_rows = 1, grid_cols = 1;  // cells
  std::int64_t blocks_k = 1, block_k = 0;
  std::int64_t block_rows = 0, block_cols = 0, partial_rows = 0;  // largest in a cell
  std::int64_t a_words = 0, b_words = 0, sums_words = 0;          // scratch of a cell

  std::int64_t steps(std::int64_t depth) const {
    return round_up(depth, kernel->k_multiple) / kernel->k_per_step;
  }
  std::int64_t cell_words() const { return a_words + b_words + sums_words; }
};

/// Cuts [0, size) into `parts` ranges of whole units and returns one.
Range part_of(std::int64_t size, std::int64_t unit, std::int64_t parts, std::int64_t part) {
  const std::int64_t units = divide_up(size, unit);
  return {std::min(size, units * part / parts * unit),
          std::min(size, units * (part + 1) / parts * unit)};
}

/// The grid whose largest cell costs least, packing included.
void choose_grid(Plan& plan, std::int64_t threads) {
  const GemmArgs& args = *plan.args;
  const std::int64_t row_strips = divide_up(args.m, plan.strip_rows);
  const std::int64_t col_strips = divide_up(args.n, plan.kernel->cols);
  double least = INFINITY;
  for (std::int64_t rows = 1; rows <= threads; ++rows) {
    const std::int64_t cols = threads / rows;
    const double m = static_cast<double>(divide_up(row_strips, rows) * plan.strip_rows);
    const double n = static_cast<double>(divide_up(col_strips, cols) * plan.kernel->cols);
    const double cost =
        2.0 * m * n / plan.kernel->flops_per_nanosecond + (m + n) * kPackNanoseconds;
    if (cost < least) {
      least = cost;
      plan.grid_rows = rows;
      plan.grid_cols = cols;
    }
  }
}

Plan make_plan(const GemmArgs& args, const GemmKernel& kernel) {
  Plan plan;
  plan.args = &args;
  plan.kernel = &kernel;
  const float scale_a = args.a.scale_inv == nullptr ? 1.0F : args.a.scale_inv->value;
  const float scale_b = args.b.scale_inv == nullptr ? 1.0F : args.b.scale_inv->value;
  plan.factor = scale_a * scale_b;
  plan.scale = args.d.scale == nullptr ? 1.0F : args.d.scale->value;
  plan.strip_rows = divide_up(args.m, divide_up(args.m, kernel.rows));

  const double nanoseconds = 2.0 * static_cast<double>(args.m) * static_cast<double>(args.n) *
                             static_cast<double>(args.k) / kernel.flops_per_nanosecond;
  if (nanoseconds >= kSerialNanoseconds) choose_grid(plan, num_threads());

  const std::int64_t cell_rows =
      divide_up(divide_up(args.m, plan.strip_rows), plan.grid_rows) * plan.strip_rows;
  const std::int64_t cell_cols =
      divide_up(divide_up(args.n, kernel.cols), plan.grid_cols) * kernel.cols;
  plan.blocks_k = std::max<std::int64_t>(1, divide_up(args.k, kBlockSteps * kernel.k_per_step));
  plan.block_k = round_up(divide_up(args.k, plan.blocks_k), kernel.k_multiple);
  plan.block_rows = std::min(
      cell_rows, std::max<std::int64_t>(1, kBlockRows / plan.strip_rows) * plan.strip_rows);
  plan.block_cols = std::min(cell_cols, kBlockCols);
  plan.partial_rows = plan.blocks_k == 1
                          ? cell_rows
                          : std::min(cell_rows, kPartialRows / plan.strip_rows * plan.strip_rows);

  constexpr std::int64_t kAligned = 16;
  const std::int64_t steps = plan.steps(plan.block_k);
  plan.a_words = round_up(plan.block_rows * steps + kPackSlack, kAligned);
  plan.b_words = round_up(plan.block_cols * steps + kPackSlack, kAligned);
  plan.sums_words =
      plan.blocks_k == 1 ? kernel.rows * kernel.cols : plan.partial_rows * plan.block_cols;
  return plan;
}

/// Packs elements [k.begin, k.end) of `width`-wide strip `range` of an operand.
void pack(const Plan& plan, const GemmOperand& operand, bool k_contiguous, std::int64_t stride,
          Range range, Range k, std::int64_t width, float* strip) {
  const std::int64_t element =
      k_contiguous ? range.begin * stride + k.begin : k.begin * stride + range.begin;
  const std::int64_t bytes = bits(operand.dtype) / 8;
  plan.kernel->pack({.data = static_cast<const char*>(operand.data) + element * bytes,
                     .dtype = operand.dtype,
                     .k_contiguous = k_contiguous,
                     .stride = stride,
                     .width = width,
                     .count = range.size(),
                     .depth = k.size()},
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
    const GemmArgs& args = *plan_.args;
    first_ = block == 0;
    last_ = block == plan_.blocks_k - 1;
    k_ = {std::min(args.k, block * plan_.block_k), std::min(args.k, (block + 1) * plan_.block_k)};
    steps_ = plan_.steps(k_.size());
    for (std::int64_t c = cols_.begin; c < cols_.end; c += plan_.kernel->cols) {
      const Range strip{c, std::min(cols_.end, c + plan_.kernel->cols)};
      pack(plan_, args.b, args.b.transposed, args.b.transposed ? args.k : args.n, strip, k_,
           strip_cols(c), b_ + (c - cols_.begin) * steps_);
    }
    for (std::int64_t r = partial_rows_.begin; r < partial_rows_.end; r += plan_.block_rows) {
      run_block_rows({r, std::min(partial_rows_.end, r + plan_.block_rows)});
    }
  }

  void run_block_rows(Range rows) {
    const GemmArgs& args = *plan_.args;
    for (std::int64_t r = rows.begin; r < rows.end; r += plan_.strip_rows) {
      const Range strip{r, std::min(rows.end, r + plan_.strip_rows)};
      pack(plan_, args.a, !args.a.transposed, args.a.transposed ? args.m : args.k, strip, k_,
           strip.size(), a_ + (r - rows.begin) * steps_);
    }
    for (std::int64_t c = cols_.begin; c < cols_.end; c += plan_.kernel->cols) {
      for (std::int64_t r = rows.begin; r < rows.end; r += plan_.strip_rows) {
        run_tile({r, std::min(rows.end, r + plan_.strip_rows)}, a_ + (r - rows.begin) * steps_, c);
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
  const GemmArgs& args = *plan.args;
  const std::int64_t cells = plan.grid_rows * plan.grid_cols;
  float* memory = scratch.reserve(cells * plan.cell_words());
  std::atomic<std::uint32_t> largest{0};
  parallel_for(cells, kSerialNanoseconds, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Range rows = part_of(args.m, plan.strip_rows, plan.grid_rows, i / plan.grid_cols);
      const Range cols = part_of(args.n, plan.kernel->cols, plan.grid_cols, i % plan.grid_cols);
      const std::uint32_t found = Cell(plan, memory + i * plan.cell_words()).run(rows, cols);
      std::uint32_t seen = largest.load(std::memory_order_relaxed);
      while (seen < found && !largest.compare_exchange_weak(seen, found)) {
      }
    }
  });
  set_amax(args, largest.load());
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

bool is_operand_type(DType dtype) { return is_compute(dtype) || is_fp8(dtype); }

bool is_narrow(DType dtype) { return dtype == DType::bf16 || is_fp8(dtype); }

void check(const GemmArgs& args) {
  const DType a = args.a.dtype;
  const DType b = args.b.dtype;
  const DType d = args.d.dtype;
  for (const DType dtype : {a, b, d}) {
    if (!is_operand_type(dtype)) {
      fail<UnsupportedError>(
          "cpu: gemm: a, b and d must be f64, f32, bf16, f16, e4m3 or e5m2: got {}",
          to_string(dtype));
    }
  }
  const bool any_f64 = a == DType::f64 || b == DType::f64 || d == DType::f64;
  if (any_f64 && (a != b || a != d)) {
    fail<UnsupportedError>("cpu: gemm: a, b and d must all be f64 where one is: got {}, {} and {}",
                           to_string(a), to_string(b), to_string(d));
  }
  if (a == DType::e5m2 && b == DType::e5m2) {
    fail<UnsupportedError>("cpu: gemm: a and b must not both be e5m2: got e5m2 and e5m2");
  }
  for (const GemmOperand* operand : {&args.a, &args.b}) {
    if (is_block_scaled(operand->scaling_mode)) {
      fail<UnsupportedError>("cpu: gemm: scaling_mode must be none or per_tensor: got {}",
                             to_string(operand->scaling_mode));
    }
    if (any_f64 && operand->scale_inv != nullptr) {
      fail<UnsupportedError>("cpu: gemm: an f64 operand must not have a scale_inv: got one");
    }
  }
}

}  // namespace

void gemm(Isa isa, const GemmArgs& args) {
  check(args);
  const GemmKernels& kernels = kernels_of(isa);
  const bool f64 = args.a.dtype == DType::f64;
  const bool narrow = is_narrow(args.a.dtype) && is_narrow(args.b.dtype);
  if (logger().should_log(spdlog::level::debug)) {
    logger().debug("cpu: gemm: {}x{}x{} {}{} {} x {} -> {}: {}{}", args.m, args.n, args.k,
                   args.a.transposed ? 'T' : 'N', args.b.transposed ? 'T' : 'N',
                   to_string(args.a.dtype), to_string(args.b.dtype), to_string(args.d.dtype),
                   f64      ? "f64 fma"
                   : narrow ? kernels.bf16.name
                            : kernels.f32.name,
                   f64      ? "; tiles declined: they have no f64 arithmetic"
                   : narrow ? ""
                            : "; bf16 dot declined: an operand is wider than bf16");
  }
  if (args.m == 0 || args.n == 0) return set_amax(args, 0);
  if (f64) return run_f64(kernels, args);
  run(make_plan(args, narrow ? kernels.bf16 : kernels.f32));
}

}  // namespace tape8::cpu
