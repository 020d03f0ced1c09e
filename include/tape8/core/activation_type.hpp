#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include <tape8/core/export.hpp>

namespace tape8 {

/// Scalar activation functions, computed in f32 (f64 for f64 tensors); s is the logistic sigmoid.
enum class Act {
  linear,          ///< x
  gelu,            ///< 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
  silu,            ///< x s(x)
  sigmoid,         ///< s(x)
  relu,            ///< max(x, 0)
  squared_relu,    ///< max(x, 0)^2
  quick_gelu,      ///< x s(1.702 x)
  clamped_silu,    ///< c s(alpha c), c = min(x, limit)
  clamped_linear,  ///< clip(x, -limit, limit) + glu_linear_offset
};

/// Most parts that an activation may have.
inline constexpr int kMaxActivationParts = 4;

/// A user's scalar function and its derivative, as functions over blocks of values. Kernels call
/// them with a few hundred values at a time, on several threads; they must not throw. The f64 ones
/// are null when f64 tensors are not supported.
struct CustomActivation {
  void (*value)(std::span<const float> x, std::span<float> y) = nullptr;
  void (*derivative)(std::span<const float> x, std::span<float> dy_dx) = nullptr;
  void (*value_f64)(std::span<const double> x, std::span<double> y) = nullptr;
  void (*derivative_f64)(std::span<const double> x, std::span<double> dy_dx) = nullptr;
};

/// One factor of an activation: a function of tape8's, or one of the user's (make_activation).
class ActivationPart {
 public:
  constexpr ActivationPart() = default;
  constexpr ActivationPart(Act act) : act_(act) {}  // NOLINT(google-explicit-constructor)
  /// `custom` must have static lifetime.
  constexpr explicit ActivationPart(const CustomActivation* custom) : custom_(custom) {}

  /// Of no meaning for a custom part.
  constexpr Act act() const { return act_; }
  /// Null unless the part is a user's.
  constexpr const CustomActivation* custom() const { return custom_; }

  friend bool operator==(const ActivationPart&, const ActivationPart&) = default;

 private:
  Act act_ = Act::linear;
  const CustomActivation* custom_ = nullptr;
};

/// An activation: one function, or several whose product over equal parts of the last axis is taken
/// (gated activations; the first part is the activated one).
///
///     tape8::activation(x, tape8::gelu);                             // [..., H] -> [..., H]
///     tape8::activation(x, {tape8::Act::silu, tape8::Act::linear});  // [..., 2H] -> [..., H]
class TAPE8_API ActivationType {
 public:
  // NOLINTBEGIN(google-explicit-constructor): a single part is a type
  constexpr ActivationType(Act act) : parts_{ActivationPart(act)}, count_(1) {}
  constexpr ActivationType(ActivationPart part) : parts_{part}, count_(1) {}
  // NOLINTEND(google-explicit-constructor)
  /// Throws OptionError unless there are 1 to kMaxActivationParts parts.
  constexpr ActivationType(std::initializer_list<ActivationPart> parts)
      : count_(static_cast<int>(parts.size())) {
    if (parts.size() < 1 || parts.size() > kMaxActivationParts) refuse_count(parts.size());
    std::copy(parts.begin(), parts.end(), parts_.begin());
  }

  std::span<const ActivationPart> parts() const {
    return {parts_.data(), static_cast<std::size_t>(count_)};
  }
  /// Parts of x's last axis that make one part of the result's.
  constexpr int count() const { return count_; }

  friend bool operator==(const ActivationType&, const ActivationType&) = default;

 private:
  [[noreturn]] static void refuse_count(std::size_t count);

  std::array<ActivationPart, kMaxActivationParts> parts_{};
  int count_ = 0;
};

namespace detail {

/// y[i] = F{}(x[i]), compiled where the user's function is known.
template <class F, class T>
void apply_scalar(std::span<const T> x, std::span<T> y) {
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = static_cast<T>(F{}(x[i]));
}

/// A function that does not fall back to float when it is given a double.
template <class F>
inline constexpr bool kHasDouble = std::is_convertible_v<std::invoke_result_t<F, double>, double> &&
                                   !std::is_same_v<std::invoke_result_t<F, double>, float>;

template <class F, class DF>
constexpr CustomActivation make_custom() {
  CustomActivation custom{.value = apply_scalar<F, float>, .derivative = apply_scalar<DF, float>};
  if constexpr (kHasDouble<F> && kHasDouble<DF>) {
    custom.value_f64 = apply_scalar<F, double>;
    custom.derivative_f64 = apply_scalar<DF, double>;
  }
  return custom;
}

template <class F, class DF>
inline constexpr CustomActivation kCustomActivation = make_custom<F, DF>();

}  // namespace detail

/// A part made of a scalar function and its derivative, for activation() and the modules; both are
/// compiled, and vectorised, in the caller's own translation unit. Functions without state only.
/// With generic ones (`auto x`) it works on f64 tensors too.
///
///     const auto softplus = tape8::make_activation(
///         [](auto x) { return std::fmax(x, decltype(x){0}) + std::log1p(std::exp(-std::abs(x)));
///         },
///         [](auto x) { return 1 / (1 + std::exp(-x)); });
///     tape8::Variable y = tape8::activation(x, softplus);
///     tape8::Variable z = tape8::activation(x2, {softplus, tape8::Act::linear});  // gated
template <class F, class DF>
constexpr ActivationPart make_activation(F, DF) {
  static_assert(
      std::is_empty_v<F> && std::is_empty_v<DF>,
      "make_activation takes functions without state, such as lambdas that capture nothing");
  static_assert(std::is_invocable_v<F, float> && std::is_invocable_v<DF, float>,
                "make_activation takes functions of one number");
  return ActivationPart(&detail::kCustomActivation<F, DF>);
}

// Names for the functions and for the pairs that the literature names.
inline constexpr ActivationType linear{Act::linear};
inline constexpr ActivationType gelu{Act::gelu};
inline constexpr ActivationType silu{Act::silu};
inline constexpr ActivationType sigmoid{Act::sigmoid};
inline constexpr ActivationType relu{Act::relu};
inline constexpr ActivationType squared_relu{Act::squared_relu};
inline constexpr ActivationType quick_gelu{Act::quick_gelu};
inline constexpr ActivationType geglu{Act::gelu, Act::linear};
inline constexpr ActivationType glu{Act::sigmoid, Act::linear};
inline constexpr ActivationType swiglu{Act::silu, Act::linear};
inline constexpr ActivationType reglu{Act::relu, Act::linear};
inline constexpr ActivationType qgeglu{Act::quick_gelu, Act::linear};
inline constexpr ActivationType sreglu{Act::squared_relu, Act::linear};
inline constexpr ActivationType clamped_swiglu{Act::clamped_silu, Act::clamped_linear};

/// The numbers that the clamped activations take.
struct ClampedSwigluParams {
  float limit = 7.0F;
  float alpha = 1.702F;
  float glu_linear_offset = 1.0F;
};

struct ActivationParams {
  ClampedSwigluParams clamped_swiglu = {};
};

TAPE8_API std::string_view to_string(Act act);
/// "custom" for a user's.
TAPE8_API std::string_view to_string(const ActivationPart& part);
/// The name of a known pair ("swiglu"), else the parts joined by '*'.
TAPE8_API std::string to_string(const ActivationType& type);
/// The activation of that name; throws OptionError with the names there are.
TAPE8_API ActivationType activation_type_from(std::string_view name);
/// The names that activation_type_from takes.
TAPE8_API std::span<const std::string_view> activation_names();

}  // namespace tape8
