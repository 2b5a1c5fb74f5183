// SPDX-License-Identifier: Apache-2.0
// The memory layout of a call's tensors: that of q, k, v and o, from
// Layout::kGaps on also that of all other inputs, and stride 0 where k and v
// are shared or a mask or bias is broadcast.
#ifndef QKVET_CORE_CALL_LAYOUT_H_
#define QKVET_CORE_CALL_LAYOUT_H_

#include <optional>

#include "core/call/call.h"
#include "core/call/tensor.h"

namespace qkvet {

// A layout of tensors of any shape: also for steps of caches and for layers.
constexpr bool is_any_strides(Layout layout) {
  return layout == Layout::kGaps || layout == Layout::kApart ||
         layout == Layout::kTurned;
}

// Whether one buffer can hold q, k and v of the call: as many rows and channels
// of one type in each.
bool fit_one_block(const Shape& shape, Dtype q, Dtype kv);

// Lays out a row-major `spec`. Extents of 1 get strides that no honest kernel
// can follow, but for those that are broadcast.
void lay_out(const KernelCall& call, TensorName tensor, TensorSpec& spec);

// The dimension of which Layout::kFar puts the parts far apart: the outermost
// with several that are not the same, but never the last, so that a row stays
// in one piece. None in other layouts.
std::optional<size_t> far_dimension(const KernelCall& call, TensorName tensor,
                                    const TensorSpec& spec);

// The dimensions (bit n: number n) along which the tensor is given once and not
// for every index.
uint8_t broadcast_dimensions(const KernelCall& call, TensorName tensor);

}  // namespace qkvet

#endif  // QKVET_CORE_CALL_LAYOUT_H_
