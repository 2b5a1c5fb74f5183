// SPDX-License-Identifier: Apache-2.0
#include "golden/format/named_tensors.h"

#include <cstring>

#include "core/base/half.h"

namespace qkvet::golden {
namespace {

template <class Stored, class Convert>
std::vector<double> converted(const NamedTensor& tensor, Convert convert) {
  std::vector<double> numbers(tensor.data.size() / sizeof(Stored));
  const std::byte* at = tensor.data.data();
  for (double& number : numbers) {
    Stored stored;
    std::memcpy(&stored, at, sizeof stored);
    number = convert(stored);
    at += sizeof stored;
  }
  return numbers;
}

template <class Stored>
std::vector<double> plainly(const NamedTensor& tensor) {
  return converted<Stored>(
      tensor, [](Stored stored) { return static_cast<double>(stored); });
}

}  // namespace

std::vector<double> numbers_of(const NamedTensor& tensor) {
  switch (tensor.dtype) {
    case FileDtype::kF64:
      return plainly<double>(tensor);
    case FileDtype::kF32:
      return plainly<float>(tensor);
    case FileDtype::kF16:
      return converted<uint16_t>(tensor, f16_to_double);
    case FileDtype::kBf16:
      return converted<uint16_t>(tensor, bf16_to_double);
    case FileDtype::kInt8:
      return plainly<int8_t>(tensor);
    case FileDtype::kInt64:
      return plainly<int64_t>(tensor);
    case FileDtype::kInt32:
      return plainly<int32_t>(tensor);
    case FileDtype::kUint16:
      return plainly<uint16_t>(tensor);
    case FileDtype::kInt16:
      return plainly<int16_t>(tensor);
    case FileDtype::kUint32:
      return plainly<uint32_t>(tensor);
    case FileDtype::kUint64:
      return plainly<uint64_t>(tensor);
    default:  // codes of fp8 are as good as bytes here
      return plainly<uint8_t>(tensor);
  }
}

std::string names_text(const NamedTensors& tensors) {
  constexpr size_t kMostNamed = 12;
  std::string text;
  size_t n = 0;
  for (const auto& [name, tensor] : tensors) {
    if (n++ == kMostNamed) return text + ", ...";
    std::string quoted = shown(name);
    text += (text.empty() ? "" : ", ") + quoted.substr(1, quoted.size() - 2) +
            " " + file_tensor_text(tensor.dtype, tensor.shape);
  }
  return text.empty() ? "none" : text;
}

}  // namespace qkvet::golden
