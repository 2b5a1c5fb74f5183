// SPDX-License-Identifier: Apache-2.0
// faulty/mask_overrides_causal: a mask switches the causal rule off.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct MaskOverridesCausal : OptionSeams {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    return call.options.mask.data != nullptr ||
           OptionSeams::in_reach(call, i, j);
  }
};

constexpr const char* kKilledBy[] = {
    "causal_equals_mask",    "every_pair_is_seen_as_asked",
    "every_key_counts_once", "lse_counts_equal_keys",
    "agrees_with_oracle",    nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "with a mask, the causal flag is ignored; both are declared to hold",
    .symptom = "a padding mask opens the future",
    .cause = "two branches where a conjunction is meant",
    .fix = "hide what either of them hides, or refuse the two together",
    .source = "pytorch/pytorch#187801",
    .trigger = "a mask together with the causal rule",
    .killed_by = kKilledBy,
    .when = "mask && causal",
};

}  // namespace

extern constinit const qkvet_kernel faulty_mask_overrides_causal =
    option_fault<MaskOverridesCausal, QKVET_OPTION_MASK>(
        "faulty/mask_overrides_causal", &kFault,
        {"impl/faulty/mask_overrides_causal.cpp", __LINE__});

}  // namespace qkvet::impl
