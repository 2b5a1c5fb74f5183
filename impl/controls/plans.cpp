// SPDX-License-Identifier: Apache-2.0
// Correct kernels with other plans.
#include <algorithm>

#include "impl/controls/control.h"
#include "impl/skeletons/planned_skeleton.h"

namespace qkvet::impl {

// plan() and update() only store the batch; the run determines the work: single
// rows, those of the member with the most keys first, beginning with its last
// row. Nothing is claimed.
struct LazyPlan : PlannedHooks {
  static constexpr uint64_t kClaims = 0;

  static void split(const ServingCall&, WorkItems*) {}
  static const WorkItems& work(PlannedWork* work, const ServingCall& s) {
    WorkItems& items = work->items;
    items.clear();
    for (int64_t m = 0; m < s.members(); ++m) {
      for (int64_t i = served_member(s, m).queries; i > 0; --i) {
        items.push_back({m, i - 1, 1});
      }
    }
    std::stable_sort(items.begin(), items.end(),
                     [&](const WorkItem& a, const WorkItem& b) {
                       return s.held(a.member) > s.held(b.member);
                     });
    return items;
  }
};

inline constexpr qkvet_capabilities kLazyPlanCapabilities = capabilities_with(
    (kAllOptions & ~QKVET_OPTION_PACKED) | QKVET_OPTION_PAGED |
        QKVET_OPTION_PACKED_PAGES | QKVET_OPTION_PAGED_CSR,
    {kF32, kF16, kBf16});

QKVET_CONTROL(planned_lazily,
              "finds out its work in the run, the longest first",
              planned_kernel<LazyPlan>("", "", {}, &kPlannedPrecision,
                                       &kLazyPlanCapabilities));

}  // namespace qkvet::impl
