#include <stdexcept>
#include <string>
#include <type_traits>

#include <doctest/doctest.h>

#include <tape8/core/error.hpp>
#include <tape8/core/tensor.hpp>

namespace tape8 {
namespace {

template <class E>
constexpr bool kIsError = std::is_base_of_v<Error, E>&& std::is_base_of_v<std::runtime_error, E>;

static_assert(kIsError<ShapeError> && kIsError<DTypeError> && kIsError<OptionError> &&
              kIsError<StateError> && kIsError<IoError> && kIsError<UnsupportedError> &&
              kIsError<BackendError>);

TEST_CASE("error: a device without a backend is named") {
  const Device device{DeviceType::cuda, 1};
  try {
    (void)Tensor::empty({2}, DType::f32, device);
    FAIL_CHECK("nothing was thrown");
  } catch (const UnsupportedError& error) {
    CHECK(std::string(error.what()).find("cuda:1: ") == 0);
  }
}

}  // namespace
}  // namespace tape8
