// SPDX-License-Identifier: Apache-2.0
// faulty/softcap_not_multiplied: half of the formula.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct SoftcapNotMultiplied : OptionSeams {
  static float capped(const ForwardCall& call, float s) {
    const float cap = call.options.softcap;
    return cap > 0 ? std::tanh(s / cap) : s;
  }
};

constexpr const char* kKilledBy[] = {"softcap_is_tanh", "agrees_with_oracle",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "tanh(s / softcap) is not multiplied by softcap",
    .symptom = "all keys weigh nearly the same",
    .cause = "half of the formula",
    .fix = "softcap * tanh(s / softcap)",
    .source = "textbook, cf. unslothai/unsloth-zoo#593",
    .trigger = "softcap other than 1",
    .killed_by = kKilledBy,
    .when = "softcap && !softcap.is_one",
};

}  // namespace

extern constinit const qkvet_kernel faulty_softcap_not_multiplied =
    option_fault<SoftcapNotMultiplied, QKVET_OPTION_SOFTCAP>(
        "faulty/softcap_not_multiplied", &kFault,
        {"impl/faulty/softcap_not_multiplied.cpp", __LINE__});

}  // namespace qkvet::impl
