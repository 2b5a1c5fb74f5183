// SPDX-License-Identifier: Apache-2.0
// faulty/empty_row_is_mean: a row that sees nothing is the mean of all values.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct EmptyRowIsMean : OptionSeams {
  static float empty_row(const ForwardCall& call, RowAt at, int64_t c) {
    const RowAt kv = kv_head(call, at);
    float sum = 0;
    for (int64_t j = 0; j < call.keys; ++j) {
      sum += call.v.at(kv.b, kv.h, j)[c * call.v.step[3]];
    }
    return sum / static_cast<float>(call.keys);
  }
};

constexpr const char* kKilledBy[] = {"rows_without_a_key_follow_the_dialect",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "a row that sees nothing is the mean of all values, and declared to be "
        "0",
    .symptom = "padding rows carry a mixture of what they were not to see",
    .cause =
        "hidden scores are one large negative number, and their maximum is "
        "subtracted from it",
    .fix =
        "hide with -infinity and test for rows that see nothing, or declare "
        "the mean",
    .source = "pytorch/pytorch#110213, pytorch/pytorch#109517",
    .trigger = "a row that the mask hides altogether",
    .killed_by = kKilledBy,
    .when = "rows(seen == 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_empty_row_is_mean =
    option_fault<EmptyRowIsMean, QKVET_OPTION_MASK>(
        "faulty/empty_row_is_mean", &kFault,
        {"impl/faulty/empty_row_is_mean.cpp", __LINE__});

}  // namespace qkvet::impl
