#include "backend/cpu/float64_kernels.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "backend/cpu/dropout_mask.hpp"
#include "core/formats.hpp"

namespace tape8::cpu::float64 {
namespace {

double load(const Input& x, std::int64_t i) {
  switch (bits(x.dtype)) {
    case 64:
      return static_cast<const double*>(x.data)[i];
    case 32:
      return static_cast<const float*>(x.data)[i];
    case 16:
      return decode(x.dtype, static_cast<const std::uint16_t*>(x.data)[i]);
    default: {
      const auto value =
          static_cast<float>(decode(x.dtype, static_cast<const std::uint8_t*>(x.data)[i]));
      return x.scale_inv == nullptr ? value : value * x.scale_inv->value;
    }
  }
}

/// Stores values and keeps their amax, which goes to the output at the end.
class Writer {
 public:
  explicit Writer(const Output& output) : output_(output) {}
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() {
    if (output_.amax == nullptr) return;
    output_.amax->value = static_cast<float>(amax_);
  }

  void store(std::int64_t i, double value) {
    if (!(std::abs(value) <= amax_) && !std::isnan(amax_)) {
      amax_ = std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : std::abs(value);
    }
    if (output_.data == nullptr) return;
    switch (bits(output_.dtype)) {
      case 64:
        static_cast<double*>(output_.data)[i] = value;
        break;
      case 32:
        static_cast<float*>(output_.data)[i] = static_cast<float>(value);
        break;
      case 16:
        static_cast<std::uint16_t*>(output_.data)[i] = encode(output_.dtype, value);
        break;
      default: {
        const double scale = output_.scale == nullptr ? 1.0 : output_.scale->value;
        static_cast<std::uint8_t*>(output_.data)[i] =
            static_cast<std::uint8_t>(encode(output_.dtype, value * scale));
      }
    }
  }

 private:
  Output output_;
  double amax_ = 0.0;
};

struct ValueAndDerivative {
  double value;
  double derivative;
};

double sigmoid(double x) {
  const double t = std::exp(-std::abs(x));
  return x >= 0.0 ? 1.0 / (1.0 + t) : t / (1.0 + t);
}

/// x s(z) for z an increasing function of x with that slope. x z's limits at infinity are 0 and x.
ValueAndDerivative gated_by_sigmoid(double x, double z, double slope) {
  if (std::isnan(x)) return {x, x};
  const double s = sigmoid(z), rest = sigmoid(-z);
  if (s == 0.0) return {0.0, 0.0};
  if (rest == 0.0) return {x, 1.0};
  return {x * s, s + x * slope * s * rest};
}

ValueAndDerivative evaluate(const CustomActivation& custom, double x) {
  ValueAndDerivative result{};
  custom.value_f64({&x, 1}, {&result.value, 1});
  custom.derivative_f64({&x, 1}, {&result.derivative, 1});
  return result;
}

ValueAndDerivative evaluate(const ActivationPart& part, const ActivationParams& params, double x) {
  if (part.custom() != nullptr) return evaluate(*part.custom(), x);
  const ClampedSwigluParams& clamped = params.clamped_swiglu;
  if (std::isnan(x)) return {x, x};
  switch (part.act()) {
    case Act::linear:
      return {x, 1.0};
    case Act::gelu: {
      const double k = std::sqrt(8.0 / 3.14159265358979323846);
      return gated_by_sigmoid(x, k * x * (1.0 + 0.044715 * x * x),
                              k * (1.0 + 3.0 * 0.044715 * x * x));
    }
    case Act::silu:
      return gated_by_sigmoid(x, x, 1.0);
    case Act::sigmoid:
      return {sigmoid(x), sigmoid(x) * sigmoid(-x)};
    case Act::relu:
      return {std::max(x, 0.0), x > 0.0 ? 1.0 : 0.0};
    case Act::squared_relu: {
      const double positive = std::max(x, 0.0);
      return {positive * positive, 2.0 * positive};
    }
    case Act::quick_gelu:
      return gated_by_sigmoid(x, 1.702 * x, 1.702);
    case Act::clamped_silu: {
      const double alpha = clamped.alpha;
      const double c = std::min(x, static_cast<double>(clamped.limit));
      ValueAndDerivative result = gated_by_sigmoid(c, alpha * c, alpha);
      if (x > clamped.limit) result.derivative = 0.0;
      return result;
    }
    case Act::clamped_linear: {
      const double limit = clamped.limit;
      return {std::clamp(x, -limit, limit) + clamped.glu_linear_offset,
              std::abs(x) <= limit ? 1.0 : 0.0};
    }
  }
  return {x, 1.0};
}

double* f64(Stat* stat) { return static_cast<double*>(stat); }
const double* f64(const Stat* stat) { return static_cast<const double*>(stat); }

}  // namespace

void cast(const CastArgs& args) {
  Writer y(args.y);
  const auto sum = [&](auto* dbias) {
    using Sum = std::remove_pointer_t<decltype(dbias)>;
    for (std::int64_t c = 0; c < args.cols; ++c) {
      double total = 0.0;
      for (std::int64_t r = 0; r < args.rows; ++r) total += load(args.x, r * args.cols + c);
      dbias[c] = static_cast<Sum>(total);
    }
  };
  if (args.dbias != nullptr && args.x.dtype == DType::f64) sum(f64(args.dbias));
  if (args.dbias != nullptr && args.x.dtype != DType::f64) sum(static_cast<float*>(args.dbias));
  for (std::int64_t i = 0; i < args.rows * args.cols; ++i) y.store(i, load(args.x, i));
}

void activation(const ActivationArgs& args) {
  Writer y(args.y);
  const auto parts = args.type.parts();
  const auto count = static_cast<std::int64_t>(parts.size());
  for (std::int64_t r = 0; r < args.rows; ++r) {
    for (std::int64_t c = 0; c < args.cols; ++c) {
      double product = 1.0;
      for (std::int64_t p = 0; p < count; ++p) {
        const double x = load(args.x, (r * count + p) * args.cols + c);
        product *= evaluate(parts[static_cast<std::size_t>(p)], args.params, x).value;
      }
      y.store(r * args.cols + c, product);
    }
  }
}

void activation_backward(const ActivationBackwardArgs& args) {
  Writer dx(args.dx);
  const auto parts = args.type.parts();
  const std::size_t count = parts.size();
  double* const dbias = f64(args.dbias);
  if (dbias != nullptr) std::fill_n(dbias, static_cast<std::int64_t>(count) * args.cols, 0.0);
  for (std::int64_t r = 0; r < args.rows; ++r) {
    for (std::int64_t c = 0; c < args.cols; ++c) {
      const auto column = [&](std::size_t p) {
        return static_cast<std::int64_t>(p) * args.cols + c;
      };
      const std::int64_t row = r * static_cast<std::int64_t>(count) * args.cols;
      std::array<ValueAndDerivative, kMaxActivationParts> results;
      for (std::size_t p = 0; p < count; ++p) {
        results[p] = evaluate(parts[p], args.params, load(args.x, row + column(p)));
      }
      for (std::size_t p = 0; p < count; ++p) {
        double gradient = load(args.dy, r * args.cols + c) * results[p].derivative;
        for (std::size_t q = 0; q < count; ++q) {
          if (q != p) gradient *= results[q].value;
        }
        dx.store(row + column(p), gradient);
        if (dbias != nullptr) dbias[column(p)] += gradient;
      }
    }
  }
}

void norm(const NormArgs& args) {
  Writer y(args.y);
  const bool centered = args.type == NormType::layernorm;
  const double cols = static_cast<double>(std::max<std::int64_t>(args.cols, 1));
  for (std::int64_t r = 0; r < args.rows; ++r) {
    const auto x = [&](std::int64_t c) { return load(args.x, r * args.cols + c); };
    double mu = 0.0, squares = 0.0;
    for (std::int64_t c = 0; centered && c < args.cols; ++c) mu += x(c) / cols;
    for (std::int64_t c = 0; c < args.cols; ++c) squares += (x(c) - mu) * (x(c) - mu);
    const double rsigma = 1.0 / std::sqrt(squares / cols + static_cast<double>(args.epsilon));
    for (std::int64_t c = 0; c < args.cols; ++c) {
      const double gamma = f64(args.gamma)[c] + (args.zero_centered_gamma ? 1.0 : 0.0);
      const double beta = args.beta == nullptr ? 0.0 : f64(args.beta)[c];
      y.store(r * args.cols + c, (x(c) - mu) * rsigma * gamma + beta);
    }
    if (args.mu != nullptr) f64(args.mu)[r] = mu;
    if (args.rsigma != nullptr) f64(args.rsigma)[r] = rsigma;
  }
}

void norm_backward(const NormBackwardArgs& args) {
  Writer dx(args.dx);
  const bool centered = args.type == NormType::layernorm;
  const double cols = static_cast<double>(std::max<std::int64_t>(args.cols, 1));
  double* const dgamma = f64(args.dgamma);
  double* const dbeta = f64(args.dbeta);
  if (dgamma != nullptr) std::fill_n(dgamma, args.cols, 0.0);
  if (dbeta != nullptr) std::fill_n(dbeta, args.cols, 0.0);
  for (std::int64_t r = 0; r < args.rows; ++r) {
    const double mu = centered ? f64(args.mu)[r] : 0.0;
    const double rsigma = f64(args.rsigma)[r];
    const auto dy = [&](std::int64_t c) { return load(args.dy, r * args.cols + c); };
    const auto xhat = [&](std::int64_t c) {
      return (load(args.x, r * args.cols + c) - mu) * rsigma;
    };
    const auto g = [&](std::int64_t c) {
      return dy(c) * (f64(args.gamma)[c] + (args.zero_centered_gamma ? 1.0 : 0.0));
    };
    double mean_g = 0.0, mean_g_xhat = 0.0;
    for (std::int64_t c = 0; c < args.cols; ++c) {
      if (centered) mean_g += g(c) / cols;
      mean_g_xhat += g(c) * xhat(c) / cols;
    }
    for (std::int64_t c = 0; c < args.cols; ++c) {
      dx.store(r * args.cols + c, rsigma * (g(c) - mean_g - xhat(c) * mean_g_xhat));
      if (dgamma != nullptr) dgamma[c] += dy(c) * xhat(c);
      if (dbeta != nullptr) dbeta[c] += dy(c);
    }
  }
}

void softmax_cross_entropy(const SoftmaxCrossEntropyArgs& args) {
  double loss = 0.0;
  for (std::int64_t r = 0; r < args.rows; ++r) {
    const auto logit = [&](std::int64_t c) { return load(args.logits, r * args.classes + c); };
    double largest = -std::numeric_limits<double>::infinity(), sum = 0.0;
    for (std::int64_t c = 0; c < args.classes; ++c) largest = std::max(largest, logit(c));
    for (std::int64_t c = 0; c < args.classes; ++c) sum += std::exp(logit(c) - largest);
    f64(args.logsumexp)[r] = largest + std::log(sum);
    if (args.labels[r] == kIgnoredLabel) continue;
    const double s = args.label_smoothing;
    double mean = 0.0;
    for (std::int64_t c = 0; s > 0.0 && c < args.classes; ++c) {
      mean += (logit(c) - largest) / static_cast<double>(args.classes);
    }
    loss += std::log(sum) - (1.0 - s) * (logit(args.labels[r]) - largest) - s * mean;
  }
  *f64(args.loss) = loss / static_cast<double>(std::max<std::int64_t>(args.counted, 1));
}

void softmax_cross_entropy_backward(const SoftmaxCrossEntropyBackwardArgs& args) {
  Writer dlogits(args.dlogits);
  const double scale =
      *f64(args.dloss) / static_cast<double>(std::max<std::int64_t>(args.counted, 1));
  const double s = args.label_smoothing;
  for (std::int64_t r = 0; r < args.rows; ++r) {
    for (std::int64_t c = 0; c < args.classes; ++c) {
      const std::int64_t i = r * args.classes + c;
      const double probability = std::exp(load(args.logits, i) - f64(args.logsumexp)[r]);
      const double target =
          (c == args.labels[r] ? 1.0 - s : 0.0) + s / static_cast<double>(args.classes);
      const bool ignored = args.labels[r] == kIgnoredLabel;
      dlogits.store(i, ignored ? 0.0 : (probability - target) * scale);
    }
  }
}

void binary(const BinaryArgs& args) {
  Writer y(args.y);
  for (std::int64_t i = 0; i < args.count; ++i) {
    const double a = load(args.a, i), b = load(args.b, i);
    switch (args.op) {
      case BinaryOp::add:
        y.store(i, a + b);
        break;
      case BinaryOp::sub:
        y.store(i, a - b);
        break;
      case BinaryOp::mul:
        y.store(i, a * b);
        break;
    }
  }
}

void scale(const ScaleArgs& args) {
  Writer y(args.y);
  for (std::int64_t i = 0; i < args.count; ++i) y.store(i, load(args.x, i) * args.factor);
}

void reduce(const ReduceArgs& args) {
  Writer y(args.y);
  for (std::int64_t o = 0; o < args.outer; ++o) {
    for (std::int64_t i = 0; i < args.inner; ++i) {
      double sum = 0.0;
      for (std::int64_t r = 0; r < args.reduced; ++r) {
        sum += load(args.x, (o * args.reduced + r) * args.inner + i);
      }
      y.store(o * args.inner + i, sum * args.factor);
    }
  }
}

void broadcast(const BroadcastArgs& args) {
  Writer y(args.y);
  for (std::int64_t row = 0; row < args.outer * args.reduced; ++row) {
    for (std::int64_t i = 0; i < args.inner; ++i) {
      y.store(row * args.inner + i,
              load(args.x, row / args.reduced * args.inner + i) * args.factor);
    }
  }
}

void dropout(const DropoutArgs& args) {
  Writer y(args.y);
  const double kept = 1.0 - static_cast<double>(args.rate);
  for (std::int64_t i = 0; i < args.count; ++i) {
    y.store(i, keeps_element(args.seed, args.rate, i) ? load(args.x, i) / kept : 0.0);
  }
}

void mse(const MseArgs& args) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < args.count; ++i) {
    const double difference = load(args.prediction, i) - load(args.target, i);
    sum += difference * difference;
  }
  *f64(args.loss) = sum / static_cast<double>(std::max<std::int64_t>(args.count, 1));
}

void mse_backward(const MseBackwardArgs& args) {
  Writer dprediction(args.dprediction);
  const double factor = 2.0 * *f64(args.dloss) / static_cast<double>(args.count);
  for (std::int64_t i = 0; i < args.count; ++i) {
    dprediction.store(i, (load(args.prediction, i) - load(args.target, i)) * factor);
  }
}

double sum_of_squares(std::int64_t count, const Input& x) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < count; ++i) sum += load(x, i) * load(x, i);
  return sum;
}

bool all_finite(std::int64_t count, const Input& x) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(load(x, i))) return false;
  }
  return true;
}

}  // namespace tape8::cpu::float64
