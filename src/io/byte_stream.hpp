#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tape8 {

/// The bytes of a file from the first to the last, inflated when it starts as a gzip file does.
class ByteStream {
 public:
  /// `op` is named in errors. Throws IoError when the file cannot be opened, is empty, or is named
  /// .gz and is no gzip file.
  ByteStream(std::string_view op, const std::filesystem::path& file);
  ~ByteStream();
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  /// Fills `buffer` from the stream and returns how much there was: less only at the end. Throws
  /// IoError when the file cannot be read, or is a gzip stream that is damaged or breaks off.
  std::size_t read(std::span<std::uint8_t> buffer);

  /// "op: file", which starts every message about this stream.
  const std::string& where() const { return where_; }

 private:
  class Source;
  class PlainSource;
  class GzipSource;

  std::string where_;
  std::unique_ptr<Source> source_;
};

}  // namespace tape8
