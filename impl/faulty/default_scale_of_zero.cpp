// SPDX-License-Identifier: Apache-2.0
// faulty/default_scale_of_zero: the number that stands for the default scale
// is multiplied with.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct DefaultScaleOfZero : OptionSeams {
  static float capped(const ForwardCall& call, float s) {
    return OptionSeams::capped(call, call.scale_given ? s : s * 0);
  }
};

constexpr const char* kKilledBy[] = {"scale_is_one_over_sqrt_d",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "where no scale is given, scores are multiplied by the 0 that says so",
    .symptom =
        "without a scale every output is the mean of the values; with one all "
        "is well",
    .cause =
        "0 means the default in the arguments, and one path takes it for the "
        "scale itself",
    .fix = "replace it by 1/sqrt(d) before anything branches",
    .source = "SKaiNET-developers/SKaiNET#880",
    .trigger =
        "no scale is given, and a row sees two keys, or lse is asked for",
    .killed_by = kKilledBy,
    .when = "!scale.given && (rows(seen > 1) || (lse && rows(seen == 1)))",
};

}  // namespace

extern constinit const qkvet_kernel faulty_default_scale_of_zero =
    option_fault<DefaultScaleOfZero>(
        "faulty/default_scale_of_zero", &kFault,
        {"impl/faulty/default_scale_of_zero.cpp", __LINE__});

}  // namespace qkvet::impl
