#pragma once

#include <cstddef>
#include <iterator>
#include <span>

namespace tape8::test {

// Under the address sanitizer the allocator reuses nothing, so that a use after free is seen.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAddressSanitizer = true;
#elif defined(__has_feature)
inline constexpr bool kAddressSanitizer = __has_feature(address_sanitizer);
#else
inline constexpr bool kAddressSanitizer = false;
#endif

/// The cases to run: under the sanitizer, which takes some thirty times as long, the first `few`.
template <class Cases>
auto affordable(const Cases& cases, std::size_t few) {
  return std::span(cases).first(kAddressSanitizer ? few : std::size(cases));
}

}  // namespace tape8::test
