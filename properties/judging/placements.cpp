// SPDX-License-Identifier: Apache-2.0
#include "properties/judging/placements.h"

#include <algorithm>
#include <cmath>

#include "core/base/dtype.h"
#include "properties/judging/compare.h"
#include "properties/judging/empty_row.h"
#include "properties/judging/visibility.h"

namespace qkvet::properties {

bool may_overflow_in_f16(const Case& value, const KernelInfo& kernel) {
  const qkvet_precision& p = kernel.precision;
  const qkvet_dtype f16 = dtype_to_abi(Dtype::kF16);
  const qkvet_dtype kept[] = {p.score_dtype, p.operand_dtype, p.softmax_dtype,
                              p.dot_sum_dtype, p.value_sum_dtype};
  return value.q_dtype == Dtype::kF16 || value.kv_dtype == Dtype::kF16 ||
         value.o_dtype == Dtype::kF16 ||
         std::any_of(std::begin(kept), std::end(kept),
                     [&](qkvet_dtype one) { return same_dtype(one, f16); });
}

Plan plan_placements(const PlannedCall& call, const Case& value,
                     const KernelInfo& kernel) {
  Plan plan;
  plan.calls.assign(kPlacementCount, call);
  for (int i = 0; i < kPlacementCount; ++i)
    plan.calls[static_cast<size_t>(i)].placement = static_cast<Placement>(i);
  for (PlannedCall& placed : plan.calls) placed.needs_truth = false;
  plan.calls[0].needs_truth = may_overflow_in_f16(value, kernel);
  return plan;
}

namespace {

// Whether the kernel has to write the same kind of number there every time. A
// row of attention without a key may hold anything, unless the dialect declares
// its value.
bool is_determined(const JudgeInput& input, const Element& at) {
  if (input.value.merge || is_gradient(at.tensor)) return true;
  if (!input.visibility->counted(at.b, at.i)) return false;
  if (input.visibility->keys(at.b, at.h, at.i) > 0) return true;
  return declared_number(empty_row_of(input.kernel.dialect, input.value),
                         at.tensor)
      .has_value();
}

// A finding if element n is NaN in some of the placements alone.
std::optional<Finding> nan_in_one_placement(
    const std::vector<CallOutput>& outputs, size_t n) {
  const double* finite = nullptr;
  const double* nan = nullptr;
  for (const CallOutput& output : outputs)
    (std::isnan(output.values[n]) ? nan : finite) = &output.values[n];
  if (finite == nullptr || nan == nullptr) return std::nullopt;
  Finding finding;
  finding.where = outputs[0].grid.name(n);
  finding.expected =
      number_text(*finite, outputs[0].dtype) + ", wherever tensors lie";
  finding.actual = "nan in one placement";
  finding.looks = "a read of bytes beside a tensor, which held NaN";
  return finding;
}

// False after a finding.
bool compare_placements(const JudgeInput& input,
                        std::span<const CallView> calls, TensorName tensor,
                        Judgement& judgement) {
  std::vector<CallOutput> outputs;
  for (const CallView& call : calls)
    outputs.push_back(output_of(input, call, tensor));
  const TensorTruth truth = truth_of_output(input.calls[0].truth, tensor);
  for (size_t n = 0; n < outputs[0].values.size(); ++n) {
    const Element at = outputs[0].grid.at(n);
    if (is_attention_gradient(tensor) && !gradient_counts(input.value, at))
      continue;
    const bool determined = is_determined(input, at);
    if (determined && truth.bound != nullptr &&
        !std::isfinite((*truth.bound)[n])) {
      ++judgement.vacuous;
      continue;
    }
    ++judgement.compared;
    auto finding = nan_in_one_placement(outputs, n);
    if (!finding || !determined) continue;
    add_failure(judgement, std::move(*finding));
    return false;
  }
  return true;
}

}  // namespace

Judgement judge_placements(const JudgeInput& input) {
  Judgement judgement;
  for (size_t first = 0; first < input.calls.size(); first += kPlacementCount)
    for (const TensorName tensor : outputs_of(input.value.subject()))
      if (!compare_placements(input,
                              input.calls.subspan(first, kPlacementCount),
                              tensor, judgement))
        return judgement;
  return judgement;
}

}  // namespace qkvet::properties
