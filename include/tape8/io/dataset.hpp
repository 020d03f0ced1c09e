#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

#include <tape8/core/dtype.hpp>
#include <tape8/core/export.hpp>
#include <tape8/core/rng.hpp>
#include <tape8/core/tensor.hpp>

namespace tape8 {

enum class Split { train, test };

/// Labelled examples in memory.
struct Dataset {
  Tensor examples;  ///< [n, ...] as the file holds them (u8 for IDX)
  Tensor labels;    ///< i32 [n], each in [0, classes)
  std::int64_t classes = 0;
  float divisor = 1.0F;  ///< examples are divided by it as they go into batches

  std::int64_t size() const { return labels.numel(); }
  /// Values of one example.
  std::int64_t features() const { return examples.shape().numel(1, examples.rank()); }
};

struct Batch {
  Tensor examples;  ///< [batch, features] in BatchOptions::dtype
  Tensor labels;    ///< i32 [batch]
};

struct BatchOptions {
  std::int64_t batch_size = 64;  ///< at least 1; the last batch of an epoch may be shorter
  std::int64_t epochs = 1;       ///< at least 1
  bool shuffle = true;           ///< a new order every epoch
  DType dtype = DType::f32;      ///< f32, bf16 or f16
  Device device = {};  ///< where examples go; labels stay on the CPU, where they are checked
};

/// The batches of some epochs over a dataset, to be walked once by a range-based for. Holds what it
/// was given. Each batch is fresh memory, which the caller may keep.
class TAPE8_API Batches {
 public:
  /// As batches(), but shuffles with `rng` itself.
  Batches(const Dataset& dataset, const BatchOptions& options, Rng rng);

  class Iterator;
  /// Loads the first batch; a later call goes on with the next one.
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }
  /// Batches in all epochs.
  std::int64_t count() const;

 private:
  bool load_next();

  Dataset dataset_;
  BatchOptions options_;
  Rng rng_;
  Tensor values_;  // [n, features]: u8, or what goes into batches
  Tensor scaled_;  // for u8: its 256 values as they go into batches
  Tensor order_;   // i64 [n], of this epoch
  Batch batch_;
  std::int64_t epoch_ = 0;
  std::int64_t position_ = 0;
};

/// An input iterator over Batches, which has to stay where it is meanwhile.
class Batches::Iterator {
 public:
  using iterator_concept = std::input_iterator_tag;
  using value_type = Batch;
  using difference_type = std::ptrdiff_t;

  const Batch& operator*() const { return batches_->batch_; }
  const Batch* operator->() const { return &batches_->batch_; }
  Iterator& operator++() {
    done_ = !batches_->load_next();
    return *this;
  }
  void operator++(int) { ++*this; }
  friend bool operator==(const Iterator& iterator, std::default_sentinel_t) {
    return iterator.done_;
  }

 private:
  friend class Batches;
  explicit Iterator(Batches& batches) : batches_(&batches) { ++*this; }

  Batches* batches_;
  bool done_ = false;
};

inline Batches::Iterator Batches::begin() { return Iterator(*this); }

/// Shuffles with a generator split from `rng`. Throws OptionError for options or a divisor out of
/// range; ShapeError or DTypeError for a dataset that is not of the form above.
TAPE8_API Batches batches(const Dataset& dataset, const BatchOptions& options, Rng& rng);

}  // namespace tape8
