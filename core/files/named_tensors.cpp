// SPDX-License-Identifier: Apache-2.0
#include "core/files/named_tensors.h"

#include <algorithm>
#include <cstring>

#include "core/base/stored_numbers.h"

namespace qkvet {
namespace {

template <class Stored>
std::vector<double> plainly(const NamedTensor& tensor) {
  return stored_numbers<Stored>(tensor.data, [](Stored x) { return x; });
}

}  // namespace

NamedTensor named_tensor(const NpyArray& array,
                         std::span<const std::byte> file) {
  const auto data = array.tensor.data(file);
  NamedTensor tensor = {
      array.tensor.dtype, array.tensor.shape, {data.begin(), data.end()}};
  if (!array.fortran_order || tensor.shape.size() < 2) return tensor;
  // The same bytes are those of the array turned around.
  std::reverse(tensor.shape.begin(), tensor.shape.end());
  std::vector<size_t> order;
  for (size_t n = tensor.shape.size(); n-- > 0;) order.push_back(n);
  return permuted(tensor, order);
}

NamedTensors named_tensors(const NpzArrays& arrays) {
  NamedTensors tensors;
  for (const auto& [name, array] : arrays)
    tensors[name] = named_tensor(array.array, array.file);
  return tensors;
}

NamedTensors named_tensors(const Safetensors& read,
                           std::span<const std::byte> file) {
  NamedTensors tensors;
  for (const auto& [name, tensor] : read.tensors)
    tensors[name] = named_tensor({tensor, /*fortran_order=*/false}, file);
  return tensors;
}

std::optional<std::vector<std::byte>> safetensors_bytes(
    const NamedTensors& tensors, const SafetensorsMetadata& metadata,
    std::string* error) {
  std::map<std::string, TensorToWrite, std::less<>> written;
  for (const auto& [name, tensor] : tensors) written[name] = tensor.written();
  return safetensors_bytes(written, metadata, error);
}

NamedTensor permuted(const NamedTensor& tensor, std::span<const size_t> order) {
  const size_t rank = order.size();
  const auto width = static_cast<size_t>(file_dtype_bytes(tensor.dtype));
  NamedTensor result = {tensor.dtype, std::vector<int64_t>(rank),
                        std::vector<std::byte>(tensor.data.size())};
  // How far apart in `tensor` the neighbours along an extent of the result are.
  std::vector<int64_t> step(rank, 1);
  for (size_t n = 0; n < rank; ++n) {
    result.shape[n] = tensor.shape[order[n]];
    for (size_t inner = order[n] + 1; inner < rank; ++inner)
      step[n] *= tensor.shape[inner];
  }
  std::vector<int64_t> index(rank, 0);
  int64_t from = 0;
  for (size_t to = 0; to < result.data.size(); to += width) {
    std::memcpy(result.data.data() + to,
                tensor.data.data() + static_cast<size_t>(from) * width, width);
    for (size_t n = rank; n-- > 0;) {
      from += step[n];
      if (++index[n] < result.shape[n]) break;
      from -= step[n] * result.shape[n];
      index[n] = 0;
    }
  }
  return result;
}

std::vector<double> numbers_of(const NamedTensor& tensor) {
  switch (tensor.dtype) {
    case FileDtype::kF64:
      return plainly<double>(tensor);
    case FileDtype::kF32:
      return plainly<float>(tensor);
    case FileDtype::kF16:
      return stored_numbers(Dtype::kF16, tensor.data);
    case FileDtype::kBf16:
      return stored_numbers(Dtype::kBf16, tensor.data);
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

}  // namespace qkvet
