// SPDX-License-Identifier: Apache-2.0
// faulty/alibi_distance_signed: later keys have a negative distance.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct AlibiDistanceSigned : OptionSeams {
  static float distance(const ForwardCall& call, int64_t i, int64_t j) {
    return static_cast<float>(call.position(i) - j);
  }
};

constexpr const char* kKilledBy[] = {"bias_alone_decides", "agrees_with_oracle",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "ALiBi takes position - key for the distance, negative for later keys",
    .symptom = "without the causal rule, the later a key the more it weighs",
    .cause = "code written for causal models",
    .fix = "take the absolute value",
    .source = "textbook",
    .trigger = "ALiBi without the causal rule",
    .killed_by = kKilledBy,
    .when = "alibi && !causal && Tq > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_alibi_distance_signed =
    option_fault<AlibiDistanceSigned, QKVET_OPTION_ALIBI>(
        "faulty/alibi_distance_signed", &kFault,
        {"impl/faulty/alibi_distance_signed.cpp", __LINE__});

}  // namespace qkvet::impl
