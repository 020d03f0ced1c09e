#pragma once

#include <cstdint>
#include <string>

#include "bench/measure.hpp"
#include "bench/place.hpp"

namespace tape8::tools::bench {

/// Something that shows how fast the machine is at most: what one execution does, and its name in
/// results.
struct Probe {
  std::string limit;
  double work = 0.0;  // of one execution: operations, or bytes read and written
  Call call;
};

/// Multiply-adds of f32, on the instruction set that ops run on.
Probe f32_peak(int threads);
/// vdpbf16ps; f32 multiply-adds where the instruction set has none.
Probe bf16_dot_peak(int threads);
/// A copy that reads and writes `bytes` altogether.
Probe copy_bandwidth(std::int64_t bytes, const Place& place);

}  // namespace tape8::tools::bench
