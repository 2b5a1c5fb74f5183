// SPDX-License-Identifier: Apache-2.0
// faulty/layer_backward_bias_of_last_member: the gradient of a bias is that of
// the last member of the batch.
#include "impl/faulty/layer_backward_fault.h"

namespace qkvet::impl {
namespace {

struct BiasOfLastMember : PlainLayerGradient {
  static int64_t first_row(const LayerCall& call) {
    return (call.batch - 1) * call.tokens;
  }
};

constexpr const char* kKilledBy[] = {
    "lone_token_gradients_are_exact", "layer_backward_is_the_adjoint",
    "layer_backward_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the gradient of a bias is added up over the tokens of a member, and "
        "every member overwrites that of the one in front of it",
    .symptom =
        "with one member all is right; with more, biases learn from the last "
        "one alone",
    .cause = "a loop over members around code for one, whose sum begins anew",
    .fix = "add up over all rows of the batch",
    .source = "textbook",
    .trigger = "B above 1 and a bias",
    .killed_by = kKilledBy,
    .when = "B > 1 && (b_q || b_v || b_o)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_layer_backward_bias_of_last_member =
    layer_backward_fault<BiasOfLastMember>(
        "faulty/layer_backward_bias_of_last_member", &kFault,
        {"impl/faulty/layer_backward_bias_of_last_member.cpp", __LINE__});

}  // namespace qkvet::impl
