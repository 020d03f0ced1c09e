#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <typeinfo>

#include <doctest/doctest.h>

#include <tape8/core/error.hpp>

#include "support/values.hpp"

namespace tape8::test {

/// Checks a result against a reference in float64.
inline void check_close(const Tensor& out, const Values& reference, double limit) {
  REQUIRE(out.defined());
  const double error = relative_error(values_of(out), reference);
  CHECK(error <= limit);
}

inline void check_close(const Tensor& out, const Values& reference) {
  check_close(out, reference, tolerance(out.dtype()));
}

/// Checks that `call` throws E itself, that its text reads "op: rule: what was got", and that it
/// has every one of `parts`.
template <class E, class Call>
void check_throws(std::string_view op, const Call& call,
                  std::initializer_list<std::string_view> parts = {}) {
  CAPTURE(op);
  try {
    call();
  } catch (const Error& error) {
    const std::string text = error.what();
    CAPTURE(text);
    CHECK(typeid(error) == typeid(E));
    const std::string prefix = std::string(op) + ": ";
    CHECK(text.substr(0, prefix.size()) == prefix);
    CHECK(text.find(": ", prefix.size()) != std::string::npos);
    for (const std::string_view part : parts) {
      CAPTURE(part);
      CHECK(text.find(part) != std::string::npos);
    }
    return;
  }
  FAIL_CHECK("nothing was thrown");
}

}  // namespace tape8::test
