// SPDX-License-Identifier: Apache-2.0
// faulty/values_saturate: large values are cut off.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct ValuesSaturate : OptionSeams {
  static float value(float v) { return std::fmin(std::fmax(v, -4.0f), 4.0f); }
};

constexpr const char* kKilledBy[] = {"scaled_values_scale_output",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "values beyond 4 are cut off at 4, as on the way into a narrow type",
    .symptom = "outliers in V are flattened, everything else is right",
    .cause = "values quantised with a fixed range",
    .fix = "scale by the largest value of the block, or keep the type",
    .source = "textbook, cf. InternLM/lmdeploy#4849",
    .trigger = "an element of V beyond 4 that some row sees",
    .killed_by = kKilledBy,
    .when = "",
};

}  // namespace

extern constinit const qkvet_kernel faulty_values_saturate =
    option_fault<ValuesSaturate>("faulty/values_saturate", &kFault,
                                 {"impl/faulty/values_saturate.cpp", __LINE__});

}  // namespace qkvet::impl
