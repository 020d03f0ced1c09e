#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "backend/cpu/kernels.hpp"
#include "backend/cpu/parallel.hpp"

namespace tape8::cpu {

// How the kernels of one call are shared out to threads. What is added up is cut by the sizes
// alone, so that no sum depends on the number of threads.

/// Elements that one thread takes at least where a call is not divided by rows.
inline constexpr std::int64_t kChunk = 4096;
/// Row sums are made of at most so many partial sums, each of at least so many rows.
inline constexpr std::int64_t kMaxSumBlocks = 32;
inline constexpr std::int64_t kMinSumRows = 32;

/// Raises *amax to the value of the bits; from any thread.
inline void note_amax(Amax* amax, AmaxBits bits) {
  if (amax == nullptr) return;
  const float value = std::bit_cast<float>(bits);
  std::atomic_ref<float> largest(amax->value);
  float seen = largest.load(std::memory_order_relaxed);
  while (std::bit_cast<AmaxBits>(seen) < bits &&
         !largest.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

/// Gives a NaN one form, whatever the bits of the values that made it.
inline void finish_amax(Amax* amax) {
  if (amax != nullptr && std::isnan(amax->value)) {
    amax->value = std::numeric_limits<float>::quiet_NaN();
  }
}

/// Calls kernel(Range) -> AmaxBits over parts of [0, count) and writes the amax of all.
template <class Kernel>
void run(Amax* amax, std::int64_t count, double item_cost, const Kernel& kernel) {
  if (amax != nullptr) *amax = {};
  parallel_for(count, item_cost, [&](std::int64_t begin, std::int64_t end) {
    note_amax(amax, kernel(Range{begin, end}));
  });
  finish_amax(amax);
}

/// The same over elements, in whole chunks.
template <class Kernel>
void run_flat(Amax* amax, std::int64_t count, double element_cost, const Kernel& kernel) {
  run(amax, divide_up(count, kChunk), element_cost * kChunk, [&](Range chunks) {
    return kernel(Range{chunks.begin * kChunk, std::min(chunks.end * kChunk, count)});
  });
}

/// Memory of the calling thread for partial sums; it stays for the next call.
inline float* workspace(std::int64_t count) {
  thread_local std::vector<float> memory;
  if (memory.size() < static_cast<std::size_t>(count))
    memory.resize(static_cast<std::size_t>(count));
  return memory.data();
}

/// Partial sums over blocks of rows, whose size depends on the number of rows alone.
template <std::size_t N>
struct RowSums {
  float* partials = nullptr;
  std::int64_t stride = 0;      // from one sum to the next
  std::int64_t block_rows = 0;  // kMinSumRows times a power of two
  std::array<bool, N> wanted = {};

  /// The sums that the block of a row is added to; null for those that are not wanted.
  std::array<float*, N> of(std::int64_t row) const {
    std::array<float*, N> sums{};
    float* const block = partials + row / block_rows * static_cast<std::int64_t>(N) * stride;
    for (std::size_t i = 0; i < N; ++i) {
      if (wanted[i]) sums[i] = block + static_cast<std::int64_t>(i) * stride;
    }
    return sums;
  }
};

/// Calls kernel(Range, RowSums) -> AmaxBits for ranges of whole blocks of rows, which set their
/// blocks' sums, and adds these in ascending order. A range is one block, or `band_rows` rows, a
/// power of two, where these are more.
template <std::size_t N, class Kernel>
void run_with_sums(Amax* amax, std::int64_t rows, std::int64_t cols, double row_cost,
                   const std::array<Stat*, N>& outputs, const Kernel& kernel,
                   std::int64_t band_rows = 1) {
  const auto least_blocks =
      static_cast<std::uint64_t>(divide_up(rows, kMinSumRows * kMaxSumBlocks));
  RowSums<N> sums;
  sums.block_rows = kMinSumRows * static_cast<std::int64_t>(std::bit_ceil(least_blocks));
  sums.stride = cols + kSumPadding;
  const std::int64_t blocks = divide_up(rows, sums.block_rows);
  sums.partials = workspace(blocks * sums.stride * static_cast<std::int64_t>(N));
  for (std::size_t i = 0; i < N; ++i) sums.wanted[i] = outputs[i] != nullptr;

  const std::int64_t range_rows = std::max(sums.block_rows, band_rows);
  run(amax, divide_up(rows, range_rows), row_cost * static_cast<double>(range_rows),
      [&](Range ranges) {
        AmaxBits bits = 0;
        for (std::int64_t i = ranges.begin; i < ranges.end; ++i) {
          const Range range{i * range_rows, std::min((i + 1) * range_rows, rows)};
          bits = std::max(bits, kernel(range, sums));
        }
        return bits;
      });
  for (std::size_t i = 0; i < N; ++i) {
    if (outputs[i] == nullptr) continue;
    float* const output = static_cast<float*>(outputs[i]);
    std::fill_n(output, cols, 0.0F);
    for (std::int64_t block = 0; block < blocks; ++block) {
      const float* const partial = sums.of(block * sums.block_rows)[i];
      for (std::int64_t c = 0; c < cols; ++c) output[c] += partial[c];
    }
  }
}

/// The sum of kernel(Range) -> double over chunks of [0, count), added in ascending order.
template <class Kernel>
double sum_chunks(std::int64_t count, double element_cost, const Kernel& kernel) {
  const std::int64_t chunks = divide_up(count, kChunk);
  std::vector<double> sums(static_cast<std::size_t>(chunks));
  parallel_for(chunks, element_cost * kChunk, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      sums[static_cast<std::size_t>(i)] =
          kernel(Range{i * kChunk, std::min((i + 1) * kChunk, count)});
    }
  });
  double total = 0.0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace tape8::cpu
