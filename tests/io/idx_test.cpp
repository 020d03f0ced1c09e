#include <algorithm>
#include <map>
#include <sys/resource.h>
#include <sys/stat.h>
#include <utility>

#include <doctest/doctest.h>

#include <tape8/io/idx.hpp>

#include "io/idx_files.hpp"
#include "support/temp_dir.hpp"

namespace tape8 {
namespace {

using test::check_io_error;
using test::gzip;
using test::idx_bytes;

const std::string kData{"\x00\x01\x7F\x80\xFE\xFF", 6};

/// Largest resident memory of this process so far, in bytes.
std::int64_t peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

void check_fault(const std::string& bytes, const std::string& fault) {
  const test::TempDir dir;
  CAPTURE(fault);
  for (const auto& [name, content] : {std::pair{"file", bytes}, {"file.gz", gzip(bytes)}}) {
    const std::filesystem::path file = dir.write(name, content);
    check_io_error([&] { read_idx(file); }, {file.string(), fault});
  }
}

TEST_CASE("read_idx: values and sizes, plain and gzip") {
  const test::TempDir dir;
  const std::string bytes = idx_bytes({2, 1, 3}, kData);
  const std::string halves = gzip(bytes.substr(0, 11)) + gzip(bytes.substr(11));
  const std::map<std::string, std::string> files{
      {"a", bytes}, {"b.gz", gzip(bytes)}, {"no-suffix", gzip(bytes)}, {"c.gz", halves}};
  for (const auto& file : files) {
    CAPTURE(file.first);
    const Tensor tensor = read_idx(dir.write(file.first, file.second));
    CHECK(tensor.dtype() == DType::u8);
    CHECK(tensor.shape() == Shape{2, 1, 3});
    CHECK(tensor.to_vector<std::int32_t>() == std::vector<std::int32_t>{0, 1, 127, 128, 254, 255});
  }
}

TEST_CASE("read_idx: a file larger than the reader's chunks") {
  const test::TempDir dir;
  std::string data(5'000'011, '\0');
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * i % 251);
  const std::string bytes = idx_bytes({static_cast<std::uint32_t>(data.size())}, data);
  for (const auto& file : {std::pair{"a", bytes}, {"a.gz", gzip(bytes)}}) {
    CAPTURE(file.first);
    const Tensor tensor = read_idx(dir.write(file.first, file.second));
    const std::span<const std::uint8_t> read = tensor.span<std::uint8_t>();
    REQUIRE(read.size() == data.size());
    CHECK(std::equal(read.begin(), read.end(), data.begin(),
                     [](std::uint8_t a, char b) { return a == static_cast<std::uint8_t>(b); }));
  }
}

TEST_CASE("read_idx: sizes of zero are an empty tensor") {
  const test::TempDir dir;
  CHECK(read_idx(dir.write("a", idx_bytes({0, 4, 4}, ""))).shape() == Shape{0, 4, 4});
}

TEST_CASE("read_idx: each fault is one line that names file and fault") {
  const std::string good = idx_bytes({2, 3}, kData);
  check_fault(good.substr(0, 3), "truncated");
  check_fault(good.substr(0, 10), "truncated");
  check_fault(good.substr(0, good.size() - 1), "truncated");
  check_fault(good + '\0', "trailing bytes");
  check_fault("PNG" + good.substr(3), "starts with 00 00 08");
  check_fault(idx_bytes({2, 3}, kData, 0x0D), "starts with 00 00 08");
  check_fault(std::string("\0\0\x08\0", 4), "rank of 1 to 8");
  check_fault(std::string("\0\0\x08\x09", 4) + std::string(36, '\1'), "rank of 1 to 8");
  check_fault(idx_bytes({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, kData), "sizes are too large");
}

TEST_CASE("read_idx: files that are missing, empty or no files") {
  const test::TempDir dir;
  check_io_error([&] { read_idx(dir.path() / "absent"); }, {"absent", "cannot be opened"});
  check_io_error([&] { read_idx(dir.path()); }, {dir.path().string(), "cannot be read"});
  const std::filesystem::path pipe = dir.path() / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  check_io_error([&] { read_idx(pipe); }, {"pipe", "no regular file"});  // at once
  const std::filesystem::path empty = dir.write("empty", "");
  check_io_error([&] { read_idx(empty); }, {"empty", "the file is empty"});
}

TEST_CASE("read_idx: damaged gzip streams") {
  const test::TempDir dir;
  const std::string packed = gzip(idx_bytes({2, 3}, kData));
  const auto check_damage = [&](const std::string& bytes, const std::string& fault) {
    const std::filesystem::path file = dir.write("file.gz", bytes);
    check_io_error([&] { read_idx(file); }, {file.string(), fault});
  };
  // Each proper prefix that still is a gzip file: cut in the header, the data or the checksum.
  for (std::size_t length = 2; length < packed.size(); ++length) {
    CAPTURE(length);
    check_damage(packed.substr(0, length), "breaks off");
  }
  std::string checksum = packed;
  checksum[packed.size() - 6] = static_cast<char>(checksum[packed.size() - 6] ^ 1);
  check_damage(checksum, "damaged");
  check_damage(packed + "beyond", "damaged");
  check_damage(idx_bytes({2, 3}, kData), "named .gz and is no gzip file");
}

TEST_CASE("read_idx: a header that lies costs no memory") {
  check_fault(idx_bytes({0xFFFFFFFF, 0x1FFFFFFF}, kData), "truncated");  // 2^61: nobody has that
  const std::int64_t before = peak_memory();
  check_fault(idx_bytes({1 << 30}, kData), "truncated");
  CHECK(peak_memory() - before < std::int64_t{16} << 20);
}

TEST_CASE("read_idx: a gzip bomb is cut off at the header's sizes") {
  const test::TempDir dir;
  std::string bomb = idx_bytes({4}, "");
  bomb.resize(std::size_t{8} << 20);
  bomb = gzip(bomb);
  for (int doubling = 0; doubling < 4; ++doubling) bomb += bomb;  // 16 members, 128 MiB
  const std::filesystem::path file = dir.write("bomb.gz", bomb);
  const std::int64_t before = peak_memory();
  check_io_error([&] { read_idx(file); }, {"bomb.gz", "trailing bytes"});
  CHECK(peak_memory() - before < std::int64_t{16} << 20);
}

}  // namespace
}  // namespace tape8
