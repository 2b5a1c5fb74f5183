// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "properties/fit.h"
#include "properties/option_forms.h"

namespace qkvet {
namespace {

MemberPart part_of(const Case& value, int64_t member) {
  const auto m = static_cast<size_t>(member);
  return {0, value.cu_q[m], value.cu_q[m + 1], value.cu_k[m],
          value.cu_k[m + 1]};
}

// The member whose turn it is, or the next one with queries and keys; -1 if
// there is none.
int64_t chosen_member(const Case& value) {
  const auto members = static_cast<int64_t>(value.cu_q.size()) - 1;
  if (members < 1) return -1;
  const int64_t first = pick_by_seed(value.seed, members);
  for (int64_t n = 0; n < members; ++n) {
    const MemberPart part = part_of(value, (first + n) % members);
    if (part.q_end > part.q_from && part.k_end > part.k_from)
      return (first + n) % members;
  }
  return -1;
}

void cut_member(const Case& value, int64_t member, Inputs& inputs) {
  cut_part(value, part_of(value, member), inputs);
}

// Two members, unless there are some already.
Case fit(Case value) {
  if (chosen_member(value) >= 0) return value;
  Shape& s = value.shape;
  s.B = 1;
  s.Tq = std::max<int64_t>(s.Tq, 1);
  s.Tk = std::max<int64_t>(s.Tk, 1);
  value.cu_q = {0, s.Tq / 2, s.Tq};
  value.cu_k = {0, s.Tk / 2, s.Tk};
  return value;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  const int64_t member = chosen_member(value);
  if (member < 0) {
    Plan plan;
    plan.not_applicable = "no member has queries and keys";
    return plan;
  }
  Plan plan = plan_two_forms(kernel, part_case(value, part_of(value, member)),
                             cut_member);
  plan.calls[1].argument = member;
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const MemberPart part =
      part_of(input.value, input.calls[1].planned->argument);
  CallPair pair;
  pair.first_name = "in a packed batch";
  pair.second_name = "in a call of its own";
  pair.map = [&](const Element& at) { return place_in_part(part, at); };
  pair.looks = "a member begins or ends at another place, or sees another one";
  compare_within_bounds(input, pair, {TensorName::kO, TensorName::kLse},
                        judgement);
  return judgement;
}

}  // namespace

extern constinit const Law packed_members_equal_calls{
    "packed_members_equal_calls",
    "A member of a packed batch equals a call of its own.",
    "o[cu_q[m] .. cu_q[m+1]) = forward(rows of q, k and v of member m)",
    "a packed batch; the member has queries and keys",
    "Members share nothing but memory.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it sets one path of a kernel against another, (d) it needs no oracle",
    Aim{.admits = kAdmitWindow | kAdmitMask | kAdmitPacked | kAdmitScores |
                  kAdmitMemory,
        .about = kAdmitPacked},
    fit,
    plan,
    judge};

}  // namespace qkvet
