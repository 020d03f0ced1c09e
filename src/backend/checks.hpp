#pragma once

#include <initializer_list>
#include <string_view>

#include "backend/backend.hpp"

namespace tape8 {

/// Which operands of an op may have block scales.
enum class BlockSupport { none, outputs, inputs_and_outputs };

/// Throws UnsupportedError for types that a backend's kernels do not have: "backend: op: ...". f64
/// says that the op computes in f64.
void check_operands(std::string_view backend, std::string_view op, bool f64,
                    std::initializer_list<Input> inputs, std::initializer_list<Output> outputs,
                    BlockSupport block_support = BlockSupport::none);

/// The same for an output of an op that checks its types itself.
void check_no_blocks(std::string_view backend, std::string_view op, const Output& output);

}  // namespace tape8
