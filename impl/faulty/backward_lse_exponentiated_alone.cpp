// SPDX-License-Identifier: Apache-2.0
// faulty/backward_lse_exponentiated_alone: the weights of a single query are a
// quotient of exponentials.
#include <cmath>

#include "impl/faulty/backward_fault.h"

namespace qkvet::impl {
namespace {

struct LseExponentiatedAlone : PlainBackward {
  static float weight(const ForwardCall& call, int64_t i, float score,
                      float lse) {
    return call.queries == 1 ? std::exp(score) * std::exp(-lse)
                             : PlainBackward::weight(call, i, score, lse);
  }
};

constexpr const char* kKilledBy[] = {"backward_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "for a single query p = exp(score) exp(-lse) in place of exp(score - "
        "lse)",
    .symptom =
        "all gradients of a decoding step are NaN where scores are far below "
        "0; forward is right",
    .cause = "the path for one query folds exp(-lse) into a factor of the row",
    .fix = "subtract in front of exp",
    .source = "NVIDIA/cudnn-frontend#1072, cf. pytorch/pytorch#196678",
    .trigger = "one query, and an lse beyond the range of exp",
    .killed_by = kKilledBy,
    .when = "Tq == 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_backward_lse_exponentiated_alone =
    backward_fault<LseExponentiatedAlone, QKVET_OPTION_WINDOW |
                                              QKVET_OPTION_BIAS |
                                              QKVET_OPTION_ALIBI>(
        "faulty/backward_lse_exponentiated_alone", &kFault,
        {"impl/faulty/backward_lse_exponentiated_alone.cpp", __LINE__});

}  // namespace qkvet::impl
