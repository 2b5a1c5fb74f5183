// SPDX-License-Identifier: Apache-2.0
#include "properties/run/at_once.h"

#include <cmath>
#include <utility>

#include "core/door/call_plan.h"
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
                               size_t second, TensorName output, Dtype dtype,
                               const std::function<std::string(int64_t)>& name,
                               const char* first_name, const char* second_name,
                               Judgement& judgement) {
  const auto values = [&](size_t call) {
    return as_doubles(input.calls[call].outcome->*output_member(output), dtype);
  };
  const std::vector<double> expected = values(first);
  const std::vector<double> actual = values(second);
  for (size_t at = 0; at < expected.size() && at < actual.size(); ++at) {
    ++judgement.compared;
    const bool same = expected[at] == actual[at] ||
                      (std::isnan(expected[at]) && std::isnan(actual[at]));
    if (same) continue;
    Finding finding;
    finding.where = name(static_cast<int64_t>(at));
    finding.expected =
        number_text(expected[at], dtype) + " (" + first_name + ")";
    finding.actual = number_text(actual[at], dtype) + " (" + second_name + ")";
    finding.allowed = "the same bits";
    add_failure(judgement, std::move(finding));
    return;
  }
}

void compare_alone_with_at_once(const JudgeInput& input, size_t n,
                                TensorName output, Dtype dtype,
                                const std::function<std::string(int64_t)>& name,
                                Judgement& judgement) {
  Judgement own;
  compare_calls_bit_for_bit(input, n, n + input.calls.size() / 2, output, dtype,
                            name, "alone", "at once with other calls", own);
  judgement.compared += own.compared;
  if (!own.finding) return;
  own.finding->call = n + 1;
  own.finding->looks = "calls of several threads share memory";
  add_failure(judgement, std::move(*own.finding));
}

}  // namespace qkvet::properties
