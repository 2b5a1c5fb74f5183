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

void compare_alone_with_at_once(const JudgeInput& input, size_t n,
                                TensorName output, Dtype dtype,
                                const std::function<std::string(int64_t)>& name,
                                Judgement& judgement) {
  const auto values = [&](size_t call) {
    return as_doubles(input.calls[call].outcome->*output_member(output), dtype);
  };
  const std::vector<double> alone = values(n);
  const std::vector<double> at_once = values(n + input.calls.size() / 2);
  for (size_t at = 0; at < alone.size(); ++at) {
    ++judgement.compared;
    const bool same = alone[at] == at_once[at] ||
                      (std::isnan(alone[at]) && std::isnan(at_once[at]));
    if (same) continue;
    Finding finding;
    finding.call = n + 1;
    finding.where = name(static_cast<int64_t>(at));
    finding.expected = number_text(alone[at], dtype) + " (alone)";
    finding.actual =
        number_text(at_once[at], dtype) + " (at once with other calls)";
    finding.allowed = "the same bits";
    finding.looks = "calls of several threads share memory";
    add_failure(judgement, std::move(finding));
    return;
  }
}

}  // namespace qkvet::properties
