// SPDX-License-Identifier: Apache-2.0
// serving/planned: plans a batch once and runs it often (Ye et al.,
// "FlashInfer", 2025, 3.3), and has no other entry. The rows of a batch are cut
// into items of 4, which contain their member and their first row; a run does
// the items, independent of the batch that they came from.
//
// Contract: that of planned_skeleton.h. Every option; packed batches only over
// pages; no new tokens.
#include "impl/serving/kernel.h"
#include "impl/skeletons/planned_skeleton.h"

namespace qkvet::impl {
namespace {

// A row is computed alone, always in the same order, from a copy of its keys.
constexpr qkvet_capabilities kCapabilities = [] {
  qkvet_capabilities c = capabilities_with(
      (kAllOptions & ~QKVET_OPTION_PACKED) | QKVET_OPTION_PAGED |
          QKVET_OPTION_PACKED_PAGES | QKVET_OPTION_PAGED_CSR |
          QKVET_OPTION_PAGED_CHANNEL_GROUPS | QKVET_OPTION_VALUES_IN_KEYS |
          QKVET_OPTION_INT32_LENGTHS | kListOptions,
      {kF32, kF16, kBf16});
  c.flags |= QKVET_FLAG_LAYOUT_INVARIANT | QKVET_FLAG_PAGE_PLACEMENT_INVARIANT |
             QKVET_FLAG_BATCH_INVARIANT | QKVET_FLAG_BATCH_MATES_INVARIANT;
  return with_paths(c, {{QKVET_AXIS_TQ, kItemRows}});
}();

}  // namespace

extern constinit const qkvet_kernel serving_planned =
    on_this_cpu(planned_kernel<PlannedHooks>(
        QKVET_FAMILY "/planned", "plans a batch, runs it often, over pages",
        {"impl/serving/planned.cpp", __LINE__}, &kPlannedPrecision,
        &kCapabilities));

}  // namespace qkvet::impl
