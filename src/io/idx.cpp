#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <string_view>
#include <vector>

#include <fmt/ranges.h>

#include <tape8/io/idx.hpp>

#include "core/fail.hpp"
#include "io/byte_stream.hpp"

namespace tape8 {
namespace {

constexpr std::uint8_t kUnsignedBytes = 0x08;

void read_header(ByteStream& stream, std::span<std::uint8_t> bytes) {
  const std::size_t got = stream.read(bytes);
  if (got < bytes.size()) {
    fail<IoError>("{}: truncated: the IDX header breaks off", stream.where());
  }
}

/// The sizes in the header: magic number 0, 0, element type, rank; then 32 bits a size, big-endian.
std::vector<std::int64_t> read_sizes(ByteStream& stream) {
  std::array<std::uint8_t, 4> magic{};
  read_header(stream, magic);
  if (magic[0] != 0 || magic[1] != 0 || magic[2] != kUnsignedBytes || magic[3] < 1 ||
      magic[3] > kMaxRank) {
    fail<IoError>(
        "{}: an IDX file of unsigned bytes starts with 00 00 08 and a rank of 1 to {}: got {:02x}",
        stream.where(), kMaxRank, fmt::join(magic, " "));
  }
  std::vector<std::int64_t> sizes(magic[3]);
  for (std::int64_t& size : sizes) {
    std::array<std::uint8_t, 4> bytes{};
    read_header(stream, bytes);
    for (const std::uint8_t byte : bytes) size = size << 8 | byte;
  }
  return sizes;
}

/// Reads `count` bytes and no more than there are: memory grows with what the stream delivers.
std::vector<std::uint8_t> read_body(ByteStream& stream, std::int64_t count) {
  constexpr std::size_t kFirstChunk = std::size_t{1} << 20;
  const auto wanted = static_cast<std::size_t>(count);
  std::vector<std::uint8_t> body;
  while (body.size() < wanted) {
    const std::size_t had = body.size();
    const std::size_t chunk = std::min(wanted - had, std::max(had, kFirstChunk));
    body.resize(had + chunk);
    const std::size_t got = stream.read(std::span(body).subspan(had));
    if (got < chunk) {
      fail<IoError>("{}: truncated: the header promises {} bytes of data: got {}", stream.where(),
                    wanted, had + got);
    }
  }
  std::array<std::uint8_t, 1> beyond{};
  if (stream.read(beyond) != 0) {
    fail<IoError>("{}: trailing bytes: the header promises {} bytes of data and more follow",
                  stream.where(), wanted);
  }
  return body;
}

Shape checked_shape(const ByteStream& stream, const std::vector<std::int64_t>& sizes) {
  try {
    return Shape(sizes);
  } catch (const ShapeError&) {
    fail<IoError>("{}: the header's sizes are too large: got ({})", stream.where(),
                  fmt::join(sizes, ", "));
  }
}

/// The file of a directory that holds one part of a split, under any of the names in use.
std::filesystem::path find_part(const std::filesystem::path& directory, Split split,
                                std::string_view part) {
  const auto prefixes = split == Split::train ? std::vector<std::string_view>{"train"}
                                              : std::vector<std::string_view>{"t10k", "test"};
  const std::string_view suffix = part == "images" ? "idx3-ubyte" : "idx1-ubyte";
  for (const std::string_view prefix : prefixes) {
    for (const std::string_view separator : {"-", "."}) {
      for (const std::string_view ending : {"", ".gz"}) {
        std::filesystem::path file =
            directory / fmt::format("{}-{}{}{}{}", prefix, part, separator, suffix, ending);
        std::error_code ignored;
        if (std::filesystem::exists(file, ignored)) return file;
      }
    }
  }
  fail<IoError>("load_idx: {}: no file {}-{}-{} (or with a dot for the last dash, or with .gz)",
                directory.string(), fmt::join(prefixes, "|"), part, suffix);
}

struct Images {
  std::filesystem::path file;
  Tensor pixels;  // [n, height, width]
};

struct Labels {
  std::filesystem::path file;
  Tensor values;  // u8 [n]
};

Images read_images(const std::filesystem::path& directory, Split split) {
  Images images{find_part(directory, split, "images"), {}};
  images.pixels = read_idx(images.file);
  const Shape& shape = images.pixels.shape();
  if (shape.rank() != 3) {
    fail<IoError>("load_idx: {}: images must have sizes (n, height, width): got {}",
                  images.file.string(), to_string(shape));
  }
  if (shape.numel() == 0) {
    fail<IoError>("load_idx: {}: there must be an image and a pixel: got sizes {}",
                  images.file.string(), to_string(shape));
  }
  return images;
}

Labels read_labels(const std::filesystem::path& directory, Split split, const Images& images) {
  Labels labels{find_part(directory, split, "labels"), {}};
  labels.values = read_idx(labels.file);
  if (labels.values.rank() != 1 || labels.values.shape()[0] != images.pixels.shape()[0]) {
    fail<IoError>(
        "load_idx: {}: there must be one label for each of the {} images of {}: got sizes {}",
        labels.file.string(), images.pixels.shape()[0], images.file.string(),
        to_string(labels.values.shape()));
  }
  return labels;
}

std::uint8_t largest(const Tensor& bytes) {
  const std::span<const std::uint8_t> values = bytes.span<std::uint8_t>();
  return *std::max_element(values.begin(), values.end());
}

Dataset dataset_of(const Images& images, const Labels& labels, const Images& train_images,
                   const Labels& train_labels) {
  const std::uint8_t brightest = largest(train_images.pixels);
  return {.examples = images.pixels,
          .labels = labels.values.to(DType::i32),
          .classes = std::int64_t{largest(train_labels.values)} + 1,
          .divisor = brightest == 0 ? 1.0F : static_cast<float>(brightest)};
}

}  // namespace

Tensor read_idx(const std::filesystem::path& file) {
  ByteStream stream("read_idx", file);
  const Shape shape = checked_shape(stream, read_sizes(stream));
  try {
    auto body = std::make_shared<std::vector<std::uint8_t>>(read_body(stream, shape.numel()));
    std::uint8_t* data = body->data();
    return Tensor::wrap(data, shape, DType::u8, [body](void*) {});
  } catch (const std::bad_alloc&) {
    fail<IoError>("{}: {} bytes of data do not fit in memory", stream.where(), shape.numel());
  }
}

Dataset load_idx(const std::filesystem::path& directory, Split split) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(directory, ignored)) {
    fail<IoError>("load_idx: {}: no such directory", directory.string());
  }
  const Images train_images = read_images(directory, Split::train);
  const Labels train_labels = read_labels(directory, Split::train, train_images);
  if (split == Split::train) {
    return dataset_of(train_images, train_labels, train_images, train_labels);
  }

  const Images images = read_images(directory, split);
  if (images.pixels.shape().axes(1, 3) != train_images.pixels.shape().axes(1, 3)) {
    fail<IoError>("load_idx: {}: images must have the training images' sizes {}: got {}",
                  images.file.string(), to_string(train_images.pixels.shape().axes(1, 3)),
                  to_string(images.pixels.shape().axes(1, 3)));
  }
  const Labels labels = read_labels(directory, split, images);
  if (largest(labels.values) > largest(train_labels.values)) {
    fail<IoError>("load_idx: {}: labels must not exceed the largest training label {}: got {}",
                  labels.file.string(), largest(train_labels.values), largest(labels.values));
  }
  return dataset_of(images, labels, train_images, train_labels);
}

}  // namespace tape8
