#include "json_file.hpp"

#include <cerrno>
#include <cstring>

#include <fmt/core.h>

#include <tape8/core/error.hpp>

namespace tape8::tools {

JsonFile::JsonFile(const std::string& name) : name_(name) {
  if (name_.empty() || is_standard_output()) return;
  stream_.open(name_);
  check();
}

void JsonFile::check() const {
  if (!stream_)
    throw IoError(fmt::format("{}: cannot be written: {}", name_, std::strerror(errno)));
}

void JsonFile::write(const std::string& document) {
  if (name_.empty()) return;
  if (is_standard_output()) {
    fmt::print("{}\n", document);
    return;
  }
  stream_ << document << std::endl;
  check();
}

}  // namespace tape8::tools
