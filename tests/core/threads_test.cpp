#include <doctest/doctest.h>

#include <tape8/core/threads.hpp>

#include "support/expect.hpp"

namespace tape8 {
namespace {

TEST_CASE("threads: the number is kept, and is at least 1") {
  const int before = num_threads();
  CHECK(before >= 1);
  set_num_threads(3);
  CHECK(num_threads() == 3);
  test::check_throws<OptionError>("set_num_threads", [] { set_num_threads(0); }, {"0"});
  test::check_throws<OptionError>("set_num_threads", [] { set_num_threads(-2); }, {"-2"});
  test::check_throws<OptionError>("set_num_threads", [] { set_num_threads(1 << 30); }, {"4096"});
  CHECK(num_threads() == 3);
  set_num_threads(before);
}

}  // namespace
}  // namespace tape8
