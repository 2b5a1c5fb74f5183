// SPDX-License-Identifier: Apache-2.0
// Tensors with bytes of their own, for every file format.
#ifndef QKVET_CORE_FILES_NAMED_TENSORS_H_
#define QKVET_CORE_FILES_NAMED_TENSORS_H_

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/files/npz.h"
#include "core/files/safetensors.h"

namespace qkvet {

struct NamedTensor {
  FileDtype dtype = FileDtype::kF32;
  std::vector<int64_t> shape{};
  std::vector<std::byte> data{};  // contiguous, row-major, least byte first

  TensorToWrite written() const { return {dtype, shape, data}; }
  friend bool operator==(const NamedTensor&, const NamedTensor&) = default;
};
using NamedTensors = std::map<std::string, NamedTensor, std::less<>>;

// The data of a file in row-major order, whatever the file's order is.
NamedTensor named_tensor(const NpyArray& array,
                         std::span<const std::byte> file);
NamedTensors named_tensors(const NpzArrays& arrays);
NamedTensors named_tensors(const Safetensors& read,
                           std::span<const std::byte> file);

// The file of these tensors. On failure *error is one line.
std::optional<std::vector<std::byte>> safetensors_bytes(
    const NamedTensors& tensors, const SafetensorsMetadata& metadata,
    std::string* error);

// Extent n of the result is extent order[n] of `tensor`. The data must have the
// size that its extents require.
NamedTensor permuted(const NamedTensor& tensor, std::span<const size_t> order);

// As f64; bools and integers as their numbers.
std::vector<double> numbers_of(const NamedTensor& tensor);
// "q f32 [1, 2, 3, 4], k ...": what a file has, for messages.
std::string names_text(const NamedTensors& tensors);

}  // namespace qkvet

#endif  // QKVET_CORE_FILES_NAMED_TENSORS_H_
