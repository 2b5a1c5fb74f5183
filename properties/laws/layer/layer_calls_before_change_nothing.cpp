// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/layer_calls.h"
#include "properties/calls/layer_stages.h"
#include "properties/calls/other_calls.h"
#include "properties/judging/compare.h"
#include "properties/run/at_once.h"

namespace qkvet::properties {
namespace of_layer_calls_before_change_nothing {

Plan plan(const Case& value, const KernelInfo& kernel) {
  return plan_calls_before(layer_call(kernel), value, kernel);
}

Judgement judge(const JudgeInput& input) {
  return judge_calls_before(
      input, {[&](size_t second, const char* name, Judgement& judgement) {
                compare_calls_bit_for_bit(input, 0, second, TensorName::kY,
                                          "before", name, judgement);
              },
              [&](size_t call, Judgement& judgement) {
                JudgeInput one = input;
                one.calls = input.calls.subspan(call, 1);
                const Judgement own = judge_layer(one);
                add_counts(judgement, own);
                if (own.finding) add_failure(judgement, *own.finding);
              }});
}

}  // namespace of_layer_calls_before_change_nothing

extern constinit const Law layer_calls_before_change_nothing{
    "layer_calls_before_change_nothing",
    "A layer gives its own answer whatever layers were called before: other "
    "data, fused matrices or none, biases, a rotation and a causal rule that "
    "come and go, another scale, more tokens or few.",
    "layer(x | y) = layer(x)",
    "a call of the layer that differs from the case",
    "A call has no other arguments than its own.",
    "The same operations on the same numbers give the same bits; of a kernel "
    "that is not deterministic each call is within its own bound.",
    "(c) it reaches what a kernel keeps between calls, by extents, layout, "
    "option or address",
    62,
    Domain{.subject = Subject::kLayer, .allows = kLayerOptions},
    constrain_layer,
    of_layer_calls_before_change_nothing::plan,
    of_layer_calls_before_change_nothing::judge};

}  // namespace qkvet::properties
