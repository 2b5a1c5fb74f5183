// SPDX-License-Identifier: Apache-2.0
// The same layer calls one by one and at once: the case, and the case with
// another x (core/door/door_threads.cpp).
#include "properties/calls/layer_calls.h"
#include "properties/judging/compare.h"
#include "properties/run/at_once.h"

namespace qkvet::properties {
namespace of_layer_calls_at_once_change_nothing {

// Exact, and far from the data of the case.
void put_other_x(const Case&, int64_t, Inputs& inputs) {
  for (double& x : inputs.values(TensorName::kX)) x *= -2;
}

Plan plan(const Case&, const KernelInfo& kernel) {
  Plan plan;
  plan.unsupported = not_at_once_reason(kernel);
  PlannedCall call = layer_call(kernel);
  plan.calls.push_back(call);
  call.edit = put_other_x;
  plan.calls.push_back(std::move(call));
  add_at_once(plan);
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  for (size_t n = 0; n < input.calls.size() / 2; ++n)
    compare_alone_with_at_once(input, n, TensorName::kY, judgement);
  return judgement;
}

}  // namespace of_layer_calls_at_once_change_nothing

extern constinit const Law layer_calls_at_once_change_nothing{
    "layer_calls_at_once_change_nothing",
    "Layers from several threads at once, each with a context of its own, give "
    "what they give one by one, where the kernel declares it.",
    "layer(x) || layer(y) = layer(x), layer(y)",
    "a deterministic kernel on the CPU that declares reentrant",
    "A call has no other arguments than its own.",
    "The same operations on the same numbers give the same bits.",
    "(a) it is bitwise, (c) it reaches what calls share",
    65,
    Domain{.subject = Subject::kLayer, .allows = kLayerOptions},
    constrain_layer,
    of_layer_calls_at_once_change_nothing::plan,
    of_layer_calls_at_once_change_nothing::judge};

}  // namespace qkvet::properties
