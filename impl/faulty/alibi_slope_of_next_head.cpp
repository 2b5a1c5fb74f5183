// SPDX-License-Identifier: Apache-2.0
// faulty/alibi_slope_of_next_head: every slope is halved.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct AlibiSlopeOfNextHead : OptionSeams {
  static float tilted(float s, float slope, float distance) {
    return OptionSeams::tilted(s, slope / 2, distance);
  }
};

constexpr const char* kKilledBy[] = {"alibi_equals_bias", "bias_alone_decides",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "every head has the slope of the next exponent, half of its own",
    .symptom = "distant keys weigh too much, in all heads alike",
    .cause =
        "exponents counted from 1 where the table counts from 0, or the other"
        " way round",
    .fix = "slope h is the one that is given for head h",
    .source = "textbook (ALiBi slopes)",
    .trigger =
        "ALiBi with a slope other than 0, and two keys at different distances",
    .killed_by = kKilledBy,
    .when = "alibi && (Tq > 1 || Tk > 1)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_alibi_slope_of_next_head =
    option_fault<AlibiSlopeOfNextHead, QKVET_OPTION_ALIBI | QKVET_OPTION_BIAS>(
        "faulty/alibi_slope_of_next_head", &kFault,
        {"impl/faulty/alibi_slope_of_next_head.cpp", __LINE__});

}  // namespace qkvet::impl
