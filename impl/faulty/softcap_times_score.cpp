// SPDX-License-Identifier: Apache-2.0
// faulty/softcap_times_score: the tanh is multiplied with the score.
#include <cmath>

#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct SoftcapTimesScore : OptionSeams {
  static float capped(const ForwardCall& call, float s) {
    const float cap = call.options.softcap;
    return cap > 0 ? s * std::tanh(s / cap) : s;
  }
};

constexpr const char* kKilledBy[] = {"softcap_is_tanh", "agrees_with_oracle",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the tanh of score / cap is multiplied with the score where it should "
        "be with the cap",
    .symptom =
        "small scores nearly vanish, large ones are not capped, and all lose "
        "their sign",
    .cause =
        "the score is overwritten in place, and the wrong one of two operands "
        "with it",
    .fix = "cap * tanh(score / cap)",
    .source = "unslothai/unsloth-zoo#593",
    .trigger = "a softcap, and a score other than 0",
    .killed_by = kKilledBy,
    .when = "softcap",
};

}  // namespace

extern constinit const qkvet_kernel faulty_softcap_times_score =
    option_fault<SoftcapTimesScore, QKVET_OPTION_SOFTCAP>(
        "faulty/softcap_times_score", &kFault,
        {"impl/faulty/softcap_times_score.cpp", __LINE__});

}  // namespace qkvet::impl
