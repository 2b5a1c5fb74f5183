// SPDX-License-Identifier: Apache-2.0
// faulty/backward_future_keys_get_gradient: the causal rule is left out of the
// backward pass.
#include "impl/faulty/backward_fault.h"

namespace qkvet::impl {
namespace {

struct FutureKeysGetGradient : PlainBackward {
  static bool sees(const ForwardCall& call, int64_t, int64_t, int64_t,
                   int64_t j) {
    return j < call.keys;
  }
};

constexpr const char* kKilledBy[] = {"future_gradients_are_zero",
                                     "backward_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "weights are computed once more from lse, for all keys and not for "
        "those that a row sees",
    .symptom =
        "keys get gradients from rows in front of them; the loss falls and the "
        "model looks ahead",
    .cause = "the mask is applied in forward alone",
    .fix = "hide the same pairs in both passes",
    .source = "textbook",
    .trigger = "a causal row that does not see all keys",
    .killed_by = kKilledBy,
    .when = "causal && rows(hidden > 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_backward_future_keys_get_gradient =
    backward_fault<FutureKeysGetGradient>(
        "faulty/backward_future_keys_get_gradient", &kFault,
        {"impl/faulty/backward_future_keys_get_gradient.cpp", __LINE__});

}  // namespace qkvet::impl
