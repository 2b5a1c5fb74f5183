// SPDX-License-Identifier: Apache-2.0
// faulty/empty_lse_plus_inf: lse of a row without a key is plus infinity.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct EmptyLsePlusInf : OptionSeams {
  static float empty_lse() { return -kNone; }
};

constexpr const char* kKilledBy[] = {"rows_without_a_key_follow_the_dialect",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "lse of a row without a key is +infinity, and declared to be -infinity",
    .symptom =
        "a merge with such a part is NaN, or the part outweighs all others",
    .cause =
        "a value that suited the backward pass, where exp(score - lse) has to "
        "be 0",
    .fix =
        "-infinity for who merges; turn it round where the backward pass needs "
        "that",
    .source = "Dao-AILab/flash-attention#978",
    .trigger = "a row that the mask hides altogether, and lse is asked for",
    .killed_by = kKilledBy,
    .when = "lse && rows(seen == 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_empty_lse_plus_inf =
    option_fault<EmptyLsePlusInf, QKVET_OPTION_MASK>(
        "faulty/empty_lse_plus_inf", &kFault,
        {"impl/faulty/empty_lse_plus_inf.cpp", __LINE__});

}  // namespace qkvet::impl
