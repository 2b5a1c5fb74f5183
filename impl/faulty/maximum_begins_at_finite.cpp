// SPDX-License-Identifier: Apache-2.0
// faulty/maximum_begins_at_finite: the maximum of a row begins at a finite
// number.
#include <cmath>

#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct MaximumBeginsAtFinite : OptionSeams {
  static float first_max(float sink, float) { return std::fmax(sink, -100.0f); }
};

constexpr const char* kKilledBy[] = {"agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the running maximum begins at -100",
    .symptom = "NaN, or zeros, in rows whose scores are all below that",
    .cause =
        "a number that no score was thought to reach, where -infinity gave NaN "
        "elsewhere",
    .fix = "begin at -infinity, and guard the difference of two of them",
    .source = "flashinfer-ai/flashinfer#4267",
    .trigger = "a row all of whose scores are far below -100",
    .killed_by = kKilledBy,
    .when = "",
};

}  // namespace

extern constinit const qkvet_kernel faulty_maximum_begins_at_finite =
    option_fault<MaximumBeginsAtFinite>(
        "faulty/maximum_begins_at_finite", &kFault,
        {"impl/faulty/maximum_begins_at_finite.cpp", __LINE__});

}  // namespace qkvet::impl
