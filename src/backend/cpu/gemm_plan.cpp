#include "backend/cpu/gemm_plan.hpp"

#include <algorithm>
#include <cmath>

#include "backend/cpu/parallel.hpp"

namespace tape8::cpu {
namespace {

// Blocks of packed words: one strip of b and one block of a share the second-level cache while a
// block of b stays in the third. a is packed once, or if it is large once for each block of b.
constexpr std::int64_t kBlockSteps = 2048;
constexpr std::int64_t kBlockRows = 64;
constexpr std::int64_t kBlockAWords = 64 * 1024;
constexpr std::int64_t kBlockWords = 1280 * 1024;
constexpr std::int64_t kKeptAWords = 2048 * 1024;
/// Rows and columns whose sums are kept across blocks of k.
constexpr std::int64_t kPartialRows = 1024;
constexpr std::int64_t kPartialCols = 1024;
/// Blocks of k begin where blocks of scales do.
constexpr std::int64_t kBlockMultiple = 128;
static_assert(kBlockSteps % kBlockMultiple == 0, "rounding up must not leave a block empty");
constexpr double kPackNanoseconds = 0.2;  // roughly, an element

std::int64_t round_up(std::int64_t a, std::int64_t b) { return divide_up(a, b) * b; }

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

float value_of(const ScaleInv* scale_inv) { return scale_inv == nullptr ? 1.0F : scale_inv->value; }

}  // namespace

std::int64_t Plan::steps(std::int64_t depth) const {
  return round_up(depth, kernel->k_multiple) / kernel->k_per_step;
}

Range Plan::rows_of(std::int64_t cell) const {
  return part_of(args->m, strip_rows, grid_rows, cell / grid_cols);
}

Range Plan::cols_of(std::int64_t cell) const {
  return part_of(args->n, kernel->cols, grid_cols, cell % grid_cols);
}

Plan make_plan(const GemmArgs& args, const GemmKernel& kernel) {
  Plan plan;
  plan.args = &args;
  plan.kernel = &kernel;
  plan.a = layout_of_a(args);
  plan.b = layout_of_b(args);
  plan.k = contracted_size(args);
  plan.factor = value_of(args.a.scale_inv) * value_of(args.b.scale_inv);
  plan.scale = args.d.scale == nullptr ? 1.0F : args.d.scale->value;
  plan.strip_rows = divide_up(args.m, divide_up(args.m, kernel.rows));

  const double nanoseconds = 2.0 * static_cast<double>(args.m) * static_cast<double>(args.n) *
                             static_cast<double>(plan.k) / kernel.flops_per_nanosecond;
  if (nanoseconds >= kSerialNanoseconds) choose_grid(plan, num_threads());

  const std::int64_t cell_rows =
      divide_up(divide_up(args.m, plan.strip_rows), plan.grid_rows) * plan.strip_rows;
  const std::int64_t cell_cols =
      divide_up(divide_up(args.n, kernel.cols), plan.grid_cols) * kernel.cols;
  plan.blocks_k = std::max<std::int64_t>(1, divide_up(plan.k, kBlockSteps * kernel.k_per_step));
  plan.block_k = plan.blocks_k == 1 ? round_up(plan.k, kernel.k_multiple)
                                    : round_up(divide_up(plan.k, plan.blocks_k), kBlockMultiple);
  const std::int64_t steps = plan.steps(plan.block_k);
  const std::int64_t block_rows =
      std::min(kBlockRows, kBlockAWords / std::max<std::int64_t>(1, steps));
  plan.block_rows = std::min(
      cell_rows, std::max<std::int64_t>(1, block_rows / plan.strip_rows) * plan.strip_rows);
  plan.block_cols = cell_cols;
  plan.partial_rows = cell_rows;
  if (plan.blocks_k > 1) {
    plan.block_cols = std::min(cell_cols, kPartialCols);
    // In parts of one size: each packs b anew.
    const std::int64_t parts = divide_up(cell_rows, kPartialRows + plan.strip_rows);
    plan.partial_rows = round_up(divide_up(cell_rows, parts), plan.strip_rows);
  } else if (cell_cols * steps > kBlockWords) {
    const std::int64_t blocks = divide_up(cell_cols * steps, kBlockWords);
    plan.block_cols = round_up(divide_up(cell_cols, blocks), kernel.cols);
  }

  plan.keeps_a =
      plan.blocks_k == 1 && plan.block_cols < cell_cols && cell_rows * steps <= kKeptAWords;

  constexpr std::int64_t kAligned = 16;
  const std::int64_t a_rows = plan.keeps_a ? cell_rows : plan.block_rows;
  plan.a_words = round_up(a_rows * steps + kPackSlack, kAligned);
  plan.b_words = round_up(plan.block_cols * steps + kPackSlack, kAligned);
  plan.sums_words =
      plan.blocks_k == 1 ? kernel.rows * kernel.cols : plan.partial_rows * plan.block_cols;
  return plan;
}

}  // namespace tape8::cpu
