// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/gradient_calls.h"
#include "properties/calls/layer_calls.h"
#include "properties/calls/other_calls.h"
#include "properties/run/at_once.h"

namespace qkvet::properties {
namespace of_layer_backward_calls_before_change_nothing {

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan =
      plan_calls_before(layer_backward_call(/*truth=*/false), value, kernel);
  plan.unsupported = nondeterministic_reason(kernel);
  return plan;
}

Judgement judge(const JudgeInput& input) {
  return judge_calls_before(
      input, {[&](size_t second, const char* name, Judgement& judgement) {
                for (const TensorName gradient : kLayerGradients)
                  compare_calls_bit_for_bit(input, 0, second, gradient,
                                            "before", name, judgement);
              },
              nullptr});
}

}  // namespace of_layer_backward_calls_before_change_nothing

extern constinit const Law layer_backward_calls_before_change_nothing{
    "layer_backward_calls_before_change_nothing",
    "Gradients of a layer are those of their own call whatever calls came "
    "before: other data, biases, a rotation and a causal rule that come and "
    "go, another scale, more tokens or few.",
    "layer_backward(x | y) = layer_backward(x)",
    "a deterministic kernel; a call that differs from the case",
    "A call has no other arguments than its own.",
    "The same operations on the same numbers give the same bits; of a kernel "
    "that is not deterministic each call is within its own bound.",
    "(c) it reaches what a kernel keeps between calls, by extents, layout, "
    "option or address",
    32,
    Domain{.subject = Subject::kLayerBackward, .allows = kLayerOptions},
    constrain_layer,
    of_layer_backward_calls_before_change_nothing::plan,
    of_layer_backward_calls_before_change_nothing::judge};

}  // namespace qkvet::properties
