// SPDX-License-Identifier: Apache-2.0
// Faults that take a storage, a form or a move of their own: a story for each,
// in which its answers are wrong and those of the cache next to it are right.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "impl/testing/cache_fixture.h"

namespace qkvet::impl::cache_story_faults_test {
namespace {

constexpr int64_t kCapacity = 6;

struct FaultStory {
  const char* fault;
  const char* right;  // kernel
  CacheProblem problem;
  bool (*holds)(OpenCache& cache);
};

bool answers(OpenCache& cache, int64_t sequence, const Tokens& added,
             int64_t queries) {
  return cache.step(sequence, added, queries) == QKVET_OK && cache.error() <= 1;
}

bool fork_in_a_page(OpenCache& cache) {
  return answers(cache, 0, {1}, 1) && cache.fork(0, 1) == QKVET_OK &&
         answers(cache, 1, {2}, 1) && answers(cache, 0, {3}, 1) &&
         answers(cache, 1, {}, 1);
}

bool beams_change_places(OpenCache& cache) {
  return answers(cache, 0, {1}, 1) && answers(cache, 1, {2}, 1) &&
         cache.reorder({1, 0}) == QKVET_OK && answers(cache, 0, {}, 1) &&
         answers(cache, 1, {}, 1);
}

bool holds_what_it_was_given(OpenCache& cache) {
  cache.step(0, {1, 2}, 0);
  return cache.holds_its_history(0);
}

// The fault's contents are right, and its answers are not.
bool answers_from_its_contents(OpenCache& cache) {
  cache.step(0, {1, 2}, 1);
  EXPECT_TRUE(cache.holds_its_history(0));
  return cache.error() <= 1;
}

bool decodes(OpenCache& cache) { return answers(cache, 0, {1}, 1); }
bool prefills(OpenCache& cache) {
  return answers(cache, 0, tokens_from(1, 5), 5);
}

bool rolls_back(OpenCache& cache) {
  return answers(cache, 0, {1, 2}, 1) && cache.truncate(0, 1) == QKVET_OK &&
         answers(cache, 0, {3}, 1);
}

bool rolls_back_by_two(OpenCache& cache) {
  return answers(cache, 0, {1, 2, 3}, 1) && cache.truncate(0, 1) == QKVET_OK &&
         answers(cache, 0, {4}, 1);
}

bool fills_next_to_another(OpenCache& cache) {
  return answers(cache, 1, {1}, 1) &&
         answers(cache, 0, tokens_from(2, kCapacity), 1) &&
         answers(cache, 1, {}, 1);
}

bool sequences_take_turns(OpenCache& cache) {
  return answers(cache, 0, {1}, 1) && answers(cache, 1, {2}, 1) &&
         answers(cache, 0, {}, 1);
}

// The second sequence never gave anything up.
bool the_first_ends(OpenCache& cache) {
  return answers(cache, 0, {1}, 1) && cache.fork(0, 1) == QKVET_OK &&
         cache.reset(0) == QKVET_OK && answers(cache, 0, {2}, 1) &&
         answers(cache, 1, {}, 1);
}

bool the_first_begins_again(OpenCache& cache) {
  return answers(cache, 0, {1}, 1) && cache.reset(0) == QKVET_OK &&
         answers(cache, 1, {2}, 1) && answers(cache, 0, {3}, 1) &&
         answers(cache, 1, {}, 1);
}

bool both_become_the_first(OpenCache& cache) {
  return answers(cache, 0, {1}, 1) && answers(cache, 1, {2}, 1) &&
         cache.reorder({0, 0}) == QKVET_OK && answers(cache, 0, {}, 1) &&
         answers(cache, 1, {}, 1);
}

bool goes_around_and_forks(OpenCache& cache) {
  return answers(cache, 0, {1, 2, 3}, 1) && cache.fork(0, 1) == QKVET_OK &&
         answers(cache, 1, {}, 1);
}

bool goes_around_and_on(OpenCache& cache) {
  return answers(cache, 0, {1, 2, 3}, 1) && answers(cache, 0, {4}, 1);
}

bool goes_around_and_back(OpenCache& cache) {
  return answers(cache, 0, {1, 2, 3}, 1) && cache.truncate(0, 2) == QKVET_OK &&
         answers(cache, 0, {}, 1);
}

bool goes_on(OpenCache& cache) {
  return answers(cache, 0, {1, 2}, 2) && answers(cache, 0, {3}, 1);
}

bool asks_behind_a_draft(OpenCache& cache) {
  return answers(cache, 0, {1, 2}, 1) && cache.truncate(0, 1) == QKVET_OK &&
         answers(cache, 0, {}, 1);
}

bool follows_nan(OpenCache& cache) {
  cache.step(0, Tokens(4, kNanToken), 0);
  return cache.reset(0) == QKVET_OK && answers(cache, 0, {1}, 1);
}

bool evicts(OpenCache& cache) {
  return answers(cache, 0, {1, 2, 3}, 1) && cache.evict(0, 1, 1) == QKVET_OK &&
         answers(cache, 0, {}, 1);
}

bool evicts_twice(OpenCache& cache) {
  return answers(cache, 0, {1, 2, 3, 4}, 1) &&
         cache.evict(0, 0, 1) == QKVET_OK && answers(cache, 0, {}, 1) &&
         cache.evict(0, 1, 1) == QKVET_OK && answers(cache, 0, {}, 1);
}

bool evicts_and_goes_on(OpenCache& cache) {
  return answers(cache, 0, {1, 2, 3}, 1) && cache.evict(0, 0, 1) == QKVET_OK &&
         answers(cache, 0, {4}, 1);
}

bool a_branch_evicts(OpenCache& cache) {
  return answers(cache, 0, {1, 2, 3}, 1) && cache.fork(0, 1) == QKVET_OK &&
         cache.evict(0, 0, 1) == QKVET_OK && answers(cache, 0, {}, 1) &&
         answers(cache, 1, {}, 1);
}

bool holds_what_is_left(OpenCache& cache) {
  cache.step(0, {1, 2, 3}, 0);
  return cache.evict(0, 0, 1) == QKVET_OK && cache.holds_its_history(0);
}

bool repeats_itself(OpenCache& cache) {
  return answers(cache, 0, {1, 1}, 1) && answers(cache, 0, {}, 1);
}

bool repeats_what_is_gone(OpenCache& cache) {
  return answers(cache, 0, {1}, 1) && cache.reset(0) == QKVET_OK &&
         answers(cache, 0, {2}, 1) && answers(cache, 1, {1}, 1) &&
         answers(cache, 1, {}, 1);
}

constexpr CacheProblem kTwo = {.sequences = 2, .capacity = kCapacity};
constexpr CacheProblem kInt8 = {.capacity = kCapacity, .coded = Coded::kInt8};
constexpr CacheProblem kWindow = {.capacity = kCapacity, .window = 2};
constexpr CacheProblem kFirstTokens = {
    .capacity = kCapacity, .window = 2, .first_tokens = 1};

constexpr CacheProblem kTwoWindows = {
    .sequences = 2, .capacity = kCapacity, .window = 2};
constexpr CacheProblem kRollback = {
    .capacity = kCapacity, .window = 2, .rollback = 2};
constexpr CacheProblem kTurnedWindow = {
    .capacity = kCapacity, .rope = QKVET_ROPE_HALF, .window = 2};
constexpr CacheProblem kTurned = {.capacity = kCapacity,
                                  .rope = QKVET_ROPE_HALF};
constexpr CacheProblem kTwoHeads = {
    .heads = 2, .kv_heads = 2, .capacity = kCapacity};
constexpr CacheProblem kHalfInt8 = {
    .capacity = kCapacity, .type = Storage::kF16, .coded = Coded::kInt8};
constexpr CacheProblem kChannels = {.heads = 2,
                                    .kv_heads = 2,
                                    .capacity = kCapacity,
                                    .coded = Coded::kInt8,
                                    .per_channel = true};

constexpr CacheProblem kAlibi = {.capacity = kCapacity, .slope = 0.5f};
constexpr CacheProblem kSink = {.capacity = kCapacity, .sink = 0.5f};
constexpr CacheProblem kMasked = {.capacity = kCapacity, .hidden = 3};
constexpr CacheProblem kBiased = {.capacity = kCapacity, .bias = 0.5f};

constexpr FaultStory kStories[] = {
    {"cache_alibi_of_the_queries", "contiguous", kAlibi, goes_on},
    {"cache_sink_in_prefill_only", "contiguous", kSink, goes_on},
    {"cache_mask_of_the_new_keys", "contiguous", kMasked, goes_on},
    {"cache_bias_in_prefill_only", "contiguous", kBiased, goes_on},
    {"cache_shared_page_not_copied", "paged", kTwo, fork_in_a_page},
    {"cache_reorder_in_place", "contiguous", kTwo, beams_change_places},
    {"cache_scale_floored_at_one", "quantised", kInt8, holds_what_it_was_given},
    {"cache_value_scale_from_keys", "quantised", kInt8,
     answers_from_its_contents},
    {"cache_static_tail_attended", "contiguous", kTwo, decodes},
    {"cache_ring_overflows", "ring", kWindow, prefills},
    {"cache_rollback_clears_all", "contiguous", kTwo, rolls_back},
    {"cache_tile_padding_overwrites", "contiguous", kTwo,
     fills_next_to_another},
    {"cache_window_one_too_wide", "contiguous", kWindow, prefills},
    {"cache_first_tokens_forgotten", "contiguous", kFirstTokens, prefills},
    {"cache_chunk_length_too_long", "contiguous", kTwo, prefills},
    {"cache_counter_one_late", "contiguous", kTwo, rolls_back},
    {"cache_descale_dropped_for_half", "quantised", kHalfInt8,
     holds_what_it_was_given},
    {"cache_evict_counts_positions", "contiguous", kTwo, evicts_twice},
    {"cache_evict_drops_the_last", "contiguous", kTwo, evicts},
    {"cache_evict_keys_only", "contiguous", kTwo, evicts},
    {"cache_evict_position_from_count", "contiguous", kTurned,
     evicts_and_goes_on},
    {"cache_evict_scales_stay", "quantised", kInt8, holds_what_is_left},
    {"cache_evict_writes_shared_page", "paged", kTwo, a_branch_evicts},
    {"cache_fork_shares_length", "contiguous", kTwo, fork_in_a_page},
    {"cache_length_from_full_draft", "contiguous", kTwo, asks_behind_a_draft},
    {"cache_page_freed_while_shared", "paged", kTwo, the_first_ends},
    {"cache_position_collision", "contiguous", kTwo, sequences_take_turns},
    {"cache_prefix_hash_ignores_context", "prefix", kTurned, repeats_itself},
    {"cache_prefix_stale_hash", "prefix", kTwo, repeats_what_is_gone},
    {"cache_range_includes_next_row", "quantised", kInt8,
     holds_what_it_was_given},
    {"cache_reorder_keys_only", "contiguous", kTwo, beams_change_places},
    {"cache_reorder_scatters", "contiguous", kTwo, both_become_the_first},
    {"cache_ring_growth_negative", "ring", kWindow, goes_around_and_on},
    {"cache_ring_length_from_write_pointer", "ring", kTwoWindows,
     goes_around_and_forks},
    {"cache_ring_mask_of_all_slots", "contiguous", kRollback, prefills},
    {"cache_ring_rope_by_slot", "ring", kTurnedWindow, prefills},
    {"cache_ring_trim_moves_counter", "ring", kRollback, goes_around_and_back},
    {"cache_rope_offset_advances_twice", "contiguous", kTurned, goes_on},
    {"cache_scale_of_first_head", "quantised", kChannels,
     holds_what_it_was_given},
    {"cache_scale_uninitialised", "quantised", kInt8,
     answers_from_its_contents},
    {"cache_slot_of_other_page_size", "contiguous", kTwoHeads, decodes},
    {"cache_stale_table_tail", "paged", kTwo, the_first_begins_again},
    {"cache_stale_value_nearly_zero", "contiguous", kTwo, rolls_back_by_two},
    {"cache_stale_value_times_zero", "contiguous", kTwo, follows_nan},
    {"cache_zero_point_off_by_one", "quantised", kInt8,
     holds_what_it_was_given},
    {"cache_zero_point_sign", "quantised", kInt8, holds_what_it_was_given}};

bool holds(const std::string& name, const FaultStory& story) {
  const qkvet_kernel* const kernel = find_kernel(name);
  EXPECT_NE(kernel, nullptr) << name;
  if (kernel == nullptr) {
    return false;
  }
  OpenCache cache(kernel, story.problem);
  EXPECT_EQ(cache.status(), QKVET_OK) << name << ": " << cache.reason();
  return cache.status() == QKVET_OK && story.holds(cache);
}

// A fault in none of the two lists is left to the laws that it names.
TEST(CacheStoryFaults, AndThoseOfTheLawsAreThere) {
  std::set<std::string> asked;
  for (const FaultStory& story : kStories) {
    asked.insert(std::string("faulty/") + story.fault);
  }
  for (const char* fault : kLawFaults) {
    asked.insert(std::string("faulty/") + fault);
  }
  std::set<std::string> all;
  for (const qkvet_kernel* kernel : caches(/*faulty=*/true)) {
    all.insert(kernel->name);
  }
  EXPECT_EQ(asked.size(), std::size(kStories) + std::size(kLawFaults));
  EXPECT_TRUE(
      std::includes(all.begin(), all.end(), asked.begin(), asked.end()));
}

TEST(CacheStoryFaults, AreWrongWhereTheCacheNextToThemIsRight) {
  for (const FaultStory& story : kStories) {
    EXPECT_TRUE(holds(std::string("kv_cache/") + story.right, story))
        << story.fault;
    EXPECT_FALSE(holds(std::string("faulty/") + story.fault, story))
        << story.fault;
  }
}

// One token, alone in a cache that it fills: nowhere is there room for a fault
// about other tokens.
TEST(CacheStoryFaults, AreRightAboutOneToken) {
  CacheProblem one = kTwo;
  one.sequences = one.capacity = 1;
  for (const FaultStory& story : kStories) {
    const std::string name = std::string("faulty/") + story.fault;
    OpenCache cache(find_kernel(name), one);
    EXPECT_EQ(cache.status(), QKVET_OK) << name;
    EXPECT_TRUE(answers(cache, 0, {1}, 1)) << name;
  }
}

}  // namespace
}  // namespace qkvet::impl::cache_story_faults_test
