#pragma once

#include <cstdint>
#include <vector>

#include <tape8/tape8.hpp>

namespace tape8::tools::gradcheck {

/// A row-major matrix in float64, in which all references compute.
struct Matrix {
  std::int64_t rows = 0, cols = 0;
  std::vector<double> values = {};

  double& at(std::int64_t row, std::int64_t col) {
    return values[static_cast<std::size_t>(row * cols + col)];
  }
  double at(std::int64_t row, std::int64_t col) const {
    return values[static_cast<std::size_t>(row * cols + col)];
  }
};

Matrix zeros(std::int64_t rows, std::int64_t cols);

/// A tensor as a matrix whose columns are its last `column_axes` axes.
Matrix matrix_of(const Tensor& tensor, int column_axes = 1);

/// `values` rounded once to `dtype`.
Matrix rounded(const Matrix& values, DType dtype);

Matrix transposed(const Matrix& a);
Matrix product(const Matrix& a, const Matrix& b);
/// Sums over rows, and how much larger than the largest of them the magnitudes are that it was made
/// of: 1 where nothing cancels.
struct ColumnSums {
  std::vector<double> values = {};
  double cancellation = 1.0;
};
ColumnSums column_sums(const Matrix& terms);
/// Adds `row`, which may be empty, to each row.
Matrix plus_row(Matrix a, const std::vector<double>& row);

}  // namespace tape8::tools::gradcheck
