// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "properties/calls/merge_calls.h"
#include "properties/judging/compare.h"
#include "properties/judging/placements.h"

namespace qkvet::properties {
namespace of_merge_reads_only_its_inputs {

// In each placement, and in place if rows have no numbers of states of their
// own.
Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  const bool in_place = value.kv_len.empty() &&
                        value.o_dtype == value.kv_dtype &&
                        (kernel.merge_options & QKVET_MERGE_IN_PLACE) != 0;
  for (const bool place : {false, true})
    for (int i = 0; i < kPlacementCount && (in_place || !place); ++i) {
      PlannedCall call = merge_call();
      call.needs_truth = i == 0 && !place && may_overflow_in_f16(value, kernel);
      call.placement = static_cast<Placement>(i);
      call.in_place = place;
      plan.calls.push_back(call);
    }
  return plan;
}

// The executor detects touches of guard pages, inputs and gaps. The rest is a
// read that stays inside of the slack and is NaN in one placement.
Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const Truth* const truth = input.calls[0].truth;
  const Dtype dtype = input.value.o_dtype;
  for (size_t first = 0; first < input.calls.size(); first += kPlacementCount)
    for (const bool is_o : {true, false}) {
      const Dtype type = is_o ? dtype : lse_dtype(dtype);
      std::vector<std::vector<double>> outputs;
      for (size_t n = first; n < first + kPlacementCount; ++n)
        outputs.push_back(as_doubles(
            is_o ? input.calls[n].outcome->o : input.calls[n].outcome->lse,
            type));
      for (size_t n = 0; n < outputs[0].size(); ++n) {
        const bool overflows =
            truth != nullptr &&
            !std::isfinite(is_o ? truth->bound->o[n] : truth->bound->lse[n]);
        if (overflows) {
          ++judgement.vacuous;
          continue;
        }
        ++judgement.compared;
        auto finding = nan_in_one_placement(outputs, n, type);
        if (!finding) continue;
        finding->where =
            element_name(is_o ? TensorName::kO : TensorName::kLse,
                         input.value.shape, static_cast<int64_t>(n));
        add_failure(judgement, std::move(*finding));
        return judgement;
      }
    }
  return judgement;
}

}  // namespace of_merge_reads_only_its_inputs

extern constinit const Law merge_reads_only_its_inputs{
    "merge_reads_only_its_inputs",
    "A merge reads only the bytes of its inputs, writes exactly the elements "
    "of its outputs, and leaves its caller's state as it was.",
    "merge(states) is the same wherever its tensors lie",
    "none",
    "Nothing beside the tensors is an argument.",
    "Guard pages, canaries and NaN beside the tensors are exact.",
    "(c) it reaches what lies beside the tensors, (d) it needs no oracle",
    10,
    Domain{.subject = Subject::kMerge, .allows = kAllowRaggedMerge},
    with_states<1>,
    of_merge_reads_only_its_inputs::plan,
    of_merge_reads_only_its_inputs::judge};

}  // namespace qkvet::properties
