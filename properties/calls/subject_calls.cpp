// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/subject_calls.h"

#include <cmath>
#include <utility>

#include "core/door/call_plan.h"
#include "properties/calls/gradient_calls.h"
#include "properties/calls/layer_calls.h"
#include "properties/calls/layer_gradient_calls.h"
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
  const Case& value = input.value;
  const Shape& s = value.shape;
  const auto compare = [&](TensorName output, Dtype dtype, auto name) {
    compare_calls_bit_for_bit(
        input, pair, output, dtype,
        [&](int64_t at) { return name(output, s, at); }, judgement);
  };
  const auto name = [](TensorName output, const Shape& shape, int64_t at) {
    return element_name(output, shape, at);
  };
  const auto gradient_of_layer = [](TensorName output, const Shape& shape,
                                    int64_t at) {
    return layer_gradient_name(shape, output, at);
  };
  switch (value.subject()) {
    case Subject::kLayer:
      return compare(TensorName::kY, value.o_dtype, name);
    case Subject::kLayerBackward:
      for (const TensorName output : kLayerGradients)
        compare(output, value.q_dtype, gradient_of_layer);
      return;
    case Subject::kMerge:
      compare(TensorName::kO, value.o_dtype, name);
      return compare(TensorName::kLse, lse_dtype(value.o_dtype), name);
    case Subject::kBackward: {
      GradientPair gradients{pair.first, pair.second, pair.first_name,
                             pair.second_name};
      gradients.looks = pair.looks;
      return compare_gradients_bit_for_bit(input, gradients, judgement);
    }
    default:
      compare_bit_for_bit(input, pair, judgement, kAllOutputs);
  }
}

void compare_calls_bit_for_bit(const JudgeInput& input, const CallPair& pair,
                               TensorName output, Dtype dtype,
                               const std::function<std::string(int64_t)>& name,
                               Judgement& judgement) {
  const auto values = [&](size_t call) {
    return as_doubles(input.calls[call].outcome->*output_member(output), dtype);
  };
  const std::vector<double> expected = values(pair.first);
  const std::vector<double> actual = values(pair.second);
  for (size_t at = 0; at < expected.size() && at < actual.size(); ++at) {
    ++judgement.compared;
    const bool same = expected[at] == actual[at] ||
                      (std::isnan(expected[at]) && std::isnan(actual[at]));
    if (same) continue;
    Finding finding;
    finding.where = name(static_cast<int64_t>(at));
    finding.expected =
        number_text(expected[at], dtype) + " (" + pair.first_name + ")";
    finding.actual =
        number_text(actual[at], dtype) + " (" + pair.second_name + ")";
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
