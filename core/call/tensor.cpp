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
  std::array<int64_t, 4> extent{1, 1, 1, 1};
  std::array<int64_t, 4> stride{0, 0, 0, 0};
  const int lead = 4 - spec.ndim;
  for (int i = 0; i < spec.ndim; ++i) {
    extent[lead + i] = spec.shape[i];
    stride[lead + i] = spec.strides[i];
  }
  int64_t n = 0;
  for (int64_t a = 0; a < extent[0]; ++a)
    for (int64_t b = 0; b < extent[1]; ++b)
      for (int64_t c = 0; c < extent[2]; ++c) {
        const int64_t base = a * stride[0] + b * stride[1] + c * stride[2];
        for (int64_t e = 0; e < extent[3]; ++e)
          visit(n++, base + e * stride[3]);
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

int64_t TensorSpec::offset(const std::array<int64_t, 4>& index) const {
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

TensorSpec packed_spec(Dtype dtype, int ndim, std::array<int64_t, 4> shape) {
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
