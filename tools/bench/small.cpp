#include "bench/small.hpp"

#include <array>
#include <fcntl.h>
#include <spawn.h>
#include <string_view>
#include <sys/wait.h>

#include <fmt/format.h>

#include <tape8/tape8.hpp>

#include "recipe_options.hpp"

extern char** environ;

namespace tape8::tools::bench {
namespace {

constexpr std::int64_t kRows = 32, kHiddenIn = 64, kHiddenOut = 10;

/// Nodes of a tape that are measured together, so that the tape itself does not count.
constexpr int kNodes = 1000;

Figure layernorm_dense_figure(std::string_view recipe) {
  const std::string name =
      fmt::format("layernorm_dense_forward/{}/{}x{}x{}/1t", recipe, kRows, kHiddenOut, kHiddenIn);
  return {name, false, [=](double seconds) {
            set_num_threads(1);
            const DType dtype = recipe == kFp32 ? DType::f32 : DType::bf16;
            Rng rng{1};
            const LayerNormDense dense{{.in_features = kHiddenIn,
                                        .out_features = kHiddenOut,
                                        .recipe = recipe_from({}, recipe, 1),
                                        .dtype = dtype},
                                       rng};
            const Variable x{rng.normal({kRows, kHiddenIn}, 0.0F, 1.0F, dtype)};
            const Subject subject{.call = [dense, x] { dense(x); },
                                  .work = 2.0 * kRows * kHiddenIn * kHiddenOut,
                                  .unit = Unit::us};
            return measure_against(name, subject, recipe == kFp32 ? f32_peak(1) : bf16_dot_peak(1),
                                   seconds);
          }};
}

/// A node that does next to nothing, forward and backward.
Figure tape_node_figure() {
  const std::string name = "tape_node/f32/1/1t";
  return {name, false, [name](double seconds) {
            set_num_threads(1);
            Variable x = parameter(Tensor::full({1}, 1.0));
            const auto call = [x]() mutable {
              x.zero_grad();
              Tape tape;
              Variable y = x;
              for (int i = 0; i < kNodes; ++i) y = y + x;
              tape.backward(y);
            };
            return measure_alone(name, {.call = call, .parts = kNodes, .unit = Unit::us}, seconds);
          }};
}

/// Runs this program with one argument, its output thrown away.
void run_program(const char* argument) {
  std::string program = "/proc/self/exe", option = argument;
  std::array<char*, 3> arguments{program.data(), option.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int error =
      posix_spawn(&child, program.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (error != 0 || waitpid(child, &status, 0) != child || status != 0) {
    throw StateError(fmt::format("bench: tape8 {} must run to its end: got status {}", argument,
                                 error != 0 ? error : status));
  }
}

Figure program_figure() {
  const std::string name = "program/info";
  return {name, false, [name](double seconds) {
            return measure_alone(name, {.call = [] { run_program("info"); }, .unit = Unit::ms},
                                 seconds);
          }};
}

}  // namespace

std::vector<Figure> small_figures() {
  std::vector<Figure> figures;
  for (const std::string_view recipe : kRecipeNames) {
    figures.push_back(layernorm_dense_figure(recipe));
  }
  figures.push_back(tape_node_figure());
  figures.push_back(program_figure());
  return figures;
}

}  // namespace tape8::tools::bench
