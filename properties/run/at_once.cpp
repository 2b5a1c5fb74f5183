// SPDX-License-Identifier: Apache-2.0
#include "properties/run/at_once.h"

#include <cmath>
#include <utility>

#include "properties/calls/call_pairs.h"
#include "properties/calls/other_data.h"
#include "properties/judging/compare.h"

namespace qkvet::properties {

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

void put_all_other_data(const Case& value, int64_t, Inputs& inputs) {
  put_other_data(
      value, [](int64_t, int64_t) { return true; }, inputs);
}

void compare_calls_bit_for_bit(const JudgeInput& input, size_t first,
                               size_t second, TensorName output,
                               const char* first_name, const char* second_name,
                               Judgement& judgement, const std::string& place) {
  const CallOutput one = output_of(input, input.calls[first], output);
  const std::vector<double>& expected = one.values;
  const std::vector<double> actual =
      read_output(input, input.calls[second], output);
  for (size_t at = 0; at < expected.size() && at < actual.size(); ++at) {
    ++judgement.compared;
    if (equal_numbers(expected[at], actual[at])) continue;
    Finding finding;
    finding.where = place + one.grid.name(at);
    finding.expected =
        number_text(expected[at], one.dtype) + " (" + first_name + ")";
    finding.actual =
        number_text(actual[at], one.dtype) + " (" + second_name + ")";
    finding.allowed = "the same bits";
    add_failure(judgement, std::move(finding));
    return;
  }
}

void compare_alone_with_at_once(const JudgeInput& input, size_t n,
                                TensorName output, Judgement& judgement,
                                const std::string& place) {
  Judgement own;
  compare_calls_bit_for_bit(input, n, n + input.calls.size() / 2, output,
                            "alone", "at once with other calls", own, place);
  judgement.compared += own.compared;
  if (!own.finding) return;
  own.finding->call = n + 1;
  own.finding->looks = "calls of several threads share memory";
  add_failure(judgement, std::move(*own.finding));
}

}  // namespace qkvet::properties
