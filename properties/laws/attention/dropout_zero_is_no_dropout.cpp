// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/call_pairs.h"
#include "properties/calls/dropout_calls.h"
#include "properties/judging/compare.h"
#include "properties/judging/visibility.h"

namespace qkvet::properties {
namespace of_dropout_zero_is_no_dropout {

Case constrain(Case value) {
  value.dropout = 0.0F;
  return value;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  plan.not_applicable = unreadable_mask(value, kernel);
  PlannedCall without = dropout_call(Operation::kForward, kernel);
  without.want_dropout_mask = false;
  without.needs_truth = true;
  without.variant = value;
  without.variant->dropout.reset();
  plan.calls =
      mask_and_call(value, kernel, dropout_call(Operation::kForward, kernel));
  plan.calls.push_back(without);
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const auto kept = kept_by(input, 0, judgement);
  const Shape& s = input.value.shape;
  for (size_t n = 0; kept && n < kept->size(); ++n) {
    const auto at = static_cast<int64_t>(n);
    const int64_t i = at / s.Tk % s.Tq, b = at / s.Tk / s.Tq / s.H;
    if (i >= counted_queries(input.value, b)) continue;
    // Hidden pairs are only visible in a returned mask.
    if (!returns_mask(input.kernel) &&
        !input.visibility->sees(b, at / s.Tk / s.Tq % s.H, i, at % s.Tk))
      continue;
    ++judgement.compared;
    if ((*kept)[n] == 1) continue;
    Finding finding;
    finding.where = element_name(TensorName::kDropoutMask, s, at);
    finding.expected = "1: with p = 0 every weight is kept";
    finding.actual = "0";
    add_failure(judgement, std::move(finding));
    return judgement;
  }
  CallPair pair;
  pair.first = input.calls.size() - 1;
  pair.second = input.calls.size() - 2;
  pair.first_name = "without dropout";
  pair.second_name = "with dropout of p = 0";
  pair.looks = "dropout does something where it drops nothing";
  compare_within_first_bound(input, pair, judgement);
  return judgement;
}

}  // namespace of_dropout_zero_is_no_dropout

extern constinit const Law dropout_zero_is_no_dropout{
    "dropout_zero_is_no_dropout",
    "Dropout with p = 0 keeps every weight and gives what a call without it "
    "gives, whatever the seed.",
    "p = 0 => m = 1, o = o without dropout",
    "dropout of p = 0",
    "1 / (1 - 0) is 1.",
    "The same bits, or within the bound of the call without dropout: a kernel "
    "may take another path to return a mask.",
    "(a) what is kept is exact",
    550,
    Domain{.allows = kAllowBesideDropout, .about = QKVET_OPTION_DROPOUT},
    of_dropout_zero_is_no_dropout::constrain,
    of_dropout_zero_is_no_dropout::plan,
    of_dropout_zero_is_no_dropout::judge};

}  // namespace qkvet::properties
