// SPDX-License-Identifier: Apache-2.0
// A tensor as described in files of the field (npy.h, safetensors.h). They come
// from users, so everything in them is checked. An error is one line without
// the file's name, which the caller adds.
#ifndef QKVET_CORE_FILES_FILE_TENSOR_H_
#define QKVET_CORE_FILES_FILE_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dtype.h"

namespace qkvet {

// Types of elements in files; the first ten are those of Dtype, in its order.
enum class FileDtype : uint8_t {
  kF64,
  kF32,
  kF16,
  kBf16,
  kFp8e4m3,
  kFp8e5m2,
  kInt8,
  kUint8,
  kInt64,
  kInt32,
  kBool,  // a byte; a file may hold others than 0 and 1
  kUint16,
  kInt16,
  kUint32,
  kUint64
};
inline constexpr int kFileDtypeCount = 15;

// The name of a Dtype; "bool", "uint16", "int16", "uint32", "uint64".
std::string_view file_dtype_name(FileDtype dtype);
// Size of one element in bytes.
int64_t file_dtype_bytes(FileDtype dtype);

FileDtype file_dtype(Dtype dtype);
// A bool is taken for uint8, which is what a mask is.
std::optional<Dtype> dtype_of_file(FileDtype dtype);

// As many as NumPy allows.
inline constexpr size_t kMostFileExtents = 64;

// A tensor in a file that was read as a whole.
struct FileTensor {
  FileDtype dtype = FileDtype::kF32;
  std::vector<int64_t> shape{};  // empty: one number
  size_t begin = 0;              // of the data in the file, in bytes
  size_t bytes = 0;

  // Little-endian, and at any address: to be copied, not to be cast.
  std::span<const std::byte> data(std::span<const std::byte> file) const {
    return file.subspan(begin, bytes);
  }
  friend bool operator==(const FileTensor&, const FileTensor&) = default;
};

// A tensor to be written.
struct TensorToWrite {
  FileDtype dtype = FileDtype::kF32;
  std::vector<int64_t> shape{};
  std::span<const std::byte> data{};
};

// "" and the bytes of these elements, or the problem. The product of the
// extents other than 0 must also fit: strides are computed from them.
std::string checked_bytes(FileDtype dtype, std::span<const int64_t> shape,
                          size_t& bytes);
// "" if the data have the size that the shape requires.
std::string check_tensor(const TensorToWrite& tensor);

// "f32 [2, 3]"
std::string file_tensor_text(FileDtype dtype, std::span<const int64_t> shape);
// In quotes, in printable ASCII and short, for any content of the file.
std::string shown(std::string_view text);

}  // namespace qkvet

#endif  // QKVET_CORE_FILES_FILE_TENSOR_H_
