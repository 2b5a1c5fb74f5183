// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/call_pairs.h"
#include "properties/calls/gradient_calls.h"
#include "properties/calls/other_calls.h"
#include "properties/calls/other_data.h"

namespace qkvet::properties {
namespace of_backward_same_call_same_bits {

void all_other_data(const Case& value, int64_t, Inputs& inputs) {
  put_other_data(
      value, [](int64_t, int64_t) { return true; }, inputs);
}

Case constrain(Case value) { return value; }

// The same call again after each of the others.
Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  plan.unsupported = nondeterministic_reason(kernel);
  plan.calls = {backward_call(/*truth=*/false),
                backward_call(/*truth=*/false, all_other_data),
                backward_call(/*truth=*/false)};
  for (PlannedCall& other :
       calls_of_other_shapes(value, kernel, Operation::kBackward)) {
    plan.calls.push_back(std::move(other));
    plan.calls.push_back(backward_call(/*truth=*/false));
  }
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
    pair.looks =
        "something is left over from another call: a sum that does not begin "
        "at zero, or is added up in another order each time";
    compare_bit_for_bit(input, pair, judgement);
  }
  return judgement;
}

}  // namespace of_backward_same_call_same_bits

extern constinit const Law backward_same_call_same_bits{
    "backward_same_call_same_bits",
    "The same call of backward() gives the same bits, whatever was called in "
    "between: other data, and other shapes.",
    "backward(x) = backward(x)",
    "a deterministic kernel",
    "A function has one value for one argument.",
    "The same operations on the same numbers give the same bits.",
    "(a) it is bitwise, (c) it reaches sums that are kept between calls",
    60,
    Domain{.subject = Subject::kBackward, .allows = kAllowGradients},
    of_backward_same_call_same_bits::constrain,
    of_backward_same_call_same_bits::plan,
    of_backward_same_call_same_bits::judge};

}  // namespace qkvet::properties
