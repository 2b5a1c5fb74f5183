// SPDX-License-Identifier: Apache-2.0
#include "properties/checking/serving_cases.h"

namespace qkvet::properties {
namespace of_append_equals_given {

Plan plan(const Case& value, const KernelInfo& kernel) {
  Case variant = value;
  variant.append = 0;
  return plan_two_forms(kernel, variant, nullptr);
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "appended by the call";
  pair.second_name = "there before";
  pair.looks = "new tokens are not attended, or the diagonal is that of before";
  compare_within_bounds(input, pair, judgement);
  return judgement;
}

}  // namespace of_append_equals_given

extern constinit const Law append_equals_given{
    "append_equals_given",
    "Tokens that a call appends are attended as if they had been there.",
    "forward(cache, k_new, v_new, kv_len) = forward(cache + new, kv_len + new)",
    "new tokens for every member",
    "They are stored first, and then there is no difference.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it sets one path of a kernel against another",
    490,
    Domain{.allows = kAllowAll | QKVET_OPTION_KEY_LISTS | kAllowFields,
           .about = QKVET_OPTION_APPEND},
    with_new_tokens,
    of_append_equals_given::plan,
    of_append_equals_given::judge};

}  // namespace qkvet::properties
