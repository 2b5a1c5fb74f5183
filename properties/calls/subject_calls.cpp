// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/subject_calls.h"

#include <utility>

#include "core/door/call_plan.h"
#include "properties/calls/gradient_calls.h"
#include "properties/calls/layer_calls.h"
#include "properties/calls/merge_calls.h"
#include "properties/judging/compare.h"

namespace qkvet::properties {

PlannedCall plain_call(const Case& value, const KernelInfo& kernel) {
  switch (value.subject()) {
    case Subject::kLayer:
      return layer_call(kernel);
    case Subject::kBackward:
      return backward_call(/*truth=*/true);
    case Subject::kLayerBackward:
      return layer_backward_call(/*truth=*/true);
    case Subject::kMerge:
      return merge_call();
    default:
      break;
  }
  PlannedCall call;
  call.want_lse = wants_lse(kernel);
  call.needs_truth = true;
  return call;
}

PlannedCall whole_call(const Case& value, const KernelInfo& kernel) {
  PlannedCall call = plain_call(value, kernel);
  call.needs_truth = false;
  if (value.subject() == Subject::kAttention)
    call.want_weights = wants_weights(kernel);
  return call;
}

void compare_all_bits(const JudgeInput& input, const CallPair& pair,
                      Judgement& judgement) {
  const Subject subject = input.value.subject();
  if (subject == Subject::kAttention || subject == Subject::kBackward)
    return compare_bit_for_bit(input, pair, judgement);
  for (const TensorName output : outputs_of(subject))
    compare_calls_bit_for_bit(input, pair, output, judgement);
}

void compare_calls_bit_for_bit(const JudgeInput& input, const CallPair& pair,
                               TensorName output, Judgement& judgement,
                               const std::string& place) {
  const CallOutput one = output_of(input, input.calls[pair.first], output);
  const std::vector<double>& expected = one.values;
  const std::vector<double> actual =
      read_output(input, input.calls[pair.second], output);
  for (size_t at = 0; at < expected.size() && at < actual.size(); ++at) {
    ++judgement.compared;
    if (equal_numbers(expected[at], actual[at])) continue;
    Finding finding;
    finding.where = place + one.grid.name(at);
    finding.expected =
        number_text(expected[at], one.dtype) + " (" + pair.first_name + ")";
    finding.actual =
        number_text(actual[at], one.dtype) + " (" + pair.second_name + ")";
    finding.allowed = "the same bits";
    finding.looks = pair.looks;
    add_failure(judgement, std::move(finding));
    return;
  }
}

std::string not_at_once_reason(const KernelInfo& kernel) {
  if (!kernel.has_flag(QKVET_FLAG_REENTRANT))
    return "not declared: calls from several threads at once (reentrant)";
  if (kernel.device() != QKVET_DEVICE_CPU)
    return "calls to a device are made one by one";
  return nondeterministic_reason(kernel);
}

void add_at_once(Plan& plan) {
  const size_t alone = plan.calls.size();
  for (size_t n = 0; n < alone; ++n) {
    PlannedCall at_once = plan.calls[n];
    at_once.at_once = true;
    plan.calls.push_back(std::move(at_once));
  }
}

CallPair pair_at_once(const JudgeInput& input, size_t n) {
  CallPair pair;
  pair.first = n;
  pair.second = n + input.calls.size() / 2;
  pair.first_name = "alone";
  pair.second_name = "at once with other calls";
  pair.looks = "calls of several threads share memory";
  return pair;
}

}  // namespace qkvet::properties
