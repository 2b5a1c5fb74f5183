// SPDX-License-Identifier: Apache-2.0
// Loads that nothing uses, as those of surplus lanes are: what they find is
// thrown away, and only memory tells that they happened. Kernels that make them
// read behind their tensors; no other fault does.
#ifndef QKVET_IMPL_FAULTY_LANE_READS_H_
#define QKVET_IMPL_FAULTY_LANE_READS_H_

#include <cstdint>

namespace qkvet::impl {

template <class T>
void read_and_drop(const T* address) {
  static_cast<void>(*static_cast<const volatile T*>(address));
}

// Up to the next multiple of `lanes`.
inline int64_t whole_lanes(int64_t extent, int64_t lanes) {
  return (extent + lanes - 1) / lanes * lanes;
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_FAULTY_LANE_READS_H_
