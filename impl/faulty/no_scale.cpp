// SPDX-License-Identifier: Apache-2.0
// faulty/no_scale: bare q k^T, whatever the scale should be.
#include "impl/faulty/seams.h"

namespace qkvet::impl {
namespace {

struct NoScale : PlainSeams {
  static float scale(const ForwardCall&) { return 1; }
};

constexpr const char* kKilledBy[] = {"scale_is_one_over_sqrt_d",
                                     "scale_moves_to_queries",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the scores are not scaled",
    .symptom = "the softmax is too sharp and its gradients vanish",
    .cause = "the division by sqrt(d) is missing",
    .fix = "multiply q k^T by the given scale, or by 1/sqrt(d)",
    .source = "textbook",
    .trigger = "the scale is not 1",
    .killed_by = kKilledBy,
    .when = "!scale.is_one",
};

}  // namespace

extern constinit const qkvet_kernel faulty_no_scale = faulty_kernel<NoScale>(
    "faulty/no_scale", &kFault, {"impl/faulty/no_scale.cpp", __LINE__});

}  // namespace qkvet::impl
