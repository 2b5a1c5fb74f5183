// SPDX-License-Identifier: Apache-2.0
// faulty/scale_truncated_to_bf16: the scale is cut off to the bits of bf16.
#include <bit>
#include <cstdint>

#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct ScaleTruncatedToBf16 : OptionSeams {
  static float truncated(float x) {
    return std::bit_cast<float>(std::bit_cast<uint32_t>(x) & 0xffff0000u);
  }
  static float capped(const ForwardCall& call, float s) {
    return OptionSeams::capped(call, s * (truncated(call.scale) / call.scale));
  }
};

constexpr const char* kKilledBy[] = {"scale_is_one_over_sqrt_d",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the lower half of the bits of the scale is dropped",
    .symptom =
        "scores are up to 0.8 % too small: only rows whose scores differ by "
        "much show it",
    .cause =
        "the scale is packed into a register of bf16 by taking its upper half",
    .fix = "pass it in f32, or round it and declare that",
    .source = "tenstorrent/tt-metal#53217",
    .trigger = "1/sqrt(d), or the given scale, no number of 8 bits",
    .killed_by = kKilledBy,
    .when = "scale.bits > 8",
};

}  // namespace

extern constinit const qkvet_kernel faulty_scale_truncated_to_bf16 =
    option_fault<ScaleTruncatedToBf16>(
        "faulty/scale_truncated_to_bf16", &kFault,
        {"impl/faulty/scale_truncated_to_bf16.cpp", __LINE__});

}  // namespace qkvet::impl
