// SPDX-License-Identifier: Apache-2.0
// faulty/empty_row_claimed_zero: NaN where 0 is declared.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct EmptyRowClaimedZero : OptionSeams {
  static float empty_row(const ForwardCall&, RowAt, int64_t) {
    return std::numeric_limits<float>::quiet_NaN();
  }
};

constexpr const char* kKilledBy[] = {"rows_without_a_key_follow_the_dialect",
                                     "empty_extents_are_legal",
                                     "weights_sum_to_one",
                                     "every_key_counts_once",
                                     "agrees_with_oracle",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "a row without a key is NaN, and declared to be 0",
    .symptom = "NaN out of padding rows, and from there everywhere",
    .cause = "0 / 0, or the difference of two infinities",
    .fix = "write 0 where the sum is 0, or declare NaN",
    .source = "pytorch/pytorch#103749",
    .trigger = "a row that the mask hides altogether",
    .killed_by = kKilledBy,
    .when = "rows(seen == 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_empty_row_claimed_zero =
    option_fault<EmptyRowClaimedZero,
                 QKVET_OPTION_MASK | QKVET_OPTION_EMPTY_EXTENTS>(
        "faulty/empty_row_claimed_zero", &kFault,
        {"impl/faulty/empty_row_claimed_zero.cpp", __LINE__});

}  // namespace qkvet::impl
