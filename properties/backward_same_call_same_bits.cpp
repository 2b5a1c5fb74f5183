// SPDX-License-Identifier: Apache-2.0
#include "properties/call_pairs.h"
#include "properties/gradient_calls.h"
#include "properties/other_data.h"

namespace qkvet {
namespace of_backward_same_call_same_bits {

void all_other_data(const Case& value, int64_t, Inputs& inputs) {
  put_other_data(
      value, [](int64_t, int64_t) { return true; }, inputs);
}

Case fit(Case value) { return value; }

Plan plan(const Case&, const KernelInfo& kernel) {
  Plan plan;
  plan.unsupported = nondeterministic_reason(kernel);
  plan.calls = {backward_call(/*truth=*/false),
                backward_call(/*truth=*/false, all_other_data),
                backward_call(/*truth=*/false)};
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  GradientPair pair;
  pair.second = 2;
  pair.first_name = "the first time";
  pair.second_name = "again, after a call with other data";
  pair.looks =
      "something is left over from another call: a sum that does not begin at "
      "zero, or is added up in another order each time";
  compare_gradients_bit_for_bit(input, pair, judgement);
  return judgement;
}

}  // namespace of_backward_same_call_same_bits

extern constinit const Law backward_same_call_same_bits{
    "backward_same_call_same_bits",
    "The same call of backward() gives the same bits, whatever was called in "
    "between.",
    "backward(x) = backward(x)",
    "a deterministic kernel",
    "A function has one value for one argument.",
    "The same operations on the same numbers give the same bits.",
    "(a) it is bitwise, (c) it reaches sums that are kept between calls",
    Aim{.subject = Subject::kBackward, .admits = kAdmitGradients},
    of_backward_same_call_same_bits::fit,
    of_backward_same_call_same_bits::plan,
    of_backward_same_call_same_bits::judge};

}  // namespace qkvet
