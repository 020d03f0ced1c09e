#include "bench/memory.hpp"

#include <array>
#include <string_view>

#include <fmt/format.h>

#include <tape8/tape8.hpp>

#include "bench/values.hpp"
#include "recipe_options.hpp"

namespace tape8::tools::bench {
namespace {

constexpr std::int64_t kRows = 2048, kHidden = 768, kIntermediate = 3072;

struct KeptCase {
  ActivationType activation = gelu;
  DType dtype = DType::bf16;
  std::string_view recipe = kBf16;
  bool remake_casts = false;
};

double kept_mib(const KeptCase& kept) {
  Rng rng{1};
  const LayerNormMLP mlp{{.hidden = kHidden,
                          .intermediate = kIntermediate,
                          .activation_type = kept.activation,
                          .remake_casts = kept.remake_casts,
                          .recipe = recipe_from({}, kept.recipe, 1),
                          .dtype = kept.dtype,
                          .kernel_init = make_kernel},
                         rng};
  const Variable x{make_values({kRows, kHidden}, kept.dtype)};
  Tape tape;
  mlp(x);
  return static_cast<double>(tape.saved_for_backward_bytes()) / (1 << 20);
}

Figure memory_figure(const KeptCase& kept) {
  const std::string name = fmt::format(
      "saved_for_backward/{}/{}/{}{}/{}x{}x{}", to_string(kept.activation), to_string(kept.dtype),
      kept.recipe, kept.remake_casts ? "/remake_casts" : "", kRows, kHidden, kIntermediate);
  return {name, false, [=](double) {
            KeptCase unquantized = kept;
            unquantized.recipe = kFp32;  // high precision, in the case's dtype
            unquantized.remake_casts = false;
            const double mib = kept_mib(kept), operands_mib = kept_mib(unquantized);
            return Result{.name = name,
                          .value = mib,
                          .unit = "MiB",
                          .limit = LimitResult{std::string(to_string(kept.dtype)) + " kept",
                                               operands_mib, mib / operands_mib}};
          }};
}

}  // namespace

std::vector<Figure> memory_figures() {
  std::vector<Figure> figures;
  for (const ActivationType& activation : {gelu, swiglu}) {
    for (const DType dtype : {DType::bf16, DType::f32}) {
      for (const std::string_view recipe : kRecipeNames) {
        if (recipe == kFp32 || recipe == kBf16) continue;
        for (const bool remake_casts : {false, true}) {
          figures.push_back(memory_figure({activation, dtype, recipe, remake_casts}));
        }
      }
    }
  }
  return figures;
}

}  // namespace tape8::tools::bench
