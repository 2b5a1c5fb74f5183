// SPDX-License-Identifier: Apache-2.0
// Slots that no member owns are NaN in one call and hold tokens of other
// sequences in the other (zeros instead of NaN if the kernel declares that they
// must be finite). The tails of the block tables stay as they are.
#include "properties/checking/serving_cases.h"
#include "properties/judging/finite.h"

namespace qkvet::properties {
namespace of_unowned_pages_change_nothing {

Unowned first_of(const Case& value, const KernelInfo& kernel) {
  return in_finite_slots(kernel.dialect, value.paging).unowned;
}

// Tokens of others, or data for which the kernel need not be finite.
Unowned second_of(const Case& value, const KernelInfo& kernel) {
  if (first_of(value, kernel) != Unowned::kOthers) return Unowned::kOthers;
  return needs_finite_slots(kernel.dialect) ? Unowned::kZero : Unowned::kNan;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Case variant = value;
  variant.paging.unowned = second_of(value, kernel);
  Plan plan = plan_same_rows(kernel, nullptr);
  plan.calls[1].variant = variant;
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  constexpr const char* kNames[] = {"NaN in pages that it does not own",
                                    "tokens of others there",
                                    "zeros in pages that it does not own"};
  const auto name_of = [&](Unowned unowned) {
    return kNames[static_cast<size_t>(unowned)];
  };
  CallPair pair;
  pair.first_name = name_of(first_of(input.value, input.kernel));
  pair.second_name = name_of(second_of(input.value, input.kernel));
  pair.looks = "what stands in slots that the member does not own reaches it";
  compare_same_rows(input, pair, judgement);
  return judgement;
}

}  // namespace of_unowned_pages_change_nothing

extern constinit const Law unowned_pages_change_nothing{
    "unowned_pages_change_nothing",
    "Pages and slots that a member does not own change nothing, be it NaN: its "
    "rows stay as they are.",
    "o[b] = f(q[b], the first kv_len[b] tokens of its block table)",
    "keys and values in pages",
    "These slots do not occur in the formula.",
    "Bit for bit where the kernel declares other_data_invariant; else the same "
    "bits or within the bound of the row, which is made of what it sees.",
    "(a) it is bitwise where that is claimed",
    470,
    Domain{.allows = kAllowAll | QKVET_OPTION_KEY_LISTS | kAllowFields,
           .about = QKVET_OPTION_PAGED},
    with_pages,
    of_unowned_pages_change_nothing::plan,
    of_unowned_pages_change_nothing::judge};

}  // namespace qkvet::properties
