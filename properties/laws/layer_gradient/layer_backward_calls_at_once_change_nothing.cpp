// SPDX-License-Identifier: Apache-2.0
// The same gradients of a layer one by one and at once: of the case, and of the
// case with another x and dy (core/door/door_threads.cpp).
#include "properties/calls/gradient_calls.h"
#include "properties/calls/layer_calls.h"
#include "properties/run/at_once.h"

namespace qkvet::properties {
namespace of_layer_backward_calls_at_once_change_nothing {

// Exact, and far from the data of the case.
void put_other_x(const Case&, int64_t, Inputs& inputs) {
  for (double& x : inputs.values(TensorName::kX)) x *= -2;
  for (double& d : inputs.d_y) d *= 2;
}

Plan plan(const Case&, const KernelInfo& kernel) {
  Plan plan;
  plan.unsupported = not_at_once_reason(kernel);
  plan.calls = {layer_backward_call(/*truth=*/false),
                layer_backward_call(/*truth=*/false, put_other_x)};
  add_at_once(plan);
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  for (size_t n = 0; n < input.calls.size() / 2; ++n)
    for (const TensorName tensor : kLayerGradients)
      compare_alone_with_at_once(input, n, tensor, judgement);
  return judgement;
}

}  // namespace of_layer_backward_calls_at_once_change_nothing

extern constinit const Law layer_backward_calls_at_once_change_nothing{
    "layer_backward_calls_at_once_change_nothing",
    "Gradients of layers from several threads at once, each with a context of "
    "its own, are what they are one by one, where the kernel declares it.",
    "layer_backward(x) || layer_backward(y) = layer_backward(x), "
    "layer_backward(y)",
    "a deterministic kernel on the CPU that declares reentrant",
    "A call has no other arguments than its own.",
    "The same operations on the same numbers give the same bits.",
    "(a) it is bitwise, (c) it reaches what calls share",
    25,
    Domain{.subject = Subject::kLayerBackward, .allows = kLayerOptions},
    constrain_layer,
    of_layer_backward_calls_at_once_change_nothing::plan,
    of_layer_backward_calls_at_once_change_nothing::judge};

}  // namespace qkvet::properties
