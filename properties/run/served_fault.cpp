// SPDX-License-Identifier: Apache-2.0
#include "properties/run/served_fault.h"

#include <charconv>

#include "properties/run/shrink.h"

namespace qkvet::properties {
namespace {

constexpr uint64_t kSeeds = 6;

// The member that a finding is about: "o[b=1,h=0,...]".
int64_t member_of(const Finding& finding) {
  const std::string& text = finding.where;
  const size_t at = text.find("b=");
  int64_t member = 0;
  if (at != std::string::npos)
    std::from_chars(text.data() + at + 2, text.data() + text.size(), member);
  return member;
}

}  // namespace

StoryFault served_fault(const Case& value, const JudgedKernel& kernel,
                        int index, Executor& executor, TimeUse& time) {
  StoryFault fault;
  if (value.paging.size == 0) return fault;
  fault.whose =
      "The kernel's: pages, block tables and lengths are given, and right.";
  Case asked = value;
  const auto check = [&](const char* id) {
    return check_case(*find_law(id), asked, kernel, index, executor,
                      /*with_twin=*/false, time);
  };
  // Bits that change by themselves tell nothing of what changes them.
  if (check("same_call_same_bits").verdict != Verdict::kPassed) return fault;
  const std::pair<const char*, int64_t> laws[] = {
      {"unowned_pages_change_nothing", Reach::kUnowned},
      {"other_members_change_nothing", Reach::kMembers}};
  for (const auto& [id, of] : laws)
    // The seed chooses the member whose mates change, too.
    for (uint64_t n = 0; n < kSeeds; ++n) {
      asked.seed = value.seed + n;
      const Judgement judgement = check(id);
      if (judgement.verdict != Verdict::kFailed ||
          judgement.kind != FailureKind::kLaw || !judgement.finding)
        continue;
      Reach reach;
      reach.of = of;
      reach.into = member_of(*judgement.finding);
      fault.reaches.push_back(reach);
      break;
    }
  return fault;
}

}  // namespace qkvet::properties
