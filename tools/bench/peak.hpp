#pragma once

#include <cstdint>

namespace tape8::tools::bench {

/// A loop that does nothing but multiply-adds on registers, on one thread.
struct PeakLoop {
  void (*run)(std::int64_t steps) = nullptr;  // null: the instruction set has no such operation
  double flops_per_step = 0.0;
};

/// What one instruction set can do at most.
struct PeakLoops {
  PeakLoop f32;
  PeakLoop bf16_dot;  // vdpbf16ps
};

extern const PeakLoops kPeakPortable;
extern const PeakLoops kPeakAvx2;
extern const PeakLoops kPeakAvx512;

}  // namespace tape8::tools::bench
