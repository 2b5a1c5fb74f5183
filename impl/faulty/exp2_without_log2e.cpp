// SPDX-License-Identifier: Apache-2.0
// faulty/exp2_without_log2e: 2^x in place of e^x.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct Exp2WithoutLog2e : OptionSeams {
  static float capped(const ForwardCall& call, float s) {
    constexpr float kLn2 = 0.693147181f;
    return OptionSeams::capped(call, s) * kLn2;
  }
};

constexpr const char* kKilledBy[] = {"scale_is_one_over_sqrt_d",
                                     "shifted_keys_change_nothing",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "exponentials to the base 2 of scores that were not multiplied by "
        "log2(e)",
    .symptom =
        "weights are flatter than they should be, as with a scale that is 31 "
        "% too small",
    .cause = "exp2 is faster, and its factor belongs into the scale",
    .fix = "scale = log2(e)/sqrt(d) where exp2 is used",
    .source = "textbook (base-2 softmax)",
    .trigger = "two keys with different scores",
    .killed_by = kKilledBy,
    .when = "rows(seen > 1) || lse && rows(seen > 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_exp2_without_log2e =
    option_fault<Exp2WithoutLog2e>(
        "faulty/exp2_without_log2e", &kFault,
        {"impl/faulty/exp2_without_log2e.cpp", __LINE__});

}  // namespace qkvet::impl
