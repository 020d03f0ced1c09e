#include "gradcheck/matrix.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <fmt/format.h>

namespace tape8::tools::gradcheck {

Matrix zeros(std::int64_t rows, std::int64_t cols) {
  return {rows, cols, std::vector<double>(static_cast<std::size_t>(rows * cols))};
}

Matrix matrix_of(const Tensor& tensor, int column_axes) {
  const MatrixShape shape = matrix_shape(tensor.shape(), tensor.rank() - column_axes);
  return {shape.rows, shape.cols, tensor.to_vector<double>()};
}

Matrix rounded(const Matrix& values, DType dtype) {
  const Tensor tensor = Tensor::from(values.values, {values.rows, values.cols}, dtype);
  return {values.rows, values.cols, tensor.to_vector<double>()};
}

Matrix transposed(const Matrix& a) {
  Matrix result = zeros(a.cols, a.rows);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = 0; j < a.cols; ++j) result.at(j, i) = a.at(i, j);
  }
  return result;
}

Matrix product(const Matrix& a, const Matrix& b) {
  if (a.cols != b.rows) {
    throw std::logic_error(
        fmt::format("product: a [{}, {}] does not fit b [{}, {}]", a.rows, a.cols, b.rows, b.cols));
  }
  Matrix result = zeros(a.rows, b.cols);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t k = 0; k < a.cols; ++k) {
      const double factor = a.at(i, k);
      for (std::int64_t j = 0; j < b.cols; ++j) result.at(i, j) += factor * b.at(k, j);
    }
  }
  return result;
}

ColumnSums column_sums(const Matrix& terms) {
  ColumnSums sums{std::vector<double>(static_cast<std::size_t>(terms.cols))};
  double largest = 0.0;
  double largest_magnitudes = 0.0;
  for (std::int64_t j = 0; j < terms.cols; ++j) {
    double& sum = sums.values[static_cast<std::size_t>(j)];
    double magnitudes = 0.0;
    for (std::int64_t i = 0; i < terms.rows; ++i) {
      sum += terms.at(i, j);
      magnitudes += std::abs(terms.at(i, j));
    }
    largest = std::max(largest, std::abs(sum));
    largest_magnitudes = std::max(largest_magnitudes, magnitudes);
  }
  if (largest > 0.0) sums.cancellation = largest_magnitudes / largest;
  return sums;
}

Matrix plus_row(Matrix a, const std::vector<double>& row) {
  if (row.empty()) return a;
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = 0; j < a.cols; ++j) a.at(i, j) += row[static_cast<std::size_t>(j)];
  }
  return a;
}

}  // namespace tape8::tools::gradcheck
