// SPDX-License-Identifier: Apache-2.0
// faulty/values_lose_sign: values without their sign.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct ValuesLoseSign : OptionSeams {
  static float value(float v) { return std::fabs(v); }
};

constexpr const char* kKilledBy[] = {"scaled_values_scale_output",
                                     "rows_stay_in_hull", "agrees_with_oracle",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "values are read without their sign",
    .symptom = "outputs are never negative",
    .cause = "unsigned codes read where signed ones were written",
    .fix = "read values in the type in which they were stored",
    .source = "textbook",
    .trigger = "a negative element of V that some row sees",
    .killed_by = kKilledBy,
    .when = "",
};

}  // namespace

extern constinit const qkvet_kernel faulty_values_lose_sign =
    option_fault<ValuesLoseSign>(
        "faulty/values_lose_sign", &kFault,
        {"impl/faulty/values_lose_sign.cpp", __LINE__});

}  // namespace qkvet::impl
