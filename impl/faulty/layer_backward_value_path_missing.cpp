// SPDX-License-Identifier: Apache-2.0
// faulty/layer_backward_value_path_missing: dX lacks what came back through the
// values.
#include "impl/faulty/layer_backward_fault.h"

namespace qkvet::impl {
namespace {

struct ValuePathMissing : PlainLayerGradient {
  static bool adds_input(Role role) { return role != Role::kValue; }
};

constexpr const char* kKilledBy[] = {
    "lone_token_gradients_are_exact", "layer_backward_is_the_adjoint",
    "layer_backward_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "of the three gradients that reach x, through queries, keys and "
        "values, "
        "the last one is not added",
    .symptom =
        "every parameter is right, and the layer below learns from a part of "
        "its gradient",
    .cause =
        "three products are written into one buffer, and one of them is "
        "forgotten or overwritten",
    .fix = "dX = dq W_Q^T + dk W_K^T + dv W_V^T: add all three",
    .source = "textbook",
    .trigger = "every case whose values reach y",
    .killed_by = kKilledBy,
    .when = "",
};

}  // namespace

extern constinit const qkvet_kernel faulty_layer_backward_value_path_missing =
    layer_backward_fault<ValuePathMissing>(
        "faulty/layer_backward_value_path_missing", &kFault,
        {"impl/faulty/layer_backward_value_path_missing.cpp", __LINE__});

}  // namespace qkvet::impl
