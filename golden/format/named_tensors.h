// SPDX-License-Identifier: Apache-2.0
// Tensors by name, as files have them, with bytes of their own.
#ifndef QKVET_GOLDEN_FORMAT_NAMED_TENSORS_H_
#define QKVET_GOLDEN_FORMAT_NAMED_TENSORS_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "core/base/floors.h"
#include "core/files/file_tensor.h"

namespace qkvet::golden {

struct NamedTensor {
  FileDtype dtype = FileDtype::kF32;
  std::vector<int64_t> shape;
  std::vector<std::byte> data;  // contiguous, row-major, least byte first
};
using NamedTensors = std::map<std::string, NamedTensor, std::less<>>;

// As f64; bools and integers as their numbers.
std::vector<double> numbers_of(const NamedTensor& tensor);
// "q f32 [1, 2, 3, 4], k ...": what a file has, for messages.
std::string names_text(const NamedTensors& tensors);

}  // namespace qkvet::golden

#endif  // QKVET_GOLDEN_FORMAT_NAMED_TENSORS_H_
