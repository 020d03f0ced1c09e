#include <cstdio>
#include <string>
#include <unistd.h>

#include <doctest/doctest.h>

#include <tape8/core/log.hpp>
#include <tape8/core/rng.hpp>

#include "core/logger.hpp"

namespace tape8 {
namespace {

/// What `call` writes to standard output and standard error.
template <class Call>
std::string written_by(const Call& call) {
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  std::fflush(nullptr);
  const int saved_out = dup(STDOUT_FILENO);
  const int saved_err = dup(STDERR_FILENO);
  dup2(fileno(file), STDOUT_FILENO);
  dup2(fileno(file), STDERR_FILENO);
  call();
  std::fflush(nullptr);
  dup2(saved_out, STDOUT_FILENO);
  dup2(saved_err, STDERR_FILENO);
  close(saved_out);
  close(saved_err);
  std::string text(static_cast<std::size_t>(std::ftell(file)), '\0');
  std::rewind(file);
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

TEST_CASE("log: silent unless asked") {
  const LogLevel before = log_level();
  set_log_level(LogLevel::off);
  const std::string silent = written_by([] {
    logger().error("not to be seen");
    Rng rng(1);
    (void)rng.normal({8, 8}, 0.0F, 1.0F).to(DType::e4m3).to_vector<float>();
    try {
      (void)Tensor::zeros({2}).item<float>();
    } catch (const std::exception&) {
    }
  });
  CHECK(silent == "");

  set_log_level(LogLevel::warn);
  const std::string warned = written_by([] {
    logger().info("a detail");
    logger().warn("a warning");
  });
  CHECK(warned.find("a detail") == std::string::npos);
  CHECK(warned.find("a warning") != std::string::npos);
  set_log_level(before);
}

TEST_CASE("log: every level is given back") {
  const LogLevel before = log_level();
  for (const LogLevel level :
       {LogLevel::debug, LogLevel::info, LogLevel::warn, LogLevel::error, LogLevel::off}) {
    set_log_level(level);
    CHECK(log_level() == level);
  }
  set_log_level(before);
}

}  // namespace
}  // namespace tape8
