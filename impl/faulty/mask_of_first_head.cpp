// SPDX-License-Identifier: Apache-2.0
// faulty/mask_of_first_head: one mask for all heads.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct MaskOfFirstHead : OptionSeams {
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    return OptionSeams::allows(call, {at.b, 0, at.i}, j);
  }
};

constexpr const char* kKilledBy[] = {"every_pair_is_seen_as_asked",
                                     "rows_stay_in_hull", "agrees_with_oracle",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the mask of head 0 is used for all heads",
    .symptom = "right for every mask that is broadcast over heads",
    .cause = "a stride of 0 assumed for the heads of the mask",
    .fix = "use the stride that the tensor has",
    .source = "textbook, cf. facebookresearch/xformers#813",
    .trigger = "H > 1, and a mask that differs from head to head",
    .killed_by = kKilledBy,
    .when = "mask.heads && H > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_mask_of_first_head =
    option_fault<MaskOfFirstHead, QKVET_OPTION_MASK>(
        "faulty/mask_of_first_head", &kFault,
        {"impl/faulty/mask_of_first_head.cpp", __LINE__});

}  // namespace qkvet::impl
