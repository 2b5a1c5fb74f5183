// SPDX-License-Identifier: Apache-2.0
#include "core/files/file_tensor.h"

#include <array>
#include <bit>
#include <limits>

namespace qkvet {
namespace {

static_assert(std::endian::native == std::endian::little,
              "files are read as they are, with the least byte first");
static_assert(static_cast<int>(FileDtype::kInt32) ==
                  static_cast<int>(Dtype::kInt32) &&
              static_cast<int>(Dtype::kInt32) == kDtypeCount - 1);

struct OtherDtype {
  std::string_view name;
  int64_t bytes;
};

// The types that Dtype does not have, in the order of FileDtype.
constexpr std::array<OtherDtype, kFileDtypeCount - kDtypeCount> kOthers = {
    {{"bool", 1}, {"uint16", 2}, {"int16", 2}, {"uint32", 4}, {"uint64", 8}}};

bool is_dtype(FileDtype dtype) { return static_cast<int>(dtype) < kDtypeCount; }

const OtherDtype& other(FileDtype dtype) {
  return kOthers[static_cast<size_t>(dtype) - kDtypeCount];
}

constexpr size_t kMostShown = 60;

}  // namespace

std::string_view file_dtype_name(FileDtype dtype) {
  return is_dtype(dtype) ? dtype_name(static_cast<Dtype>(dtype))
                         : other(dtype).name;
}

int64_t file_dtype_bytes(FileDtype dtype) {
  return is_dtype(dtype) ? dtype_bytes(static_cast<Dtype>(dtype))
                         : other(dtype).bytes;
}

FileDtype file_dtype(Dtype dtype) { return static_cast<FileDtype>(dtype); }

std::optional<Dtype> dtype_of_file(FileDtype dtype) {
  if (is_dtype(dtype)) return static_cast<Dtype>(dtype);
  if (dtype == FileDtype::kBool) return Dtype::kUint8;
  return std::nullopt;
}

std::string checked_bytes(FileDtype dtype, std::span<const int64_t> shape,
                          size_t& bytes) {
  if (shape.size() > kMostFileExtents)
    return "a shape of " + std::to_string(shape.size()) + " extents; at most " +
           std::to_string(kMostFileExtents) + " are allowed";
  int64_t product = file_dtype_bytes(dtype);
  bool empty = false;
  for (const int64_t extent : shape) {
    if (extent < 0)
      return file_tensor_text(dtype, shape) + ": an extent is negative";
    if (extent == 0) {
      empty = true;
      continue;
    }
    if (product > std::numeric_limits<int64_t>::max() / extent)
      return file_tensor_text(dtype, shape) + " takes more than 2^63 - 1 bytes";
    product *= extent;
  }
  bytes = empty ? 0 : static_cast<size_t>(product);
  return "";
}

std::string check_tensor(const TensorToWrite& tensor) {
  size_t bytes = 0;
  if (std::string wrong = checked_bytes(tensor.dtype, tensor.shape, bytes);
      !wrong.empty())
    return wrong;
  if (tensor.data.size() == bytes) return "";
  return std::to_string(tensor.data.size()) + " bytes of data, but " +
         file_tensor_text(tensor.dtype, tensor.shape) + " takes " +
         std::to_string(bytes);
}

std::string file_tensor_text(FileDtype dtype, std::span<const int64_t> shape) {
  std::string text(file_dtype_name(dtype));
  text += " [";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::string shown(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string result = "\"";
  for (const char c : text.substr(0, kMostShown)) {
    const auto code = static_cast<unsigned char>(c);
    if (code < 0x20 || code > 0x7e) {
      result += "\\x";
      result += kDigits[code / 16];
      result += kDigits[code % 16];
      continue;
    }
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + (text.size() > kMostShown ? "...\"" : "\"");
}

}  // namespace qkvet
