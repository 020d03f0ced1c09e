#include <algorithm>
#include <map>

#include <doctest/doctest.h>

#include <tape8/io/idx.hpp>

#include "io/idx_files.hpp"
#include "support/temp_dir.hpp"

namespace tape8 {
namespace {

using test::check_io_error;
using test::gzip;
using test::idx_bytes;

/// Name and content of the four files of a small data set: 3 training and 2 test images of 1x2
/// pixels.
std::map<std::string, std::string> small_files() {
  return {{"train-images-idx3-ubyte", idx_bytes({3, 1, 2}, "\x01\x02\x03\x28\x05\x06")},
          {"train-labels-idx1-ubyte", idx_bytes({3}, std::string_view("\x02\x00\x01", 3))},
          {"t10k-images-idx3-ubyte", idx_bytes({2, 1, 2}, "\x07\x08\x09\x50")},
          {"t10k-labels-idx1-ubyte", idx_bytes({2}, "\x01\x02")}};
}

void write_all(const test::TempDir& dir, const std::map<std::string, std::string>& files) {
  for (const auto& [name, content] : files) dir.write(name, content);
}

TEST_CASE("load_idx: MNIST's names, with test for t10k, with a dot, and with .gz") {
  for (const std::string prefix : {"t10k", "test"}) {
    for (const char separator : {'-', '.'}) {
      for (const bool packed : {false, true}) {
        CAPTURE(prefix);
        CAPTURE(separator);
        CAPTURE(packed);
        const test::TempDir dir;
        for (const auto& [key, content] : small_files()) {
          std::string name = key;
          if (name.starts_with("t10k")) name.replace(0, 4, prefix);
          name[name.find("-idx")] = separator;
          dir.write(packed ? name + ".gz" : name, packed ? gzip(content) : content);
        }
        const Dataset train = load_idx(dir.path(), Split::train);
        CHECK(train.size() == 3);
        CHECK(train.examples.to_vector<std::int32_t>() ==
              std::vector<std::int32_t>{1, 2, 3, 40, 5, 6});
        CHECK(train.labels.to_vector<std::int32_t>() == std::vector<std::int32_t>{2, 0, 1});
        const Dataset test = load_idx(dir.path(), Split::test);
        CHECK(test.size() == 2);
        CHECK(test.examples.shape() == Shape{2, 1, 2});
        CHECK(test.labels.dtype() == DType::i32);
        CHECK(test.labels.to_vector<std::int32_t>() == std::vector<std::int32_t>{1, 2});
        // Both splits are divided by the brightest training pixel, though the test has a brighter
        // one.
        for (const Dataset& dataset : {train, test}) {
          CHECK(dataset.divisor == 40.0F);
          CHECK(dataset.classes == 3);
          CHECK(dataset.features() == 2);
        }
      }
    }
  }
}

TEST_CASE("load_idx: black images are divided by 1") {
  const test::TempDir dir;
  auto files = small_files();
  files["train-images-idx3-ubyte"] = idx_bytes({3, 1, 2}, std::string(6, '\0'));
  write_all(dir, files);
  CHECK(load_idx(dir.path(), Split::test).divisor == 1.0F);
}

TEST_CASE("load_idx: each fault is one line that names file and fault") {
  const auto check_fault = [](const std::string& name, const std::string& content,
                              const std::string& fault) {
    CAPTURE(fault);
    const test::TempDir dir;
    auto files = small_files();
    files[name] = content;
    write_all(dir, files);
    check_io_error([&] { load_idx(dir.path(), Split::test); },
                   {(dir.path() / name).string(), fault});
  };
  check_fault("train-images-idx3-ubyte", idx_bytes({6}, "abcdef"), "(n, height, width)");
  check_fault("train-images-idx3-ubyte", idx_bytes({0, 1, 2}, ""), "an image and a pixel");
  check_fault("t10k-images-idx3-ubyte", idx_bytes({0, 1, 2}, ""), "an image and a pixel");
  check_fault("t10k-images-idx3-ubyte", idx_bytes({2, 0, 2}, ""), "an image and a pixel");
  check_fault("t10k-images-idx3-ubyte", idx_bytes({2, 2, 1}, "abcd"), "the training images' sizes");
  check_fault("train-labels-idx1-ubyte", idx_bytes({2}, "ab"),
              "one label for each of the 3 images");
  check_fault("t10k-labels-idx1-ubyte", idx_bytes({2, 1}, "ab"),
              "one label for each of the 2 images");
  check_fault("t10k-labels-idx1-ubyte", idx_bytes({2}, "\x01\x03"),
              "largest training label 2: got 3");
  check_fault("t10k-labels-idx1-ubyte", "", "empty");
}

TEST_CASE("load_idx: directories and files that are not there") {
  const test::TempDir dir;
  check_io_error([&] { load_idx(dir.path() / "absent", Split::train); },
                 {"absent", "no such directory"});
  for (const auto& file : small_files()) {
    const std::string& missing = file.first;
    CAPTURE(missing);
    const test::TempDir partial;
    auto files = small_files();
    files.erase(missing);
    write_all(partial, files);
    const std::string part = missing.substr(missing.find('-') + 1, 6);
    check_io_error([&] { load_idx(partial.path(), Split::test); }, {partial.path().string(), part});
  }
}

TEST_CASE("load_idx: the digits of the examples") {
  const Dataset train = load_idx(TAPE8_DIGITS, Split::train);
  const Dataset test = load_idx(TAPE8_DIGITS, Split::test);
  CHECK(train.size() == 1437);
  CHECK(test.size() == 360);
  for (const Dataset& dataset : {train, test}) {
    CHECK(dataset.examples.shape() == Shape{dataset.size(), 8, 8});
    CHECK(dataset.divisor == 16.0F);
    CHECK(dataset.classes == 10);
    const std::vector<std::int32_t> labels = dataset.labels.to_vector<std::int32_t>();
    CHECK(*std::min_element(labels.begin(), labels.end()) == 0);
    CHECK(*std::max_element(labels.begin(), labels.end()) == 9);
  }
}

}  // namespace
}  // namespace tape8
