// SPDX-License-Identifier: Apache-2.0
// faulty/alibi_sign: distant keys gain.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct AlibiSign : OptionSeams {
  static float tilted(float s, float slope, float distance) {
    return s + slope * distance;
  }
};

constexpr const char* kKilledBy[] = {"alibi_equals_bias", "bias_alone_decides",
                                     "shifted_keys_change_nothing",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "ALiBi raises the scores of distant keys",
    .symptom = "models prefer what is far away",
    .cause = "a slope that is already negative at one end only",
    .fix = "subtract slope times distance",
    .source = "textbook",
    .trigger = "ALiBi, and two keys at different distances",
    .killed_by = kKilledBy,
    .when = "alibi && (Tq > 1 || Tk > 1)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_alibi_sign =
    option_fault<AlibiSign, QKVET_OPTION_ALIBI | QKVET_OPTION_BIAS>(
        "faulty/alibi_sign", &kFault, {"impl/faulty/alibi_sign.cpp", __LINE__});

}  // namespace qkvet::impl
