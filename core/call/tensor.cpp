// SPDX-License-Identifier: Apache-2.0
#include "core/call/tensor.h"

#include <cstring>

namespace qkvet {
namespace {

// Large enough that one step leaves every mapping, small enough that no
// product with an extent of 1 overflows.
constexpr int64_t kAbsurdStride = int64_t{0x5add} << 32;

// Calls visit(packed element number, strided element offset) for all elements.
template <class Visit>
void for_each_element(const TensorSpec& spec, Visit visit) {
  constexpr size_t kInner = kMostRank - 1;
  Extents extent, stride{};
  extent.fill(1);
  const size_t lead = kMostRank - static_cast<size_t>(spec.ndim);
  for (size_t i = lead; i < kMostRank; ++i) {
    extent[i] = spec.shape[i - lead];
    stride[i] = spec.strides[i - lead];
  }
  if (spec.elements() == 0) return;
  // Counts like an odometer; the inner loop is its last digit.
  Extents at{};
  int64_t n = 0, base = 0;
  while (true) {
    for (int64_t e = 0; e < extent[kInner]; ++e)
      visit(n++, base + e * stride[kInner]);
    size_t wheel = kInner;
    while (wheel > 0) {
      --wheel;
      base += stride[wheel];
      if (++at[wheel] < extent[wheel]) break;
      base -= extent[wheel] * stride[wheel];
      at[wheel] = 0;
      if (wheel == 0) return;
    }
  }
}

}  // namespace

int64_t TensorSpec::elements() const {
  if (!present()) return 0;
  int64_t n = 1;
  for (int i = 0; i < ndim; ++i) n *= shape[i];
  return n;
}

int64_t TensorSpec::span() const {
  if (elements() == 0) return 0;
  int64_t last = 0;
  for (int i = 0; i < ndim; ++i) last += (shape[i] - 1) * strides[i];
  return last + 1;
}

int64_t TensorSpec::offset(const Extents& index) const {
  int64_t at = 0;
  for (int i = 0; i < ndim; ++i) at += index[i] * strides[i];
  return at;
}

bool TensorSpec::packed() const {
  int64_t expected = 1;
  for (int i = ndim - 1; i >= 0; --i) {
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

TensorSpec packed_spec(Dtype dtype, int ndim, const Extents& shape) {
  TensorSpec spec{dtype, ndim, shape, {}};
  int64_t stride = 1;
  for (int i = ndim - 1; i >= 0; --i) {
    spec.strides[i] = stride;
    stride *= shape[i];
  }
  return spec;
}

void make_unit_strides_absurd(TensorSpec& spec) {
  for (int i = 0; i < spec.ndim; ++i)
    if (spec.shape[i] == 1) spec.strides[i] = kAbsurdStride + i;
}

void scatter(const TensorSpec& spec, const std::byte* packed,
             std::byte* memory) {
  const auto size = static_cast<size_t>(dtype_bytes(spec.dtype));
  if (spec.packed()) {
    std::memcpy(memory, packed, static_cast<size_t>(spec.elements()) * size);
    return;
  }
  for_each_element(spec, [&](int64_t n, int64_t at) {
    std::memcpy(memory + static_cast<size_t>(at) * size,
                packed + static_cast<size_t>(n) * size, size);
  });
}

void gather(const TensorSpec& spec, const std::byte* memory,
            std::byte* packed) {
  const auto size = static_cast<size_t>(dtype_bytes(spec.dtype));
  if (spec.packed()) {
    std::memcpy(packed, memory, static_cast<size_t>(spec.elements()) * size);
    return;
  }
  for_each_element(spec, [&](int64_t n, int64_t at) {
    std::memcpy(packed + static_cast<size_t>(n) * size,
                memory + static_cast<size_t>(at) * size, size);
  });
}

}  // namespace qkvet
