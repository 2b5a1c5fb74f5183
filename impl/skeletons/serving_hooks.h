// SPDX-License-Identifier: Apache-2.0
// Faults of kernels that serve: the skeleton of
// impl/skeletons/serving_skeleton.h with the plainest arithmetic and one
// replaced hook. f32 only.
//
// Contract: that of serving_skeleton.h; a fault also stays in its tensors.
#ifndef QKVET_IMPL_SKELETONS_SERVING_HOOKS_H_
#define QKVET_IMPL_SKELETONS_SERVING_HOOKS_H_

#include <cstdint>

#include "impl/skeletons/plain_row.h"
#include "impl/skeletons/serving_skeleton.h"

namespace qkvet::impl {

inline bool inside(const ServingCall& s, Slot slot) {
  return s.page_size == 0 || (0 <= slot.block && slot.block < s.pages);
}

// Whether the call has a slot for a token, even one that the member does not
// own.
inline bool has_slot(const ServingCall& s, int64_t b, int64_t token) {
  if (s.page_size == 0) {
    return token < s.call.keys;
  }
  const int64_t page = token / s.page_size;
  const bool listed =
      s.csr() ? s.first_page(b) + page < s.entries : page < s.columns;
  return listed && inside(s, s.slot(b, token));
}

inline void clear(const ServingCall& s, Slot slot) {
  for (int64_t h = 0; h < s.call.kv_heads; ++h) {
    for (int64_t c = 0; c < s.call.width; ++c) {
      store(s.k.type, s.k.data, s.key_at(h, slot, c), 0);
    }
    for (int64_t c = 0; c < s.call.value_width; ++c) {
      s.v.set(slot.block, h, slot.row, c, 0);
    }
  }
}

inline constexpr qkvet_precision kServingHooksPrecision = sequential_f32();
inline constexpr qkvet_capabilities kServingHooksCapabilities =
    capabilities_with(kCommonOptions | kServingOptions, {kF32});

// Capabilities for faults in lists of keys over pages.
inline constexpr qkvet_capabilities kServingListCapabilities =
    capabilities_with(kCommonOptions | kServingOptions | kListOptions |
                          QKVET_OPTION_MASK | QKVET_OPTION_PAGED_CSR |
                          QKVET_OPTION_PACKED_PAGES,
                      {kF32});

// Capabilities for faults in pages of keys in groups of channels.
inline constexpr qkvet_capabilities kServingGroupCapabilities =
    capabilities_with(
        kCommonOptions | kServingOptions | QKVET_OPTION_PAGED_CHANNEL_GROUPS,
        {kF32, kF16, kBf16});

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_SKELETONS_SERVING_HOOKS_H_
