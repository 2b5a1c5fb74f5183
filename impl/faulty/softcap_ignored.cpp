// SPDX-License-Identifier: Apache-2.0
// faulty/softcap_ignored: softcap changes nothing.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct SoftcapIgnored : OptionSeams {
  static float capped(const ForwardCall&, float s) { return s; }
};

constexpr const char* kKilledBy[] = {"softcap_is_tanh", "agrees_with_oracle",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "softcap is accepted and not applied",
    .symptom = "large scores take all the weight",
    .cause = "an argument that is passed on by no layer",
    .fix = "apply softcap * tanh(s / softcap), or refuse it",
    .source = "textbook, cf. unslothai/unsloth-zoo#593",
    .trigger = "softcap, and a score that is not small against it",
    .killed_by = kKilledBy,
    .when = "softcap",
};

}  // namespace

extern constinit const qkvet_kernel faulty_softcap_ignored =
    option_fault<SoftcapIgnored, QKVET_OPTION_SOFTCAP>(
        "faulty/softcap_ignored", &kFault,
        {"impl/faulty/softcap_ignored.cpp", __LINE__});

}  // namespace qkvet::impl
