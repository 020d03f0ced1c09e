#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <zlib.h>

#include <tape8/core/error.hpp>

namespace tape8::test {

/// An IDX file as bytes: the header for these sizes, then the data, whatever its length.
inline std::string idx_bytes(const std::vector<std::uint32_t>& sizes, std::string_view data,
                             char type = 0x08) {
  std::string bytes{'\0', '\0', type, static_cast<char>(sizes.size())};
  for (const std::uint32_t size : sizes) {
    for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(size >> shift & 0xFFU);
  }
  return bytes.append(data);
}

/// One gzip member.
inline std::string gzip(std::string_view content) {
  z_stream stream{};
  if (deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error("deflateInit2 failed");
  }
  std::string out(deflateBound(&stream, content.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

/// Requires an IoError of one line in which every one of `parts` occurs.
template <class Call>
void check_io_error(const Call& call, const std::vector<std::string>& parts) {
  std::string message;
  try {
    call();
  } catch (const IoError& error) {
    message = error.what();
  }
  REQUIRE_MESSAGE(!message.empty(), "no IoError was thrown");
  CHECK(message.find('\n') == std::string::npos);
  for (const std::string& part : parts) {
    CHECK_MESSAGE(message.find(part) != std::string::npos, "'", part, "' is not in: ", message);
  }
}

}  // namespace tape8::test
