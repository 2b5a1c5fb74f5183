// SPDX-License-Identifier: Apache-2.0
// faulty/scale_twice: q is scaled, and the scores are scaled again.
#include "impl/faulty/seams.h"

namespace qkvet::impl {
namespace {

struct ScaleTwice : PlainSeams {
  static float scale(const ForwardCall& call) {
    return call.scale * call.scale;
  }
};

constexpr const char* kKilledBy[] = {"scale_is_one_over_sqrt_d",
                                     "scale_moves_to_queries",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the scale is applied twice",
    .symptom = "the softmax is too flat, the more so the wider the heads",
    .cause =
        "the caller or an earlier step already scaled q, and the kernel scales "
        "the scores",
    .fix = "scale once: q, or the scores, not both",
    .source = "textbook",
    .trigger = "the scale is neither 1 nor 0",
    .killed_by = kKilledBy,
    .when = "!scale.is_one",
};

}  // namespace

extern constinit const qkvet_kernel faulty_scale_twice =
    faulty_kernel<ScaleTwice>("faulty/scale_twice", &kFault,
                              {"impl/faulty/scale_twice.cpp", __LINE__});

}  // namespace qkvet::impl
