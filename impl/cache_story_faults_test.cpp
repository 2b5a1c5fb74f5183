// SPDX-License-Identifier: Apache-2.0
// Faults that take a storage, a form or a move of their own: a story for each,
// in which its answers are wrong and those of the cache next to it are right.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "impl/cache_fixture.h"

namespace qkvet::impl {
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

bool fills_next_to_another(OpenCache& cache) {
  return answers(cache, 1, {1}, 1) &&
         answers(cache, 0, tokens_from(2, kCapacity), 1) &&
         answers(cache, 1, {}, 1);
}

constexpr CacheProblem kTwo = {.sequences = 2, .capacity = kCapacity};
constexpr CacheProblem kInt8 = {.capacity = kCapacity, .coded = Coded::kInt8};
constexpr CacheProblem kWindow = {.capacity = kCapacity, .window = 2};
constexpr CacheProblem kFirstTokens = {
    .capacity = kCapacity, .window = 2, .first_tokens = 1};

constexpr FaultStory kStories[] = {
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
    {"cache_first_tokens_forgotten", "contiguous", kFirstTokens, prefills}};

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

// A new fault belongs into one of the two lists.
TEST(CacheStoryFaults, WithThoseOfTheLawsAreAllThereAre) {
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
  EXPECT_EQ(asked, all);
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
}  // namespace qkvet::impl
