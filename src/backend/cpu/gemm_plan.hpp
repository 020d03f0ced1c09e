#pragma once

#include <cstdint>

#include "backend/backend.hpp"
#include "backend/cpu/gemm_kernels.hpp"
#include "backend/cpu/gemm_operand.hpp"

namespace tape8::cpu {

struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

/// How a product is cut: into a grid of cells for the threads, and each cell into blocks. k is
/// never cut between threads, and no cut changes the order of a sum.
struct Plan {
  const GemmArgs* args = nullptr;
  const GemmKernel* kernel = nullptr;
  OperandLayout a, b;
  std::int64_t k = 0;
  float factor = 1.0F;
  float scale = 1.0F;
  std::int64_t strip_rows = 1;                // rows of a tile, so that the last is no small rest
  std::int64_t grid_rows = 1, grid_cols = 1;  // cells
  std::int64_t blocks_k = 1, block_k = 0;
  std::int64_t block_rows = 0, block_cols = 0, partial_rows = 0;  // largest in a cell
  bool keeps_a = false;  // all of a cell's a is packed once, not for each block of b anew
  std::int64_t a_words = 0, b_words = 0, sums_words = 0;  // scratch of a cell

  std::int64_t steps(std::int64_t depth) const;
  std::int64_t cell_words() const { return a_words + b_words + sums_words; }
  std::int64_t cells() const { return grid_rows * grid_cols; }
  Range rows_of(std::int64_t cell) const;
  Range cols_of(std::int64_t cell) const;
};

Plan make_plan(const GemmArgs& args, const GemmKernel& kernel);

}  // namespace tape8::cpu
