// SPDX-License-Identifier: Apache-2.0
// faulty/sqrt_model_width: the default scale is 1/sqrt(H d), the width of the
// model, where 1/sqrt(d), the width of a head, is right. A scale that is given
// is used.
#include "impl/faulty/seams.h"

namespace qkvet::impl {
namespace {

struct SqrtModelWidth : PlainSeams {
  static float scale(const ForwardCall& call) {
    return call.scale_given ? call.scale
                            : default_scale(call.heads * call.width);
  }
};

constexpr const char* kKilledBy[] = {"scale_is_one_over_sqrt_d",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the default scale is 1/sqrt(H * d), for 1/sqrt(d)",
    .symptom = "the softmax is too flat, the more so the more heads there are",
    .cause = "the model width D was taken for the width of a head",
    .fix = "divide by sqrt(d), d = D / H",
    .source = "textbook",
    .trigger = "the scale is left to the kernel and H > 1",
    .killed_by = kKilledBy,
    .when = "!scale.given && H > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_sqrt_model_width =
    faulty_kernel<SqrtModelWidth>(
        "faulty/sqrt_model_width", &kFault,
        {"impl/faulty/sqrt_model_width.cpp", __LINE__});

}  // namespace qkvet::impl
