#include "io/byte_stream.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <utility>

#include <zlib.h>

#include "core/fail.hpp"

namespace tape8 {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

constexpr std::array<std::uint8_t, 2> kGzipMagic{0x1F, 0x8B};

std::size_t read_file(const std::string& where, const File& file, std::span<std::uint8_t> buffer) {
  const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), file.get());
  if (std::ferror(file.get()) != 0) {
    fail<IoError>("{}: cannot be read: {}", where, std::strerror(errno));
  }
  return got;
}

}  // namespace

class ByteStream::Source {
 public:
  virtual ~Source() = default;
  virtual std::size_t read(std::span<std::uint8_t> buffer) = 0;
};

class ByteStream::PlainSource final : public Source {
 public:
  PlainSource(const std::string& where, File file) : where_(where), file_(std::move(file)) {}

  std::size_t read(std::span<std::uint8_t> buffer) override {
    return read_file(where_, file_, buffer);
  }

 private:
  const std::string& where_;
  File file_;
};

/// Inflates by hand, because gzread() passes over what follows the last member without a word.
class ByteStream::GzipSource final : public Source {
 public:
  GzipSource(const std::string& where, File file) : where_(where), file_(std::move(file)) {
    constexpr int kGzipOnly = 16;
    if (inflateInit2(&stream_, kGzipOnly + MAX_WBITS) != Z_OK) {
      fail<IoError>("{}: zlib has no memory left", where_);
    }
  }
  ~GzipSource() override { inflateEnd(&stream_); }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  std::size_t read(std::span<std::uint8_t> buffer) override {
    std::size_t filled = 0;
    while (filled < buffer.size() && !done_) filled += inflate_some(buffer.subspan(filled));
    return filled;
  }

 private:
  /// One call of inflate(); may give nothing and yet move on.
  std::size_t inflate_some(std::span<std::uint8_t> buffer) {
    if (stream_.avail_in == 0) {
      stream_.avail_in = static_cast<uInt>(read_file(where_, file_, input_));
      stream_.next_in = input_.data();
      if (stream_.avail_in == 0) {
        if (inside_member_) fail<IoError>("{}: the gzip stream breaks off", where_);
        done_ = true;
        return 0;
      }
    }
    inside_member_ = true;
    const std::size_t room = std::min<std::size_t>(buffer.size(), std::numeric_limits<uInt>::max());
    stream_.next_out = buffer.data();
    stream_.avail_out = static_cast<uInt>(room);
    const int status = inflate(&stream_, Z_NO_FLUSH);
    if (status == Z_STREAM_END) {
      // Another member may follow; anything else is an error once inflate() looks at it.
      inside_member_ = false;
      inflateReset(&stream_);
    } else if (status != Z_OK) {
      fail<IoError>("{}: the gzip stream is damaged: {}", where_,
                    stream_.msg != nullptr ? stream_.msg : zError(status));
    }
    return room - stream_.avail_out;
  }

  const std::string& where_;
  File file_;
  z_stream stream_{};
  std::array<std::uint8_t, 1 << 16> input_;
  bool inside_member_ = false;
  bool done_ = false;
};

ByteStream::ByteStream(std::string_view op, const std::filesystem::path& file)
    : where_(fmt::format("{}: {}", op, file.string())) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(file, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    fail<IoError>("{}: cannot be read: it is no regular file", where_);
  }
  File handle(std::fopen(file.c_str(), "rb"));
  if (handle == nullptr) {
    fail<IoError>("{}: cannot be opened: {}", where_, std::strerror(errno));
  }
  std::array<std::uint8_t, kGzipMagic.size()> start{};
  const std::size_t got = read_file(where_, handle, start);
  if (got == 0) fail<IoError>("{}: the file is empty", where_);
  std::rewind(handle.get());
  if (got == start.size() && start == kGzipMagic) {
    source_ = std::make_unique<GzipSource>(where_, std::move(handle));
  } else if (file.extension() == ".gz") {
    fail<IoError>("{}: the file is named .gz and is no gzip file", where_);
  } else {
    source_ = std::make_unique<PlainSource>(where_, std::move(handle));
  }
}

ByteStream::~ByteStream() = default;

std::size_t ByteStream::read(std::span<std::uint8_t> buffer) { return source_->read(buffer); }

}  // namespace tape8
