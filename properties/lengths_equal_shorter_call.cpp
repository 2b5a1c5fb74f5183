// SPDX-License-Identifier: Apache-2.0
#include "properties/fit.h"
#include "properties/option_forms.h"

namespace qkvet {
namespace {

// The member whose turn it is, or the next one with queries and keys; -1 if
// there is none.
int64_t chosen_member(const Case& value) {
  const int64_t B = value.shape.B;
  const int64_t first = pick_by_seed(value.seed, B);
  for (int64_t n = 0; n < B; ++n) {
    const int64_t b = (first + n) % B;
    if (counted_queries(value, b) > 0 && counted_keys(value, b) > 0) return b;
  }
  return -1;
}

MemberPart part_of(const Case& value, int64_t b) {
  return {b, 0, counted_queries(value, b), 0, counted_keys(value, b)};
}

void cut_member(const Case& value, int64_t b, Inputs& inputs) {
  cut_part(value, part_of(value, b), inputs);
}

Case fit(Case value) {
  const auto members = static_cast<size_t>(value.shape.B);
  const bool absent = value.q_len.empty() && value.kv_len.empty();
  if (absent && members <= kMaxMembers)
    value.kv_len.assign(members, (value.shape.Tk + 1) / 2);
  if (chosen_member(value) >= 0) return value;
  // The least that there can be: shrinking ends there.
  if (!value.q_len.empty()) value.q_len[0] = 1;
  if (!value.kv_len.empty()) value.kv_len[0] = 1;
  return value;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  const int64_t b = chosen_member(value);
  if (b < 0) {
    Plan plan;
    plan.not_applicable = "no member has queries and keys";
    return plan;
  }
  Plan plan =
      plan_two_forms(kernel, part_case(value, part_of(value, b)), cut_member);
  plan.calls[1].argument = b;
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const MemberPart part =
      part_of(input.value, input.calls[1].planned->argument);
  CallPair pair;
  pair.first_name = "with lengths";
  pair.second_name = "in a call that is as short";
  pair.map = [&](const Element& at) { return place_in_part(part, at); };
  pair.looks = "a length moves the diagonal wrongly, or does not end the keys";
  compare_within_bounds(input, pair, {TensorName::kO, TensorName::kLse},
                        judgement);
  return judgement;
}

}  // namespace

extern constinit const Law lengths_equal_shorter_call{
    "lengths_equal_shorter_call",
    "A member with lengths equals a call that is as short.",
    "o[b, i < Lq] = forward(q[b, < Lq], k[b, < Lk], v[b, < Lk])",
    "lengths of a member with queries and keys",
    "What lies beyond the lengths is not part of the question, and the "
    "diagonal is counted from the lengths.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it sets one path of a kernel against another, (d) it needs no oracle",
    Aim{.admits = kAdmitWindow | kAdmitMask | kAdmitLengths | kAdmitScores |
                  kAdmitMemory,
        .about = kAdmitLengths},
    fit,
    plan,
    judge};

}  // namespace qkvet
