#pragma once

#include <filesystem>

#include <tape8/core/export.hpp>
#include <tape8/core/tensor.hpp>
#include <tape8/io/dataset.hpp>

namespace tape8 {

/// Reads one IDX file of unsigned bytes (the MNIST format; http://yann.lecun.com/exdb/mnist), plain
/// or gzip: a u8 tensor of the sizes in its header. Throws IoError naming the file and what is
/// wrong: missing, empty, truncated, trailing bytes, a damaged gzip stream, another magic number,
/// sizes that do not fit the file. Nothing is allocated on the word of a header alone.
TAPE8_API Tensor read_idx(const std::filesystem::path& file);

/// The images and labels of one split of an IDX data set in a directory, under MNIST's own names
/// (train-images-idx3-ubyte, t10k-...) or with "test" for "t10k" or a dot before idx, each plain or
/// with .gz. The divisor is the largest training pixel (1 if all are 0), for both splits. Throws
/// IoError, also for no images, other sizes of images than in the training split, counts that
/// differ, or a test label outside the classes of the training split (one more than its largest
/// label).
TAPE8_API Dataset load_idx(const std::filesystem::path& directory, Split split);

}  // namespace tape8
