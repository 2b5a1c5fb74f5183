// SPDX-License-Identifier: Apache-2.0
// faulty/mask_keeps_one: a mask adds 1 to what it shows.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct MaskKeepsOne : OptionSeams {
  static float biased(const ForwardCall& call, RowAt at, int64_t j, float s) {
    return OptionSeams::biased(call, at, j, s) +
           (call.options.mask.data != nullptr ? 1.0f : 0.0f);
  }
};

constexpr const char* kKilledBy[] = {"causal_equals_mask",
                                     "lse_counts_equal_keys",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "shown keys get a score higher by 1",
    .symptom =
        "outputs are right, lse is higher by 1: merging with another part is "
        "wrong",
    .cause =
        "a mask of 1 and 0 is added to the scores, after the 0 was turned to "
        "-inf",
    .fix = "add 0 where a key is shown",
    .source = "textbook (masks as numbers)",
    .trigger = "a mask; only lse shows it",
    .killed_by = kKilledBy,
    .when = "mask",
};

}  // namespace

extern constinit const qkvet_kernel faulty_mask_keeps_one =
    option_fault<MaskKeepsOne, QKVET_OPTION_MASK>(
        "faulty/mask_keeps_one", &kFault,
        {"impl/faulty/mask_keeps_one.cpp", __LINE__});

}  // namespace qkvet::impl
