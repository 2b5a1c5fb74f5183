// SPDX-License-Identifier: Apache-2.0
// Other extents and another order for the elements of a tensor.
#ifndef QKVET_GOLDEN_FORMAT_RESHAPE_H_
#define QKVET_GOLDEN_FORMAT_RESHAPE_H_

#include <cstdint>
#include <span>
#include <string>

#include "core/files/named_tensors.h"

namespace qkvet::golden {

// [A,B,C,D] as [A,C,B,D].
NamedTensor middle_swapped(const NamedTensor& tensor);

// [B,T,H*d] as [B,H,T,d]. `tensor` has three extents, and `heads` divides the
// last of them.
NamedTensor heads_apart(const NamedTensor& tensor, int64_t heads);

// Along extent `axis`: `first` before `second`, which has the same type and the
// same other extents.
NamedTensor joined(const NamedTensor& first, const NamedTensor& second,
                   size_t axis);

// Extents of 1 in front, as NumPy broadcasts, until there are `rank`.
void widen(NamedTensor& tensor, size_t rank);

}  // namespace qkvet::golden

#endif  // QKVET_GOLDEN_FORMAT_RESHAPE_H_
