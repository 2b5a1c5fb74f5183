// SPDX-License-Identifier: Apache-2.0
// faulty/scale_rounded_to_bf16: the scale passes through bf16.
#include <cstring>

#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct ScaleRoundedToBf16 : OptionSeams {
  static float rounded(float x) {
    uint32_t bits = 0;
    std::memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    std::memcpy(&x, &bits, sizeof x);
    return x;
  }
  static float capped(const ForwardCall& call, float s) {
    return OptionSeams::capped(call, s * (rounded(call.scale) / call.scale));
  }
};

constexpr const char* kKilledBy[] = {"scale_is_one_over_sqrt_d",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the scale is rounded to 8 bits before it multiplies the scores",
    .symptom =
        "up to 0.4 % off in the scores: only rows whose scores differ by much"
        " show it",
    .cause = "the scale is a tensor of the storage type, or a constant of it",
    .fix = "keep the scale in f32, or declare how it is rounded",
    .source = "textbook (generated kernels)",
    .trigger = "1/sqrt(d), or the given scale, no number of 8 bits",
    .killed_by = kKilledBy,
    .when = "scale.bits > 8",
};

}  // namespace

extern constinit const qkvet_kernel faulty_scale_rounded_to_bf16 =
    option_fault<ScaleRoundedToBf16>(
        "faulty/scale_rounded_to_bf16", &kFault,
        {"impl/faulty/scale_rounded_to_bf16.cpp", __LINE__});

}  // namespace qkvet::impl
