#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "backend/backend.hpp"
#include "backend/cuda/context.hpp"
#include "backend/cuda/flat.hpp"

namespace tape8::cuda {

// Matrices that are computed and written in one pass. A producer gives their values:
//
//   __device__ void values(std::int64_t row, std::int64_t col, int count,
//                          Real (&out)[kVector]) const;
//   int parts;  // the columns are so many equal parts, whose values at one place have the same
//               // inputs; `col` is a multiple of kVector from the part's first column

/// How the columns of a matrix come in vectors, those of one place in all parts together.
struct Columns {
  std::int64_t cols = 0, part_cols = 0;
  std::int64_t parts = 1, vectors = 0;  // of all parts

  static Columns of(std::int64_t cols, std::int64_t parts) {
    const std::int64_t part_cols = cols / parts;
    return {cols, part_cols, parts, divide_up(part_cols, std::int64_t{kVector}) * parts};
  }
  /// The first column of a vector.
  __device__ std::int64_t col(std::int64_t vector) const {
    return vector % parts * part_cols + vector / parts * kVector;
  }
  __device__ int count(std::int64_t vector) const {
    const std::int64_t left = part_cols - vector / parts * kVector;
    return left < kVector ? static_cast<int>(left) : kVector;
  }
};

/// Bytes a value: those of the producer's inputs and of the result.
template <class Real, class Producer>
__global__ void map_kernel(Producer producer, std::int64_t rows, Columns columns, Sink sink) {
  Writer writer(sink);
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t task = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; task < rows * columns.vectors; task += stride) {
    const std::int64_t row = task / columns.vectors;
    const std::int64_t vector = task % columns.vectors;
    const std::int64_t col = columns.col(vector);
    const int count = columns.count(vector);
    Real values[kVector];
    producer.values(row, col, count, values);
    writer.store(row * columns.cols + col, count, values);
  }
  writer.note();
}

/// The same with sums over each `group_rows` rows of a column: [groups, cols]. A thread has a
/// vector of columns.
template <class Real, class Producer>
__global__ void map_with_sums_kernel(Producer producer, std::int64_t rows, Columns columns,
                                     Sink sink, std::int64_t group_rows, Real* partials) {
  Writer writer(sink);
  const std::int64_t vector = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (vector < columns.vectors) {
    const std::int64_t col = columns.col(vector);
    const int count = columns.count(vector);
    const std::int64_t begin = blockIdx.y * group_rows;
    const std::int64_t end = begin + group_rows < rows ? begin + group_rows : rows;
    Real sums[kVector] = {};
    for (std::int64_t row = begin; row < end; ++row) {
      Real values[kVector];
      producer.values(row, col, count, values);
      writer.store(row * columns.cols + col, count, values);
      for (int i = 0; i < kVector; ++i) sums[i] += values[i];
    }
    for (int i = 0; i < count; ++i) partials[blockIdx.y * columns.cols + col + i] = sums[i];
  }
  writer.note();
}

/// sums[c] = the sum of column c of partials [groups, cols], in ascending order.
template <class Real>
__global__ void add_groups_kernel(std::int64_t groups, std::int64_t cols, const Real* partials,
                                  Real* sums) {
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (col >= cols) return;
  Real sum = 0;
  for (std::int64_t group = 0; group < groups; ++group) sum += partials[group * cols + col];
  sums[col] = sum;
}

/// Rows are added up in groups, whose number depends on the rows alone.
struct RowGroups {
  std::int64_t rows = 0, count = 0;

  static RowGroups of(std::int64_t rows) {
    constexpr std::int64_t kLeastRows = 32;
    constexpr std::int64_t kMostGroups = 1024;
    const std::int64_t group_rows = std::max(kLeastRows, divide_up(rows, kMostGroups));
    return {group_rows, divide_up(rows, group_rows)};
  }
};

inline unsigned blocks_for(std::int64_t threads, unsigned block) {
  return static_cast<unsigned>(divide_up(threads, std::int64_t{block}));
}

template <class Real>
void add_groups(Context& context, const RowGroups& groups, std::int64_t cols, const Real* partials,
                Stat* sums) {
  launch(add_groups_kernel<Real>,
         {.grid = dim3(blocks_for(cols, kFlatThreads)),
          .block = dim3(kFlatThreads),
          .stream = context.stream()},
         groups.count, cols, partials, static_cast<Real*>(sums));
}

/// Writes a matrix [rows, cols] as y says and, unless it is null, the sum of each column before the
/// cast to dbias.
template <class Real, class Producer>
void map_values(Context& context, std::int64_t rows, std::int64_t cols, const Producer& producer,
                const Output& y, Stat* dbias = nullptr) {
  clear_amax(y.amax, context.stream());
  const Columns columns = Columns::of(cols, producer.parts);
  if (dbias == nullptr) {
    return launch(map_kernel<Real, Producer>,
                  flat_config(context, divide_up(rows * columns.vectors, kFlatThreads)), producer,
                  rows, columns, Sink(y));
  }
  constexpr unsigned kThreads = 64;
  const RowGroups groups = RowGroups::of(rows);
  const Workspace partials(context, sizeof(Real) * static_cast<std::size_t>(groups.count * cols));
  launch(map_with_sums_kernel<Real, Producer>,
         {.grid = dim3(blocks_for(columns.vectors, kThreads), static_cast<unsigned>(groups.count)),
          .block = dim3(kThreads),
          .stream = context.stream()},
         producer, rows, columns, Sink(y), groups.rows, partials.as<Real>());
  add_groups<Real>(context, groups, cols, partials.as<Real>(), dbias);
}

}  // namespace tape8::cuda
