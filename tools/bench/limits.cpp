#include "bench/limits.hpp"

#include <algorithm>
#include <cstring>

#include <omp.h>

#include <tape8/tape8.hpp>

#include "bench/peak.hpp"

namespace tape8::tools::bench {
namespace {

/// About a millisecond of any processor's.
constexpr std::int64_t kPeakSteps = 200'000;

const PeakLoops& loops_in_use() {
  const std::string isa = cpu_isa();
#if defined(TAPE8_BENCH_X86_64)
  if (isa == "avx512") return kPeakAvx512;
  if (isa == "avx2") return kPeakAvx2;
#endif
  return kPeakPortable;
}

Probe peak_probe(std::string limit, const PeakLoop& loop, int threads) {
  return {std::move(limit), loop.flops_per_step * static_cast<double>(kPeakSteps) * threads,
          [run = loop.run, threads] {
#pragma omp parallel num_threads(threads)
            run(kPeakSteps);
          }};
}

}  // namespace

Probe f32_peak(int threads) { return peak_probe("f32 fma", loops_in_use().f32, threads); }

Probe bf16_dot_peak(int threads) {
  const PeakLoop& dot = loops_in_use().bf16_dot;
  return dot.run == nullptr ? f32_peak(threads) : peak_probe("bf16 dot", dot, threads);
}

Probe copy_bandwidth(std::int64_t bytes, const Place& place) {
  const std::int64_t half = std::max<std::int64_t>(1, bytes / 2);
  const Tensor from = Tensor::zeros({half}, DType::u8, place.device);
  Tensor to = Tensor::zeros({half}, DType::u8, place.device);
  const auto work = static_cast<double>(2 * half);
  if (!place.is_cpu()) {
    return {"copy", work, [from, to]() mutable { to.copy_from(from); }};
  }
  return {"copy", work, [from, to, half, threads = place.threads]() mutable {
            const auto* source = static_cast<const char*>(from.data());
            auto* target = static_cast<char*>(to.mutable_data());
#pragma omp parallel num_threads(threads)
            {
              const std::int64_t part = omp_get_thread_num();
              const std::int64_t parts = omp_get_num_threads();
              const std::int64_t begin = half * part / parts;
              const std::int64_t end = half * (part + 1) / parts;
              std::memcpy(target + begin, source + begin, static_cast<std::size_t>(end - begin));
            }
          }};
}

}  // namespace tape8::tools::bench
