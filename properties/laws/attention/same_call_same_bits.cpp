// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/call_pairs.h"
#include "properties/calls/other_calls.h"
#include "properties/calls/other_data.h"

namespace qkvet::properties {
namespace of_same_call_same_bits {

void all_other_data(const Case& value, int64_t, Inputs& inputs) {
  put_other_data(
      value, [](int64_t, int64_t) { return true; }, inputs);
}

Case constrain(Case value) { return value; }

// The same call again after each of the others.
Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan = plan_bitwise_pair(kernel, all_other_data);
  const PlannedCall same = plan.calls[0];
  plan.calls.push_back(same);
  for (PlannedCall& other :
       calls_of_other_shapes(value, kernel, Operation::kForward)) {
    other.want_lse = same.want_lse;
    plan.calls.push_back(std::move(other));
    plan.calls.push_back(same);
  }
  for (PlannedCall& call : plan.calls)
    call.want_weights = wants_weights(kernel);
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  for (size_t n = 2; n < input.calls.size(); n += 2) {
    CallPair pair;
    pair.second = n;
    pair.first_name = "the first time";
    const std::string name = std::string("again, after a call with ") +
                             (n == 2 ? "other data" : kOtherShapes[n / 2 - 2]);
    pair.second_name = name.c_str();
    pair.looks = "something is left over from another call";
    compare_bit_for_bit(
        input, pair, judgement,
        {TensorName::kO, TensorName::kLse, TensorName::kWeights});
  }
  return judgement;
}

}  // namespace of_same_call_same_bits

extern constinit const Law same_call_same_bits{
    "same_call_same_bits",
    "The same call gives the same bits, whatever was called in between: other "
    "data, and other shapes.",
    "forward(x) = forward(x)",
    "a deterministic kernel",
    "A function has one value for one argument.",
    "The same operations on the same numbers give the same bits.",
    "(a) it is bitwise, (c) it reaches what a kernel keeps between calls",
    140,
    Domain{.allows = QKVET_OPTION_ROPE | kAllowPairs | kAllowScores |
                     kOptionLayout | kAllowServing | QKVET_OPTION_KEY_LISTS |
                     kAllowFields},
    of_same_call_same_bits::constrain,
    of_same_call_same_bits::plan,
    of_same_call_same_bits::judge};

}  // namespace qkvet::properties
