// SPDX-License-Identifier: Apache-2.0
#include "properties/run/other_values.h"

#include <algorithm>

#include "properties/calls/subject_calls.h"
#include "properties/judging/compare.h"
#include "properties/judging/outcome.h"

namespace qkvet::properties {
namespace {

constexpr const char* kValuesNames[] = {"the case's own values",
                                        "plain normal values", "zeros"};

// Calls visit() for each operand that is no part of a call's form. A bias and
// the lse of a state also hide keys.
template <class Visit>
void for_each_operand(Inputs& inputs, Visit visit) {
  for (std::vector<double>* values :
       {&inputs.q, &inputs.k, &inputs.v, &inputs.d_o, &inputs.d_y})
    visit(*values);
  for (const TensorName name : kLayerInputs) visit(inputs.values(name));
}

void put_normal_values(const Case& value, int64_t, Inputs& inputs) {
  Case plain = value;
  plain.q = plain.k = plain.v = plain.x = plain.w = plain.bias = plain.d_o = {};
  plain.set.clear();
  Inputs other = make_inputs(plain);
  std::vector<std::vector<double>*> from;
  for_each_operand(
      other, [&](std::vector<double>& values) { from.push_back(&values); });
  size_t n = 0;
  for_each_operand(inputs, [&](std::vector<double>& values) {
    std::vector<double>& normal = *from[n++];
    if (normal.size() == values.size()) values.swap(normal);
  });
}

void put_zeros(const Case&, int64_t, Inputs& inputs) {
  for_each_operand(inputs, [](std::vector<double>& values) {
    std::fill(values.begin(), values.end(), 0.0);
  });
}

}  // namespace

Plan plan_other_values(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  if (value.file != 0)
    plan.not_applicable = "recorded data has no other values";
  PlannedCall call = plain_call(value, kernel);
  call.want_lse = call.needs_truth = false;
  call.only_between = true;  // a refusal is judged here
  plan.calls.assign(3, call);
  plan.calls[1].edit = put_normal_values;
  plan.calls[2].edit = put_zeros;
  return plan;
}

Judgement judge_other_values(const JudgeInput& input) {
  const auto is_refused = [](const CallView& call) {
    return call.outcome->status == CallStatus::kUnsupported;
  };
  const auto refused =
      std::find_if(input.calls.begin(), input.calls.end(), is_refused);
  const auto taken =
      std::find_if_not(input.calls.begin(), input.calls.end(), is_refused);
  Judgement judgement;
  if (refused != input.calls.end() && taken == input.calls.end()) {
    judgement.verdict = Verdict::kUnsupported;
    judgement.reason = refused->outcome->text;
    judgement.about = refusal_is_about(*refused->outcome);
    return judgement;
  }
  judgement.compared = std::ssize(input.calls);
  if (refused == input.calls.end()) return judgement;
  const auto name = [&](auto call) {
    return std::string(kValuesNames[call - input.calls.begin()]);
  };
  Finding finding;
  finding.planned = static_cast<int32_t>(refused - input.calls.begin());
  finding.where = "the call with " + name(refused);
  finding.expected = "taken, as it is with " + name(taken);
  finding.actual = "refused: " + refused->outcome->text;
  finding.looks = "values of the operands decide whether a call is taken";
  add_failure(judgement, std::move(finding));
  return judgement;
}

}  // namespace qkvet::properties
