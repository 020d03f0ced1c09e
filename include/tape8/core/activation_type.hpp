#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include <tape8/core/export.hpp>

namespace tape8 {

/// Scalar activation functions, computed in f32 (f64 for f64 tensors); s is the logistic sigmoid.
enum class Act {
  linear,          ///< x
  gelu,            ///< 0.5 x (1 + tanh(0.79788456 (x + 0.044715 x^3)))
  silu,            ///< x s(x)
  sigmoid,         ///< s(x)
  relu,            ///< max(x, 0)
  squared_relu,    ///< max(x, 0)^2
  quick_gelu,      ///< x s(1.702 x)
  clamped_silu,    ///< c s(alpha c), c = min(x, limit)
  clamped_linear,  ///< clip(x, -limit, limit) + glu_linear_offset
};

inline constexpr int kActCount = 9;

/// Most parts that an activation may have.
inline constexpr int kMaxActivationParts = 4;

/// An activation: one function, or several whose product over equal parts of the last axis is taken
/// (gated activations; the first part is the activated one).
///
///     tape8::activation(x, tape8::gelu);                       // [..., H] -> [..., H]
///     tape8::activation(x, {tape8::Act::silu, tape8::Act::linear});  // [..., 2H] -> [..., H]
class TAPE8_API ActivationType {
 public:
  constexpr ActivationType(Act act) : parts_{act}, count_(1) {}  // NOLINT: a single act is a type
  /// Throws OptionError unless there are 1 to kMaxActivationParts parts.
  constexpr ActivationType(std::initializer_list<Act> parts)
      : count_(static_cast<int>(parts.size())) {
    if (parts.size() < 1 || parts.size() > kMaxActivationParts) refuse_count(parts.size());
    std::copy(parts.begin(), parts.end(), parts_.begin());
  }

  std::span<const Act> parts() const { return {parts_.data(), static_cast<std::size_t>(count_)}; }
  /// Parts of x's last axis that make one part of the result's.
  constexpr int count() const { return count_; }

  friend bool operator==(const ActivationType&, const ActivationType&) = default;

 private:
  [[noreturn]] static void refuse_count(std::size_t count);

  std::array<Act, kMaxActivationParts> parts_{};
  int count_ = 0;
};

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
/// The name of a known pair ("swiglu"), else the parts joined by '*'.
TAPE8_API std::string to_string(const ActivationType& type);
/// The activation of that name; throws OptionError with the names there are.
TAPE8_API ActivationType activation_type_from(std::string_view name);
/// The names that activation_type_from takes.
TAPE8_API std::span<const std::string_view> activation_names();

}  // namespace tape8
