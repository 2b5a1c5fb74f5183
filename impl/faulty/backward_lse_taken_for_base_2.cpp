// SPDX-License-Identifier: Apache-2.0
// faulty/backward_lse_taken_for_base_2: lse is natural and is taken for a
// logarithm of base 2.
#include <cmath>

#include "impl/faulty/backward_fault.h"

namespace qkvet::impl {
namespace {

struct LseTakenForBase2 : PlainBackward {
  static float weight(const ForwardCall&, int64_t, float score, float lse) {
    constexpr float kLog2E = 1.44269504f;
    return std::exp2(score * kLog2E - lse);
  }
};

constexpr const char* kKilledBy[] = {"backward_is_the_adjoint",
                                     "backward_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "p = exp2(score log2(e) - lse) with an lse that forward() gave to base "
        "e",
    .symptom =
        "every row has weights that do not sum to one; right where lse is 0",
    .cause = "one of two kernels changed its base",
    .fix = "take both to one base",
    .source = "textbook, cf. iree-org/iree#16679",
    .trigger = "rows whose lse is not 0",
    .killed_by = kKilledBy,
    .when = "",
};

}  // namespace

extern constinit const qkvet_kernel faulty_backward_lse_taken_for_base_2 =
    backward_fault<LseTakenForBase2>(
        "faulty/backward_lse_taken_for_base_2", &kFault,
        {"impl/faulty/backward_lse_taken_for_base_2.cpp", __LINE__});

}  // namespace qkvet::impl
