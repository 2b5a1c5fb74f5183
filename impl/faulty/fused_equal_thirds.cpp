// SPDX-License-Identifier: Apache-2.0
// faulty/fused_equal_thirds: a fused matrix is cut into three equal parts.
#include <algorithm>

#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

struct FusedEqualThirds : PlainLayer {
  static void fuse(LayerCall* call) {
    const int64_t columns = call->w_qkv.columns;
    const char* part = parts_in_order(call->fused);
    for (int64_t n = 0; n < 3; ++n) {
      Projection* const to = part[n] == 'q'   ? &call->w_q
                             : part[n] == 'k' ? &call->w_k
                                              : &call->w_v;
      // The last one is moved back into the matrix.
      take_part(*call, std::min(n * (columns / 3), columns - to->columns), to);
    }
  }
};

constexpr const char* kKilledBy[] = {"fused_equals_separate",
                                     "layer_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the parts of w_qkv begin at its thirds, though K and V are narrower",
    .symptom =
        "right for as many key heads as query heads; with grouped heads K and "
        "V are made of columns of Q and of each other",
    .cause =
        "the split is written for multi-head attention, as chunk(3), and a "
        "model with grouped heads is loaded",
    .fix = "split at H d and H d + Hkv d, and compare the sum with the columns",
    .source = "vllm-project/vllm#13686",
    .trigger = "fused projections whose parts differ in width",
    .killed_by = kKilledBy,
    .when = "fused != none && (H > Hkv || dv != d)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_fused_equal_thirds =
    faulty_layer<FusedEqualThirds>(
        "faulty/fused_equal_thirds", &kFault,
        {"impl/faulty/fused_equal_thirds.cpp", __LINE__});

}  // namespace qkvet::impl
