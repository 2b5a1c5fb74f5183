// SPDX-License-Identifier: Apache-2.0
#include "golden/format/reshape.h"

#include <array>
#include <cstring>
#include <functional>
#include <numeric>

namespace qkvet::golden {
namespace {

int64_t product(std::span<const int64_t> extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t{1},
                         std::multiplies<>());
}

}  // namespace

NamedTensor permuted(const NamedTensor& tensor, std::span<const size_t> order) {
  const size_t rank = order.size();
  const auto width = static_cast<size_t>(file_dtype_bytes(tensor.dtype));
  NamedTensor result = {tensor.dtype, std::vector<int64_t>(rank),
                        std::vector<std::byte>(tensor.data.size())};
  // How far apart in `tensor` the neighbours along an extent of the result are.
  std::vector<int64_t> step(rank);
  for (size_t n = 0; n < rank; ++n) {
    result.shape[n] = tensor.shape[order[n]];
    step[n] = product(std::span(tensor.shape).subspan(order[n] + 1));
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
