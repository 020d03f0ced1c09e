#pragma once

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "backend/cpu/gemm.hpp"
#include "backend/gemm_support.hpp"

namespace tape8::gemm_test {

/// Checks that d, in f32, is `expected` to the bit on every instruction set, at each stride-th
/// element.
inline void check_on_every_isa(GemmArgs args, const std::vector<float>& expected,
                               std::int64_t stride = 1) {
  for (const cpu::Isa isa : cpu::available_isas()) {
    Memory d(DType::f32, args.m * args.n);
    args.d = {.data = d.data()};
    cpu::gemm(isa, args);
    INFO(cpu::to_string(isa));
    CHECK(differing(d, expected, stride) == 0);
  }
}

}  // namespace tape8::gemm_test
