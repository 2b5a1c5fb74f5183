// SPDX-License-Identifier: Apache-2.0
// The order of the sums of option_rows.h: one lane, keys ascending. The family
// `rebuilt` has another (impl/faulty/rebuilt/).
#ifndef QKVET_IMPL_SKELETONS_ROW_ORDER_H_
#define QKVET_IMPL_SKELETONS_ROW_ORDER_H_

#include <cstdint>

namespace qkvet::impl {

inline constexpr int64_t kDotLanes = 1;
constexpr float sum_of_lanes(const float (&lanes)[kDotLanes]) {
  return lanes[0];
}
constexpr int64_t nth_key(int64_t n, int64_t /*keys*/) { return n; }

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_SKELETONS_ROW_ORDER_H_
