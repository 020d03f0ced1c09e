#pragma once

#include <stdexcept>

#include <tape8/core/export.hpp>

namespace tape8 {

/// Base of all that tape8 throws. The text reads "op: rule: what was got". A call that throws
/// leaves every object as it was, but for a tape whose backward fails: it is spent.
class TAPE8_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Sizes that do not fit each other.
class TAPE8_API ShapeError : public Error {
 public:
  using Error::Error;
};

/// An element type that the op does not take there.
class TAPE8_API DTypeError : public Error {
 public:
  using Error::Error;
};

/// An option or a value outside its range.
class TAPE8_API OptionError : public Error {
 public:
  using Error::Error;
};

/// A call that comes too late, too early or twice: a consumed tape, a changed saved tensor.
class TAPE8_API StateError : public Error {
 public:
  using Error::Error;
};

/// A file that is missing, truncated or not what it says.
class TAPE8_API IoError : public Error {
 public:
  using Error::Error;
};

/// What this backend or build does not have; names the backend and the kernel.
class TAPE8_API UnsupportedError : public Error {
 public:
  using Error::Error;
};

/// A device or one of its libraries failed.
class TAPE8_API BackendError : public Error {
 public:
  using Error::Error;
};

}  // namespace tape8
