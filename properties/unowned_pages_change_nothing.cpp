// SPDX-License-Identifier: Apache-2.0
// Slots that no member owns are NaN in one call and hold tokens of other
// sequences in the other; the tails of the block tables stay what they are.
#include "properties/served.h"

namespace qkvet {
namespace of_unowned_pages_change_nothing {

Plan plan(const Case& value, const KernelInfo& kernel) {
  Case variant = value;
  variant.paging.others = !value.paging.others;
  Plan plan = plan_same_rows(kernel, nullptr);
  plan.calls[1].variant = variant;
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const bool others = input.value.paging.others;
  const char* const names[] = {"NaN in pages that it does not own",
                               "tokens of others there"};
  CallPair pair;
  pair.first_name = names[others ? 1 : 0];
  pair.second_name = names[others ? 0 : 1];
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
    Aim{.admits = kAdmitAll, .about = kAdmitPaged},
    with_pages,
    of_unowned_pages_change_nothing::plan,
    of_unowned_pages_change_nothing::judge};

}  // namespace qkvet
