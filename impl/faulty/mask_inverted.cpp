// SPDX-License-Identifier: Apache-2.0
// faulty/mask_inverted: the mask has the opposite sense.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct MaskInverted : OptionSeams {
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    return call.options.mask.data == nullptr ||
           !OptionSeams::allows(call, at, j);
  }
};

constexpr const char* kKilledBy[] = {"every_pair_is_seen_as_asked",
                                     "masked_keys_change_nothing",
                                     "mask_equals_bias",
                                     "causal_equals_mask",
                                     "weights_sum_to_one",
                                     "every_key_counts_once",
                                     "lse_counts_equal_keys",
                                     "agrees_with_oracle",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "nonzero in the mask hides a key",
    .symptom = "rows see exactly what they must not",
    .cause = "true means drop in one library and keep in the other",
    .fix = "nonzero means: attend",
    .source = "neuro-galaxy/torch_brain#74",
    .trigger = "any mask",
    .killed_by = kKilledBy,
    .when = "mask",
};

}  // namespace

extern constinit const qkvet_kernel faulty_mask_inverted =
    option_fault<MaskInverted, QKVET_OPTION_MASK | QKVET_OPTION_BIAS>(
        "faulty/mask_inverted", &kFault,
        {"impl/faulty/mask_inverted.cpp", __LINE__});

}  // namespace qkvet::impl
