// SPDX-License-Identifier: Apache-2.0
// faulty/mask_of_first_member: one mask for all members.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct MaskOfFirstMember : OptionSeams {
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    return OptionSeams::allows(call, {0, at.h, at.i}, j);
  }
};

constexpr const char* kKilledBy[] = {"every_pair_is_seen_as_asked",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the mask of member 0 is used for all members",
    .symptom = "right for every mask that is broadcast over the batch",
    .cause = "the batch index missing from the address of the mask",
    .fix = "use the stride that the tensor has",
    .source = "textbook, cf. facebookresearch/xformers#813",
    .trigger = "B > 1, and a mask that differs from member to member",
    .killed_by = kKilledBy,
    .when = "mask.members && B > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_mask_of_first_member =
    option_fault<MaskOfFirstMember, QKVET_OPTION_MASK>(
        "faulty/mask_of_first_member", &kFault,
        {"impl/faulty/mask_of_first_member.cpp", __LINE__});

}  // namespace qkvet::impl
