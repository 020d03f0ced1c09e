#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <tape8/tape8.hpp>

#include "gradcheck/recipes.hpp"

namespace tape8::tools::gradcheck {

/// The values of a case: its own stream of them, whichever other cases run.
class Random {
 public:
  Random(std::string_view case_name, std::uint64_t seed);

  Tensor uniform(const Shape& shape, DType dtype, double low, double high);
  /// Magnitudes from 1/16 to `most`, none near `kink`, and random signs: clear of the kinks that
  /// activations have at 0 and at a limit.
  Tensor values(const Shape& shape, DType dtype, double most = 1.0, double kink = 0.0);
  /// Values whose signs take turns, so that no row of them is nearly constant and a norm's slopes
  /// stay moderate.
  Tensor spread(const Shape& shape, DType dtype);
  std::int64_t below(std::int64_t n);

 private:
  double number(double low, double high);

  std::mt19937_64 generator_;
};

/// What an op's results should be, computed in float64 from the casts of its operands; `casts`
/// receives how these compare with what was to be cast.
using OperandReference =
    std::function<ExpectedResults(const Tensor& dy, std::vector<Comparison>& casts)>;

/// An op, ready to run.
struct Program {
  std::vector<std::string> names;  ///< of the inputs
  std::vector<Tensor> inputs;
  CheckedFunction function;
  OperandReference reference = {};  ///< none: differences of the function serve
};

/// How a case's tolerance follows from its dtype's.
struct Precision {
  int roundings = 1;    ///< to 16 bits, on the way to a result
  double factor = 1.0;  ///< by which what was rounded is larger than what cancelling leaves of it
};

double tolerance(const Precision& precision, DType dtype);

/// Something to be checked: an op with its options, a dtype, a recipe and a shape.
struct Subject {
  std::string op;
  DType dtype = DType::f32;  ///< of x
  const RecipeCase* recipe = &high_precision();
  std::string variant;  ///< "swiglu", "bias"; may be empty
  std::string shape;    ///< "33x17x9"
  Precision precision = {};
  bool differences = true;  ///< false: too large for them, or not smooth
  std::function<Program(Random& random)> make;

  /// "dense/bf16/delayed/bias/33x17x9"
  std::string name() const;
};

using Subjects = std::vector<Subject>;

/// "2x3x17": a tensor's sizes in a name.
std::string sizes(const Shape& shape);

/// Of the dtypes, those that large shapes are run in: the fastest kernels.
bool stands_for_large(DType dtype);

/// Calls `add(dtype, recipe)` for what an op may be run in: every dtype without quantization, and
/// all that quantizers take with each of `recipes`.
template <class Add>
void for_each_precision(std::span<const RecipeCase> recipes, const Add& add) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    add(dtype, high_precision());
  }
  for (const RecipeCase& recipe : recipes) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) add(dtype, recipe);
  }
}

}  // namespace tape8::tools::gradcheck
