// SPDX-License-Identifier: Apache-2.0
// A prompt in chunks, each on a warm cache, compared with the prompt in one
// step. Up to six tokens every partition is tried, above that one random
// partition.
#include "core/base/philox.h"
#include "properties/calls/prompt_ways.h"
#include "properties/judging/law.h"
#include "properties/sequences/story_calls.h"

namespace qkvet::properties {
namespace of_cache_chunks_equal_whole {

constexpr int64_t kEveryPartition = 6;

// Bit t of `cuts`: a chunk ends after token t.
std::vector<int64_t> chunks_of(int64_t tokens, uint64_t cuts) {
  std::vector<int64_t> chunks = {1};
  for (int64_t t = 1; t < tokens; ++t)
    if ((cuts >> (t - 1) & 1) != 0)
      chunks.push_back(1);
    else
      ++chunks.back();
  return chunks;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  const int64_t tokens = value.shape.Tk;
  std::vector<std::vector<int64_t>> ways;
  // The whole prompt is compared with, token by token is another law.
  const uint64_t last = (uint64_t{1} << (tokens - 1)) - 1;
  if (tokens <= kEveryPartition)
    for (uint64_t cuts = 1; cuts < last; ++cuts)
      ways.push_back(chunks_of(tokens, cuts));
  else
    ways.push_back(chunks_of(tokens, philox_u64(value.seed, 0, 0, 0)));
  if (!ways.empty()) return plan_prompt_ways(value, kernel, ways);
  Plan plan;
  plan.not_applicable = "two tokens have no chunks";
  return plan;
}

Case constrain(Case value) {
  value = constrain_to_prompt(std::move(value));
  if (value.story[0].count >= 3) return value;
  value.story[0].count = 3;
  value.capacity = std::max<int64_t>(value.capacity, 3);
  constrain_extents_to_story(value);
  return value;
}

}  // namespace of_cache_chunks_equal_whole

extern constinit const Law cache_chunks_equal_whole{
    "cache_chunks_equal_whole",
    "Chunked prefill equals prefill: a prompt in steps of any sizes answers "
    "what one step answers.",
    "step(n1), step(n2), ... = step(n1 + n2 + ...)",
    "a prompt of at least three tokens; up to six every partition",
    "The row of a token names the tokens up to it only.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it reaches chunks on a warm cache, (d) it needs no oracle",
    110,
    Domain{.subject = Subject::kCache, .allows = kAllowForms},
    of_cache_chunks_equal_whole::constrain,
    of_cache_chunks_equal_whole::plan,
    judge_prompt_ways};

}  // namespace qkvet::properties
