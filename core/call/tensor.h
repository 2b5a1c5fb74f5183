// SPDX-License-Identifier: Apache-2.0
// Strided tensors: the place of element (i0, i1, ...), and copies between
// packed (logical, row-major) data and strided memory.
#ifndef QKVET_CORE_CALL_TENSOR_H_
#define QKVET_CORE_CALL_TENSOR_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/base/dtype.h"

namespace qkvet {

inline constexpr size_t kMostRank = 5;
// One number for each dimension of a tensor.
using Extents = std::array<int64_t, kMostRank>;

struct TensorSpec {
  Dtype dtype = Dtype::kF32;
  int ndim = 0;       // 0: absent; at most kMostRank
  Extents shape{};    // the first ndim count
  Extents strides{};  // in elements, >= 0

  bool present() const { return ndim > 0; }
  int64_t elements() const;
  // Elements from the first to one past the last that the tensor touches; 0
  // for an empty tensor. Strides of extent-1 dimensions do not count.
  int64_t span() const;
  int64_t span_bytes() const { return span() * dtype_bytes(dtype); }
  int64_t offset(const Extents& index) const;
  // True if the elements fill the span without a gap, in row-major order.
  bool packed() const;
};

// Row-major strides.
TensorSpec packed_spec(Dtype dtype, int ndim, const Extents& shape);

// Gives every dimension of extent 1 a stride that no honest kernel can follow.
// No element moves: the index along such a dimension is always 0.
void make_unit_strides_absurd(TensorSpec& spec);

// Copies between contiguous, row-major data and the strided memory of `spec`.
void scatter(const TensorSpec& spec, const std::byte* packed,
             std::byte* memory);
void gather(const TensorSpec& spec, const std::byte* memory, std::byte* packed);

}  // namespace qkvet

#endif  // QKVET_CORE_CALL_TENSOR_H_
