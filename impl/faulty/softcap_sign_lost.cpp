// SPDX-License-Identifier: Apache-2.0
// faulty/softcap_sign_lost: scores under softcap lose their sign.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct SoftcapSignLost : OptionSeams {
  static float capped(const ForwardCall& call, float s) {
    return call.options.softcap > 0 ? OptionSeams::capped(call, std::fabs(s))
                                    : s;
  }
};

constexpr const char* kKilledBy[] = {"softcap_is_tanh", "agrees_with_oracle",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "softcap gives the size of a score without its sign",
    .symptom = "the keys that fit worst weigh as much as the best ones",
    .cause = "a tanh out of exp(-2 |x|) whose sign is not put back",
    .fix = "copy the sign of the score",
    .source = "textbook",
    .trigger = "softcap, and a negative score",
    .killed_by = kKilledBy,
    .when = "softcap",
};

}  // namespace

extern constinit const qkvet_kernel faulty_softcap_sign_lost =
    option_fault<SoftcapSignLost, QKVET_OPTION_SOFTCAP>(
        "faulty/softcap_sign_lost", &kFault,
        {"impl/faulty/softcap_sign_lost.cpp", __LINE__});

}  // namespace qkvet::impl
