#pragma once

#include <cstdint>
#include <vector>

#include <tape8/autograd/variable.hpp>
#include <tape8/core/export.hpp>
#include <tape8/core/tensor.hpp>

namespace tape8 {

/// Parameters and, for each, what an optimizer keeps in f32: master weights (for parameters in 16
/// bits; an f32 parameter is its own) and moments.
class TAPE8_API Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// Changes every parameter that has a gradient, in one pass.
  virtual void step() = 0;
  void zero_grad();

  float learning_rate() const { return learning_rate_; }
  /// Throws OptionError unless it is finite and not negative.
  void set_learning_rate(float learning_rate);
  /// Calls of step() so far.
  std::int64_t steps() const { return steps_; }

 protected:
  /// Throws OptionError for no parameters, or one that is none, not a leaf or named twice;
  /// DTypeError for one that is not f32, bf16 or f16.
  Optimizer(const char* name, std::vector<Variable> parameters, float learning_rate);

  struct Slot {
    Variable parameter;
    Tensor master;  // f32; shares the parameter's memory when that is f32
    Tensor first_moment, second_moment;
  };
  std::vector<Slot> slots_;
  std::int64_t steps_ = 0;

 private:
  const char* name_;
  float learning_rate_;
};

struct AdamWOptions {
  float learning_rate = 1e-3F;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
  float weight_decay = 0.01F;
};

/// Adam with decoupled weight decay (Loshchilov and Hutter, "Decoupled weight decay
/// regularization", ICLR 2019).
class TAPE8_API AdamW : public Optimizer {
 public:
  /// Throws OptionError for a negative rate, epsilon or decay, or betas outside [0, 1).
  explicit AdamW(std::vector<Variable> parameters, const AdamWOptions& options = {});
  void step() override;

 private:
  AdamWOptions options_;
};

struct SGDOptions {
  float learning_rate = 1e-2F;
  float momentum = 0.0F;
  float weight_decay = 0.0F;
  bool nesterov = false;
};

/// Stochastic gradient descent: v = momentum v + g, w -= learning_rate v.
class TAPE8_API SGD : public Optimizer {
 public:
  /// Throws OptionError for a negative rate or decay, a momentum outside [0, 1), or nesterov
  /// without momentum.
  explicit SGD(std::vector<Variable> parameters, const SGDOptions& options = {});
  void step() override;

 private:
  SGDOptions options_;
};

}  // namespace tape8
