// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/call_pairs.h"
#include "properties/calls/merge_calls.h"

namespace qkvet::properties {
namespace of_merge_in_place_equals_out_of_place {

Case constrain(Case value) {
  value = constrain_merge(std::move(value), 2);
  value.o_dtype = value.kv_dtype;
  return value;
}

Plan plan(const Case& value, const KernelInfo&) {
  Plan plan = plan_merge_pair(value, nullptr);
  plan.calls[1].in_place = true;
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "into other memory";
  pair.second_name = "in place";
  pair.looks = "the first state is overwritten before it is read";
  compare_within_bounds(input, pair, judgement);
  return judgement;
}

}  // namespace of_merge_in_place_equals_out_of_place

extern constinit const Law merge_in_place_equals_out_of_place{
    "merge_in_place_equals_out_of_place",
    "A merge in place is the merge into other memory.",
    "merge_in_place(a; b) = merge(a, b)",
    "two states; as many of every row; o is stored as states are",
    "The place of the result is no part of the definition.",
    "Each side is within its own bound of the same number: the paths may "
    "differ.",
    "(c) it reaches calls that no other law makes, (d) it needs no oracle",
    100,
    Domain{.subject = Subject::kMerge, .allows = kAllowMerge},
    of_merge_in_place_equals_out_of_place::constrain,
    of_merge_in_place_equals_out_of_place::plan,
    of_merge_in_place_equals_out_of_place::judge};

}  // namespace qkvet::properties
