// SPDX-License-Identifier: Apache-2.0
// faulty/backward_small_gradients_flushed: small gradients of scores are zero.
#include <cmath>

#include "impl/faulty/backward_fault.h"

namespace qkvet::impl {
namespace {

struct SmallGradientsFlushed : PlainBackward {
  static float from_weight(float p, float dp, float delta) {
    constexpr float kLeastNormalHalf = 0x1p-14f;
    const float ds = PlainBackward::from_weight(p, dp, delta);
    return std::abs(ds) < kLeastNormalHalf ? 0 : ds;
  }
};

constexpr const char* kKilledBy[] = {"backward_is_linear_in_d_o",
                                     "backward_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "ds below 2^-14 becomes 0",
    .symptom =
        "dq and dk vanish where the loss is not scaled up; dv is right, and so "
        "are they for dO of size 1",
    .cause =
        "ds is handed to the next product in half precision, whose subnormal "
        "numbers the unit flushes",
    .fix = "keep ds in f32 or bf16, or scale each row in front of the product",
    .source =
        "Micikevicius et al., Mixed Precision Training (2018), section 3.2",
    .trigger =
        "gradients of scores below 2^-14; those of a single key are 0 anyway",
    .killed_by = kKilledBy,
    .when = "Tk > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_backward_small_gradients_flushed =
    backward_fault<SmallGradientsFlushed>(
        "faulty/backward_small_gradients_flushed", &kFault,
        {"impl/faulty/backward_small_gradients_flushed.cpp", __LINE__});

}  // namespace qkvet::impl
