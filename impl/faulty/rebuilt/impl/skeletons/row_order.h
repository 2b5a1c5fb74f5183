// SPDX-License-Identifier: Apache-2.0
// Another arithmetic for the same hooks: keys from the last to the first, dots
// in four lanes.
#ifndef QKVET_IMPL_SKELETONS_ROW_ORDER_H_
#define QKVET_IMPL_SKELETONS_ROW_ORDER_H_

#include <cstdint>

namespace qkvet::impl {

inline constexpr int64_t kDotLanes = 4;
constexpr float sum_of_lanes(const float (&lanes)[kDotLanes]) {
  return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
}
constexpr int64_t nth_key(int64_t n, int64_t keys) { return keys - 1 - n; }

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_SKELETONS_ROW_ORDER_H_
