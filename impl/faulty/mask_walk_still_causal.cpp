// SPDX-License-Identifier: Apache-2.0
// faulty/mask_walk_still_causal: a mask is walked only up to the diagonal.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct MaskWalkStillCausal : OptionSeams {
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    return OptionSeams::allows(call, at, j) &&
           (call.options.mask.data == nullptr || j <= call.position(at.i));
  }
};

constexpr const char* kKilledBy[] = {"lse_counts_equal_keys",
                                     "every_pair_is_seen_as_asked",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "with a mask the loop over keys still ends at the diagonal",
    .symptom = "keys behind the diagonal that the mask shows are never seen",
    .cause = "the loop bound of the causal path was kept when masks came",
    .fix = "go over all keys that the mask may show",
    .source = "textbook (loop bounds of a causal kernel)",
    .trigger =
        "a mask, no causal rule, and a key behind the diagonal that the mask "
        "shows",
    .killed_by = kKilledBy,
    .when = "mask && !causal && Tq > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_mask_walk_still_causal =
    option_fault<MaskWalkStillCausal, QKVET_OPTION_MASK>(
        "faulty/mask_walk_still_causal", &kFault,
        {"impl/faulty/mask_walk_still_causal.cpp", __LINE__});

}  // namespace qkvet::impl
