// SPDX-License-Identifier: Apache-2.0
// faulty/keys_of_first_member: the batch index does not reach k and v.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct KeysOfFirstMember : OptionSeams {
  static RowAt kv_head(const ForwardCall& call, RowAt at) {
    return {0, at.h / call.group(), 0};
  }
};

constexpr const char* kKilledBy[] = {"other_members_change_nothing",
                                     "nan_stays_in_its_head",
                                     "permuted_members_permute_output",
                                     "rows_stay_in_hull",
                                     "agrees_with_oracle",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "all batch members read keys and values of the first",
    .symptom =
        "every member but the first answers from the context of the first",
    .cause = "the batch index missing from the address of k and v",
    .fix = "k + b * stride of the batch, as for q",
    .source = "flashinfer-ai/flashinfer#3801",
    .trigger = "B > 1",
    .killed_by = kKilledBy,
    .when = "B > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_keys_of_first_member =
    option_fault<KeysOfFirstMember>(
        "faulty/keys_of_first_member", &kFault,
        {"impl/faulty/keys_of_first_member.cpp", __LINE__});

}  // namespace qkvet::impl
