// SPDX-License-Identifier: Apache-2.0
// faulty/empty_lse_claimed_minus_inf: lse 0 where -infinity is declared.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct EmptyLseClaimedMinusInf : OptionSeams {
  static float empty_lse() { return 0; }
};

constexpr const char* kKilledBy[] = {"rows_without_a_key_follow_the_dialect",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "lse of a row without a key is 0, and declared to be -infinity",
    .symptom = "a merge gives the empty part the weight of a key with score 0",
    .cause = "lse initialised to 0 and left there",
    .fix = "write -infinity",
    .source = "textbook, cf. Dao-AILab/flash-attention#978",
    .trigger = "a row that the mask hides altogether, and lse is asked for",
    .killed_by = kKilledBy,
    .when = "lse && rows(seen == 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_empty_lse_claimed_minus_inf =
    option_fault<EmptyLseClaimedMinusInf, QKVET_OPTION_MASK>(
        "faulty/empty_lse_claimed_minus_inf", &kFault,
        {"impl/faulty/empty_lse_claimed_minus_inf.cpp", __LINE__});

}  // namespace qkvet::impl
