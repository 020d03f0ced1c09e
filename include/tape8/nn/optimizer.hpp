#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <tape8/autograd/variable.hpp>
#include <tape8/core/export.hpp>
#include <tape8/core/tensor.hpp>

namespace tape8 {

/// Parameters that share settings of their own.
struct ParameterGroup {
  std::vector<Variable> parameters;
  std::optional<float> weight_decay = {};  ///< instead of the optimizer's
  float learning_rate_scale = 1.0F;        ///< multiplies the optimizer's learning rate
};

/// Two groups: matrices, which decay, and vectors (biases, gamma, beta), which do not.
TAPE8_API std::vector<ParameterGroup> weight_decay_groups(const std::vector<Variable>& parameters);

/// Parameters and, for each, what an optimizer keeps in f32: master weights (for parameters in 16
/// bits; an f32 parameter is its own) and moments. A 16-bit parameter that is written to between
/// steps, such as by loading weights, becomes its own master again.
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
  /// Throws OptionError for no parameters, one that is none, not a leaf or named twice, or settings
  /// of a group that are not finite or negative; DTypeError for one that is not f32, bf16 or f16.
  Optimizer(const char* name, std::vector<ParameterGroup> groups, float learning_rate,
            float weight_decay);

  struct Slot {
    Variable parameter;
    Tensor master;              // f32; shares the parameter's memory when that is f32
    std::uint64_t version = 0;  // of the parameter's memory when the master last agreed with it
    Tensor first_moment, second_moment;
  };
  /// A user's group, or what lies of it on one device.
  struct Group {
    Device device;
    float weight_decay = 0.0F;
    float learning_rate_scale = 1.0F;
    std::vector<Slot> slots;
  };

  /// Before and after a step: what others wrote to parameters goes to their masters; what the step
  /// wrote to them does not count as that.
  void refresh_masters();
  void note_versions();

  std::vector<Group> groups_;
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
/// regularization", ICLR 2019): w -= learning_rate * (m / (sqrt(v) + epsilon) + weight_decay * w),
/// m and v corrected for their start at zero.
class TAPE8_API AdamW : public Optimizer {
 public:
  /// Throws OptionError for a negative rate, epsilon or decay, or betas outside [0, 1).
  explicit AdamW(std::vector<Variable> parameters, const AdamWOptions& options = {});
  explicit AdamW(std::vector<ParameterGroup> groups, const AdamWOptions& options = {});
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

/// Stochastic gradient descent: g += weight_decay * w, v = momentum * v + g, w -= learning_rate *
/// v; with nesterov w -= learning_rate * (g + momentum * v).
class TAPE8_API SGD : public Optimizer {
 public:
  /// Throws OptionError for a negative rate or decay, a momentum outside [0, 1), or nesterov
  /// without momentum.
  explicit SGD(std::vector<Variable> parameters, const SGDOptions& options = {});
  explicit SGD(std::vector<ParameterGroup> groups, const SGDOptions& options = {});
  void step() override;

 private:
  SGDOptions options_;
};

/// Scales the gradients of all parameters so that their joint 2-norm is at most `max_norm`; returns
/// the norm they had. A norm that is not finite changes nothing. Throws OptionError unless max_norm
/// > 0, and for a parameter that is none or named twice.
TAPE8_API float clip_grad_norm(const std::vector<Variable>& parameters, float max_norm);

}  // namespace tape8
