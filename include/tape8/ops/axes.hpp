#pragma once

#include <string>
#include <vector>

namespace tape8 {

/// Logical names of a tensor's axes, for sharding over a mesh: empty, or one for each dimension.
/// Without a mesh they change nothing.
using Axes = std::vector<std::string>;

}  // namespace tape8
