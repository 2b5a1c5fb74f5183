// SPDX-License-Identifier: Apache-2.0
#include "golden/format/reshape.h"

#include <array>
#include <functional>
#include <numeric>

namespace qkvet::golden {
namespace {

int64_t product(std::span<const int64_t> extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t{1},
                         std::multiplies<>());
}

}  // namespace

NamedTensor middle_swapped(const NamedTensor& tensor) {
  constexpr std::array<size_t, 4> kOrder = {0, 2, 1, 3};
  return permuted(tensor, kOrder);
}

NamedTensor heads_apart(const NamedTensor& tensor, int64_t heads) {
  NamedTensor split = tensor;
  split.shape = {tensor.shape[0], tensor.shape[1], heads,
                 tensor.shape[2] / heads};
  return middle_swapped(split);
}

NamedTensor joined(const NamedTensor& first, const NamedTensor& second,
                   size_t axis) {
  NamedTensor result = {first.dtype, first.shape, {}};
  result.shape[axis] += second.shape[axis];
  result.data.reserve(first.data.size() + second.data.size());
  const auto width = file_dtype_bytes(first.dtype);
  const auto inner = [&](const NamedTensor& part) {
    return product(std::span(part.shape).subspan(axis)) * width;
  };
  const int64_t outer = product(std::span(first.shape).first(axis));
  for (int64_t n = 0; n < outer; ++n)
    for (const NamedTensor* part : {&first, &second}) {
      const auto begin = part->data.begin() + n * inner(*part);
      result.data.insert(result.data.end(), begin, begin + inner(*part));
    }
  return result;
}

void widen(NamedTensor& tensor, size_t rank) {
  if (tensor.shape.size() < rank)
    tensor.shape.insert(tensor.shape.begin(), rank - tensor.shape.size(), 1);
}

}  // namespace qkvet::golden
