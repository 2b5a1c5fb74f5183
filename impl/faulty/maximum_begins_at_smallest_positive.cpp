// SPDX-License-Identifier: Apache-2.0
// faulty/maximum_begins_at_smallest_positive: the maximum of a row begins at
// FLT_MIN.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct MaximumBeginsAtSmallestPositive : OptionSeams {
  static float first_max(float sink, float) {
    return std::fmax(sink, std::numeric_limits<float>::min());
  }
};

constexpr const char* kKilledBy[] = {"agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the running maximum begins at the smallest positive number",
    .symptom = "NaN or lost weights in rows whose scores are all below -80",
    .cause = "FLT_MIN taken for the most negative number",
    .fix = "begin at -infinity",
    .source = "textbook (FLT_MIN)",
    .trigger = "a row all of whose scores are far below 0",
    .killed_by = kKilledBy,
    .when = "",
};

}  // namespace

extern constinit const qkvet_kernel faulty_maximum_begins_at_smallest_positive =
    option_fault<MaximumBeginsAtSmallestPositive>(
        "faulty/maximum_begins_at_smallest_positive", &kFault,
        {"impl/faulty/maximum_begins_at_smallest_positive.cpp", __LINE__});

}  // namespace qkvet::impl
