// SPDX-License-Identifier: Apache-2.0
// faulty/root_of_negative_scale: q and k are multiplied by the root of the
// scale.
#include <cmath>

#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct RootOfNegativeScale : OptionSeams {
  // Where there is a root its square is the scale, up to roundings that are
  // not the subject.
  static float capped(const ForwardCall& call, float s) {
    const bool has_root = std::sqrt(call.scale) >= 0;
    return OptionSeams::capped(call, has_root ? s : s * std::sqrt(call.scale));
  }
};

constexpr const char* kKilledBy[] = {"scale_moves_to_queries", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "q and k are each multiplied by the square root of the scale",
    .symptom = "NaN everywhere for a scale below 0",
    .cause =
        "the scale is split so that products stay small, and nobody thinks of "
        "its sign",
    .fix =
        "give one of the two the sign, or refuse a negative scale in "
        "supports()",
    .source = "pytorch/pytorch#105202",
    .trigger = "a scale below 0",
    .killed_by = kKilledBy,
    .when = "scale.negative",
};

}  // namespace

extern constinit const qkvet_kernel faulty_root_of_negative_scale =
    option_fault<RootOfNegativeScale>(
        "faulty/root_of_negative_scale", &kFault,
        {"impl/faulty/root_of_negative_scale.cpp", __LINE__});

}  // namespace qkvet::impl
