#pragma once

#include <cstdint>

#include "support/values.hpp"

namespace tape8::test {

/// a [m, k] times b [k, n] in float64.
inline Values matmul(const Values& a, const Values& b, std::int64_t m, std::int64_t k,
                     std::int64_t n) {
  Values result(static_cast<std::size_t>(m * n));
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t l = 0; l < k; ++l) {
      const double left = a[static_cast<std::size_t>(i * k + l)];
      for (std::int64_t j = 0; j < n; ++j) {
        result[static_cast<std::size_t>(i * n + j)] +=
            left * b[static_cast<std::size_t>(l * n + j)];
      }
    }
  }
  return result;
}

/// The transpose of a [rows, cols].
inline Values transposed(const Values& a, std::int64_t rows, std::int64_t cols) {
  Values result(a.size());
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) {
      result[static_cast<std::size_t>(j * rows + i)] = a[static_cast<std::size_t>(i * cols + j)];
    }
  }
  return result;
}

/// The sums of the columns of a [rows, cols].
inline Values column_sums(const Values& a, std::int64_t rows, std::int64_t cols) {
  Values result(static_cast<std::size_t>(cols));
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) {
      result[static_cast<std::size_t>(j)] += a[static_cast<std::size_t>(i * cols + j)];
    }
  }
  return result;
}

/// Adds `row` to each row of a.
inline void add_to_rows(Values& a, const Values& row) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += row[i % row.size()];
}

/// y = x * kernel + bias and its gradients for a cotangent dy, on the operands given.
struct DenseReference {
  Values y, dx, dkernel, dbias;

  DenseReference(const Values& x, const Values& kernel, const Values& bias, const Values& dy,
                 const Values& dy_before_cast, std::int64_t rows, std::int64_t in, std::int64_t out)
      : y(matmul(x, kernel, rows, in, out)),
        dx(matmul(dy, transposed(kernel, in, out), rows, out, in)),
        dkernel(matmul(transposed(x, rows, in), dy, in, rows, out)),
        dbias(column_sums(dy_before_cast, rows, out)) {
    if (!bias.empty()) add_to_rows(y, bias);
  }
};

}  // namespace tape8::test
