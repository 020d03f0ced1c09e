#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <tape8/autograd/tape.hpp>

#include "core/storage.hpp"

namespace tape8 {

/// The storage versions of what a node saves.
std::vector<std::uint64_t> saved_versions(const NodeFunction& function);

/// Throws StateError naming op and tensor when a saved tensor has another version now.
void check_saved_versions(std::string_view op, const NodeFunction& function,
                          const std::vector<std::uint64_t>& versions);

/// Adds the blocks of memory that a node keeps, each once, to `blocks`.
void collect_saved_blocks(const NodeFunction& function, std::unordered_set<const Storage*>& blocks);

}  // namespace tape8
