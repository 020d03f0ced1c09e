#include "bench/place.hpp"

#include <fmt/format.h>

#include "bench/figure.hpp"

namespace tape8::tools::bench {

std::string Place::suffix() const { return is_cpu() ? threads_suffix(threads) : to_string(device); }

void Place::enter() const {
  if (is_cpu()) set_num_threads(threads);
}

Call Place::finish() const {
  if (is_cpu()) return {};
  // A copy to the CPU comes after all else.
  return [value = Tensor::zeros({1}, DType::u8, device)] { value.to(Device{}); };
}

}  // namespace tape8::tools::bench
