#pragma once

#include "gradcheck/matrix.hpp"

namespace tape8::tools::gradcheck {

/// What the bytes of a cast of a [rows, cols] matrix stand for, by the definitions of the formats
/// alone. A cast that was Hadamard-transformed stays so, its rows filled up to a multiple of 16.
Matrix decode(const QuantizedPart& part, Usage usage, std::int64_t rows, std::int64_t cols);

/// `a` as such a cast has it before it rounds: of each 16 rows, some filled up with zeros, H16 / 4
/// times the rows with their signs.
Matrix hadamard_transformed(const Matrix& a);

}  // namespace tape8::tools::gradcheck
