// SPDX-License-Identifier: Apache-2.0
// For tests: layer_backward() as a function. By default the definition, rounded
// to storage, which every law about gradients of layers must pass; a test
// corrupts its question or its answer to see a law fail.
#ifndef QKVET_PROPERTIES_TESTING_FAKE_LAYER_GRADIENTS_H_
#define QKVET_PROPERTIES_TESTING_FAKE_LAYER_GRADIENTS_H_

#include "properties/testing/fake_executor.h"
#include "properties/testing/fake_layer.h"
#include "reference/layer/layer_gradient.h"

namespace qkvet::properties {

class FakeLayerGradients
    : public SpoiltKernel<const KernelCall, LayerGradientProblem,
                          LayerGradientOutput> {
 public:
  explicit FakeLayerGradients(Question question = {}, Answer answer = {})
      : SpoiltKernel(info(), std::move(question), std::move(answer)) {}

  static KernelInfo info() {
    KernelInfo info = FakeExecutor::info();
    info.name = "fake/layer_gradient";
    info.has_forward = false;
    info.has_layer = info.has_layer_backward = true;
    info.layer_options = QKVET_LAYER_BIASES | QKVET_LAYER_UNBATCHED |
                         QKVET_LAYER_ROPE | QKVET_LAYER_ROPE_PART;
    return info;
  }
  static KernelUnderTest under_test() { return fake_under_test(info()); }

 private:
  CallOutcome answer_to(const KernelCall& call) override {
    LayerGradientProblem problem;
    const FakeLayer layer(call, problem.forward);
    const std::vector<double> d_y =
        layer_values(call, call.d_y, TensorName::kDY);
    problem.d_y = d_y.data();
    if (question_) question_(call, problem);
    LayerGradientOutput gradient = plain_layer_backward(problem);
    CallOutcome outcome;
    if (answer_) answer_(call, gradient, outcome);
    if (outcome.status != CallStatus::kDone) return outcome;
    using Out = LayerGradientOutput;
    using Bytes = CallOutcome;
    constexpr std::pair<std::vector<double> Out::*,
                        std::vector<std::byte> Bytes::*>
        kMembers[] = {{&Out::x, &Bytes::d_x},     {&Out::w_q, &Bytes::d_w_q},
                      {&Out::w_k, &Bytes::d_w_k}, {&Out::w_v, &Bytes::d_w_v},
                      {&Out::w_o, &Bytes::d_w_o}, {&Out::b_q, &Bytes::d_b_q},
                      {&Out::b_k, &Bytes::d_b_k}, {&Out::b_v, &Bytes::d_b_v},
                      {&Out::b_o, &Bytes::d_b_o}};
    for (size_t i = 0; i < std::size(kMembers); ++i)
      if (FakeLayer::layer_input(call, i) != nullptr)
        outcome.*kMembers[i].second =
            doubles_as(call.q_dtype, gradient.*kMembers[i].first);
    return outcome;
  }
};

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_TESTING_FAKE_LAYER_GRADIENTS_H_
