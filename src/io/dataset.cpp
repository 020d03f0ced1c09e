#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

#include <tape8/io/dataset.hpp>

#include "core/fail.hpp"

namespace tape8 {
namespace {

void check(const Dataset& dataset, const BatchOptions& options) {
  if (options.batch_size < 1) {
    fail<OptionError>("batches: batch_size must be at least 1: got {}", options.batch_size);
  }
  const std::int64_t steps = dataset.size() / std::max<std::int64_t>(options.batch_size, 1) + 1;
  if (options.epochs > INT64_MAX / steps) {
    fail<OptionError>("batches: epochs must leave the number of batches countable: got {}",
                      options.epochs);
  }
  if (options.epochs < 1) {
    fail<OptionError>("batches: epochs must be at least 1: got {}", options.epochs);
  }
  if (options.dtype != DType::f32 && options.dtype != DType::bf16 && options.dtype != DType::f16) {
    fail<OptionError>("batches: dtype must be f32, bf16 or f16: got {}", to_string(options.dtype));
  }
  if (!std::isfinite(dataset.divisor) || dataset.divisor == 0.0F) {
    fail<OptionError>("batches: divisor must be finite and not 0: got {}", dataset.divisor);
  }
  const Shape& examples = dataset.examples.shape();
  const Shape& labels = dataset.labels.shape();
  if (examples.rank() < 1 || labels.rank() != 1 || examples[0] != labels[0]) {
    fail<ShapeError>("batches: examples must be (n, ...) and labels (n): got {} and {}",
                     to_string(examples), to_string(labels));
  }
  if (dataset.labels.dtype() != DType::i32) {
    fail<DTypeError>("batches: labels must be i32: got {}", to_string(dataset.labels.dtype()));
  }
  for (const std::int32_t label : dataset.labels.contiguous().span<std::int32_t>()) {
    if (label < 0 || label >= dataset.classes) {
      fail<OptionError>("batches: labels must lie within the {} classes: got {}", dataset.classes,
                        label);
    }
  }
}

/// x / divisor in f32, rounded once to dtype.
Tensor scale(const Tensor& x, float divisor, DType dtype) {
  Tensor scaled = x.dtype() == DType::f32 ? x.clone() : x.to(DType::f32);
  for (float& value : scaled.mutable_span<float>()) value /= divisor;
  return scaled.to(dtype);
}

/// A byte can only have 256 values: divided and rounded once here, looked up for each pixel.
Tensor scaled_bytes(float divisor, DType dtype) {
  std::array<std::uint8_t, 256> bytes{};
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  return scale(Tensor::from(std::span<const std::uint8_t>(bytes), {256}), divisor, dtype);
}

/// out[i] = table[bytes[i]], for elements of the width of Bits.
template <class Bits>
void look_up(const std::uint8_t* bytes, std::int64_t count, const void* table, void* out) {
  const auto* values = static_cast<const Bits*>(table);
  auto* to = static_cast<Bits*>(out);
  for (std::int64_t i = 0; i < count; ++i) to[i] = values[bytes[i]];
}

void gather_examples(const Tensor& values, const Tensor& scaled_values,
                     std::span<const std::int64_t> rows, Tensor& out) {
  const std::int64_t features = out.shape()[1];
  const std::int64_t row_bytes = values.nbytes() / values.shape()[0];
  const auto* from = static_cast<const std::uint8_t*>(values.data());
  auto* to = static_cast<std::uint8_t*>(out.mutable_data());
  for (const std::int64_t row : rows) {
    const std::uint8_t* source = from + row * row_bytes;
    if (!scaled_values.defined()) {
      std::memcpy(to, source, static_cast<std::size_t>(row_bytes));
    } else if (bits(out.dtype()) == 32) {
      look_up<std::uint32_t>(source, features, scaled_values.data(), to);
    } else {
      look_up<std::uint16_t>(source, features, scaled_values.data(), to);
    }
    to += features * bits(out.dtype()) / 8;
  }
}

void gather_labels(const Tensor& labels, std::span<const std::int64_t> rows, Tensor& out) {
  const std::span<const std::int32_t> from = labels.span<std::int32_t>();
  std::transform(rows.begin(), rows.end(), out.mutable_span<std::int32_t>().begin(),
                 [&](std::int64_t row) { return from[static_cast<std::size_t>(row)]; });
}

}  // namespace

Batches::Batches(const Dataset& dataset, const BatchOptions& options, Rng rng)
    : dataset_(dataset), options_(options), rng_(rng) {
  check(dataset_, options_);
  values_ = dataset_.examples.contiguous();
  if (values_.dtype() == DType::u8) {
    scaled_ = scaled_bytes(dataset_.divisor, options_.dtype);
  } else {
    values_ = scale(values_, dataset_.divisor, options_.dtype);
  }
  dataset_.labels = dataset_.labels.contiguous();
  order_ = Tensor::empty({dataset_.size()}, DType::i64);
  const std::span<std::int64_t> order = order_.mutable_span<std::int64_t>();
  std::iota(order.begin(), order.end(), std::int64_t{0});
}

std::int64_t Batches::count() const {
  const std::int64_t n = dataset_.size();
  return (n / options_.batch_size + (n % options_.batch_size != 0 ? 1 : 0)) * options_.epochs;
}

bool Batches::load_next() {
  const std::int64_t n = dataset_.size();
  if (n > 0 && position_ == n) {
    position_ = 0;
    ++epoch_;
  }
  if (n == 0 || epoch_ == options_.epochs) return false;
  if (position_ == 0 && options_.shuffle) order_ = rng_.permutation(n);

  const std::int64_t rows = std::min(options_.batch_size, n - position_);
  batch_ = {.examples = Tensor::empty({rows, dataset_.features()}, options_.dtype),
            .labels = Tensor::empty({rows}, DType::i32)};
  const std::span<const std::int64_t> order = order_.span<std::int64_t>().subspan(
      static_cast<std::size_t>(position_), static_cast<std::size_t>(rows));
  gather_examples(values_, scaled_, order, batch_.examples);
  gather_labels(dataset_.labels, order, batch_.labels);
  batch_.examples = batch_.examples.to(options_.device);
  position_ += rows;
  return true;
}

Batches batches(const Dataset& dataset, const BatchOptions& options, Rng& rng) {
  check(dataset, options);  // before rng moves: a call that throws changes nothing
  return Batches(dataset, options, rng.split());
}

}  // namespace tape8
