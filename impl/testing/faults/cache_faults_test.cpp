// SPDX-License-Identifier: Apache-2.0
// The faults of caches: each differs from its skeleton where its trigger says
// so, equals it elsewhere, and breaks the laws that it names, here in their
// smallest form. The skeleton without a fault is kv_cache/contiguous. Those
// that need a story of their own are in cache_story_faults_test.cpp.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "impl/testing/cache_fixture.h"

namespace qkvet::impl::cache_faults_test {
namespace {

const CacheProblem kTwoHeads = {.sequences = 2,
                                .heads = 4,
                                .kv_heads = 2,
                                .capacity = 12,
                                .rope = QKVET_ROPE_HALF};

bool decode_equals_prefill(const qkvet_kernel* kernel) {
  OpenCache decode(kernel, kTwoHeads);
  bool holds = true;
  for (const uint64_t token : tokens_from(1, 5)) {
    holds =
        decode.step(0, {token}, 1) == QKVET_OK && decode.error() <= 1 && holds;
  }
  OpenCache prefill(kernel, kTwoHeads);
  return prefill.step(0, tokens_from(1, 5), 5) == QKVET_OK &&
         prefill.error() <= 1 && holds;
}

bool chunks_equal_whole(const qkvet_kernel* kernel) {
  OpenCache cache(kernel, kTwoHeads);
  bool holds = true;
  for (const uint64_t first : {1, 4, 7}) {
    holds = cache.step(0, tokens_from(first, 3), 3) == QKVET_OK &&
            cache.error() <= 1 && holds;
  }
  return holds;
}

bool length_grows(const qkvet_kernel* kernel) {
  OpenCache cache(kernel, kTwoHeads);
  cache.step(0, tokens_from(1, 3), 0);
  cache.step(1, tokens_from(1, 2), 0);
  return cache.length(0) == 3 && cache.length(1) == 2;
}

bool reset_forgets(const qkvet_kernel* kernel) {
  OpenCache cache(kernel, kTwoHeads);
  cache.step(0, Tokens(12, kNanToken), 0);
  return cache.reset(0) == QKVET_OK && cache.length(0) == 0 &&
         cache.step(0, tokens_from(1, 2), 2) == QKVET_OK && cache.error() <= 1;
}

bool truncate_forgets(const qkvet_kernel* kernel) {
  OpenCache cache(kernel, kTwoHeads);
  cache.step(0, {1}, 1);
  cache.step(0, {kNanToken}, 0);
  return cache.truncate(0, 1) == QKVET_OK && cache.length(0) == 1 &&
         cache.step(0, {2}, 1) == QKVET_OK && cache.error() <= 1;
}

bool sequences_are_separate(const qkvet_kernel* kernel) {
  OpenCache cache(kernel, kTwoHeads);
  cache.step(0, {1}, 1);
  cache.step(1, {kNanToken}, 0);
  return cache.step(0, {2}, 1) == QKVET_OK && cache.error() <= 1;
}

bool refuses_illegal_calls(const qkvet_kernel* kernel) {
  OpenCache cache(kernel, kTwoHeads);
  cache.step(0, {1}, 1);
  return cache.step(0, Tokens(12, kNanToken), 0) == QKVET_OUT_OF_MEMORY &&
         cache.length(0) == 1 && cache.step(0, {2}, 1) == QKVET_OK &&
         cache.error() <= 1;
}

// One story with everything in it that is legal.
bool agrees_with_history(const qkvet_kernel* kernel) {
  OpenCache cache(kernel, kTwoHeads);
  bool holds = true;
  const auto step = [&](int64_t sequence, const Tokens& added,
                        int64_t queries) {
    if (static_cast<int64_t>(added.size()) + cache.length(sequence) < queries ||
        cache.step(sequence, added, queries) != QKVET_OK) {
      holds = false;
    } else {
      holds = cache.error() <= 1 && holds;
    }
  };
  step(0, tokens_from(1, 3), 3);
  step(1, tokens_from(11, 1), 1);
  step(0, tokens_from(4, 2), 2);
  step(1, tokens_from(12, 1), 1);
  holds = cache.truncate(0, 3) == QKVET_OK && holds;
  step(0, tokens_from(21, 2), 1);
  cache.reset(0);
  step(0, tokens_from(31, 2), 2);
  return holds;
}

constexpr struct {
  const char* law;
  bool (*holds)(const qkvet_kernel*);
} kLaws[] = {{"cache_decode_equals_prefill", decode_equals_prefill},
             {"cache_chunks_equal_whole", chunks_equal_whole},
             {"cache_length_grows", length_grows},
             {"cache_reset_forgets", reset_forgets},
             {"cache_truncate_forgets", truncate_forgets},
             {"cache_sequences_are_separate", sequences_are_separate},
             {"cache_refuses_illegal_calls", refuses_illegal_calls},
             {"cache_agrees_with_history", agrees_with_history}};

const qkvet_kernel* fault_named(const std::string& name) {
  const qkvet_kernel* const kernel = find_kernel("faulty/" + name);
  EXPECT_NE(kernel, nullptr) << name;
  return kernel;
}

bool is_killed_by(const qkvet_kernel* kernel, const std::string& law) {
  const auto* fault = static_cast<const qkvet_fault*>(
      kernel->get_extension(kernel, QKVET_EXTENSION_FAULT));
  for (const char* const* id = fault->killed_by; *id != nullptr; ++id) {
    if (law == *id) {
      return true;
    }
  }
  return false;
}

TEST(CacheFaults, AreCachesAndNothingElse) {
  EXPECT_GE(caches(/*faulty=*/true).size(), 7u);
  for (const qkvet_kernel* kernel : caches(/*faulty=*/true)) {
    EXPECT_EQ(kernel->forward, nullptr) << kernel->name;
    EXPECT_EQ(kernel->layer, nullptr) << kernel->name;
  }
}

TEST(CacheFaults, BreakTheLawsThatTheyName) {
  const qkvet_kernel* const skeleton = find_kernel("kv_cache/contiguous");
  for (const auto& [law, holds] : kLaws) {
    EXPECT_TRUE(holds(skeleton)) << law;
    int kills = 0;
    for (const char* const name : kLawFaults) {
      const qkvet_kernel* const kernel = fault_named(name);
      ASSERT_NE(kernel, nullptr);
      if (is_killed_by(kernel, law)) {
        ++kills;
        EXPECT_FALSE(holds(kernel)) << kernel->name << " " << law;
      }
    }
    EXPECT_GE(kills, 1) << law;
  }
}

// What a fault does not touch is right: the laws here that it passes.
TEST(CacheFaults, AreRightOutsideOfTheirTrigger) {
  const struct {
    const char* name;
    std::vector<bool (*)(const qkvet_kernel*)> hold;
  } rows[] = {
      {"cache_append_wrong_axis", {length_grows}},
      {"stale_cache",
       {decode_equals_prefill, chunks_equal_whole, length_grows,
        truncate_forgets, sequences_are_separate, refuses_illegal_calls}},
      {"cache_length_not_advanced", {decode_equals_prefill, reset_forgets}},
      {"cache_chunk_offset",
       {decode_equals_prefill, length_grows, reset_forgets, truncate_forgets,
        sequences_are_separate, refuses_illegal_calls}},
      {"cache_truncate_keeps_values",
       {decode_equals_prefill, chunks_equal_whole, length_grows, reset_forgets,
        sequences_are_separate, refuses_illegal_calls}},
      {"cache_sequences_share_length",
       {decode_equals_prefill, chunks_equal_whole, reset_forgets,
        truncate_forgets, refuses_illegal_calls}},
      {"cache_refused_append_written",
       {decode_equals_prefill, chunks_equal_whole, length_grows, reset_forgets,
        truncate_forgets, sequences_are_separate, agrees_with_history}},
      {"cache_rope_restarts", {length_grows, reset_forgets}}};
  EXPECT_EQ(std::size(rows), std::size(kLawFaults));
  for (const auto& [name, hold] : rows) {
    const qkvet_kernel* const kernel = fault_named(name);
    ASSERT_NE(kernel, nullptr);
    for (size_t n = 0; n < hold.size(); ++n) {
      EXPECT_TRUE(hold[n](kernel)) << name << " " << n;
    }
  }
}

// The same bits as the skeleton: one key/value head, in several steps.
TEST(CacheFaults, OneHeadHidesTheWrongAxis) {
  const CacheProblem p = {.heads = 3, .kv_heads = 1};
  OpenCache skeleton(find_kernel("kv_cache/contiguous"), p);
  OpenCache faulty(find_kernel("faulty/cache_append_wrong_axis"), p);
  for (const uint64_t first : {1, 4, 7}) {
    ASSERT_EQ(skeleton.step(0, tokens_from(first, 3), 2), QKVET_OK);
    ASSERT_EQ(faulty.step(0, tokens_from(first, 3), 2), QKVET_OK);
    ASSERT_EQ(skeleton.o().size(), faulty.o().size());
    EXPECT_EQ(std::memcmp(skeleton.o().data(), faulty.o().data(),
                          skeleton.o().size() * sizeof(float)),
              0);
  }
}

}  // namespace
}  // namespace qkvet::impl::cache_faults_test
