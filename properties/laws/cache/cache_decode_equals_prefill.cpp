// SPDX-License-Identifier: Apache-2.0
// The prompt in one step, compared with the same prompt token by token: the law
// that every cache exists for.
#include "properties/calls/prompt_ways.h"
#include "properties/judging/law.h"
#include "properties/sequences/story_calls.h"

namespace qkvet::properties {
namespace of_cache_decode_equals_prefill {

Plan plan(const Case& value, const KernelInfo& kernel) {
  const int64_t tokens = value.shape.Tk;
  const std::vector<int64_t> decode(static_cast<size_t>(tokens), 1);
  return plan_prompt_ways(value, kernel, {decode});
}

}  // namespace of_cache_decode_equals_prefill

extern constinit const Law cache_decode_equals_prefill{
    "cache_decode_equals_prefill",
    "Prefill equals incremental decode: a prompt in one step answers what the "
    "same tokens answer one by one.",
    "step(T)[t] = step(1) number t",
    "a prompt of at least two tokens",
    "The row of a token names the tokens up to it only.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it sets two paths against each other, (d) it needs no oracle",
    100,
    Domain{.subject = Subject::kCache, .allows = kAllowForms},
    constrain_to_prompt,
    of_cache_decode_equals_prefill::plan,
    judge_prompt_ways};

}  // namespace qkvet::properties
