// SPDX-License-Identifier: Apache-2.0
// What the kinds of caches are for: how many bytes they hold for tokens, and
// that forks and prompts with one beginning share them.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "impl/testing/cache_fixture.h"

namespace qkvet::impl::cache_memory_test {
namespace {

constexpr CacheProblem kProblem = {.sequences = 3,
                                   .heads = 4,
                                   .kv_heads = 2,
                                   .width = 6,
                                   .value_width = 5,
                                   .capacity = 32};
// The bytes of one token in f32, in all key/value heads.
constexpr int64_t kToken = 2 * (6 + 5) * 4;
constexpr int64_t kPage = 4 * kToken;

// A kind of cache at every instruction set that is here.
std::vector<const qkvet_kernel*> kinds(const std::string& name) {
  std::vector<const qkvet_kernel*> found;
  for (const qkvet_kernel* kernel : caches(/*faulty=*/false)) {
    const std::string full = kernel->name;
    if (full == "kv_cache/" + name || full == "kv_cache_avx2/" + name) {
      found.push_back(kernel);
    }
  }
  EXPECT_FALSE(found.empty()) << name;
  return found;
}

TEST(CacheMemory, IsAllThereOrGrows) {
  for (const char* name : {"contiguous", "split", "ring", "quantised"}) {
    for (const qkvet_kernel* kernel : kinds(name)) {
      OpenCache cache(kernel, kProblem);
      EXPECT_EQ(cache.memory(), 3 * 32 * kToken) << name;
      ASSERT_EQ(cache.step(0, tokens_from(1, 20), 1), QKVET_OK);
      ASSERT_EQ(cache.fork(0, 1), QKVET_OK);
      EXPECT_EQ(cache.memory(), 3 * 32 * kToken) << name;
    }
  }
  for (const qkvet_kernel* kernel : kinds("growing")) {
    OpenCache cache(kernel, kProblem);
    EXPECT_EQ(cache.memory(), 0);
    ASSERT_EQ(cache.step(0, tokens_from(1, 5), 1), QKVET_OK);
    ASSERT_EQ(cache.step(0, {9}, 1), QKVET_OK);
    EXPECT_EQ(cache.memory(), 10 * kToken);
    ASSERT_EQ(cache.fork(0, 2), QKVET_OK);
    ASSERT_EQ(cache.reset(0), QKVET_OK);
    EXPECT_EQ(cache.memory(), 20 * kToken);
  }
}

TEST(CacheMemory, OfARingIsWhatItsWindowShows) {
  CacheProblem p = kProblem;
  p.window = 4;
  p.first_tokens = 2;
  p.rollback = 1;
  for (const qkvet_kernel* kernel : kinds("ring")) {
    OpenCache cache(kernel, p);
    ASSERT_EQ(cache.step(0, tokens_from(1, 30), 30), QKVET_OK);
    EXPECT_LE(cache.error(), 1);
    EXPECT_EQ(cache.memory(), 3 * (4 + 2 + 1) * kToken);
    p.capacity = 5;  // less than that
    EXPECT_EQ(OpenCache(kernel, p).memory(), 3 * 5 * kToken);
    p.capacity = kProblem.capacity;
  }
}

TEST(CacheMemory, OfCodesIsAByteANumberAndTheScales) {
  CacheProblem p = kProblem;
  for (const qkvet_kernel* kernel : kinds("quantised")) {
    for (const Coded coded : {Coded::kInt8, Coded::kFp8}) {
      p.coded = coded;
      p.per_channel = false;
      EXPECT_EQ(OpenCache(kernel, p).memory(), 3 * 2 * 32 * (6 + 5 + 4 + 4));
      p.per_channel = true;
      EXPECT_EQ(OpenCache(kernel, p).memory(), 3 * 2 * 32 * (6 + 5));
    }
  }
}

// The largest number of a row is the largest code, so that the scale is 1.
TEST(CacheMemory, OfCodesIsTheNearestAndOnTiesTheEvenOne) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const struct {
    Coded coded;
    float given[4], kept[4];
  } rows[] = {{Coded::kInt8, {127, 2.5f, 3.5f, -0.5f}, {127, 2, 4, 0}},
              {Coded::kInt8, {-127, -1.5f, 1.25f, 126.5f}, {-127, -2, 1, 126}},
              {Coded::kInt8, {0, 0, 0, 0}, {0, 0, 0, 0}},
              {Coded::kInt8, {1, nan, 0, 2}, {nan, nan, nan, nan}},
              {Coded::kFp8, {448, 17, 19, 0x1p-10f}, {448, 16, 20, 0}},
              {Coded::kFp8, {-448, 33, 0x3p-10f, 1}, {-448, 32, 0x1p-8f, 1}},
              {Coded::kFp8, {0, 0, 0, 0}, {0, 0, 0, 0}},
              {Coded::kFp8, {1, 2, 3, nan}, {nan, nan, nan, nan}}};
  for (const qkvet_kernel* kernel : kinds("quantised")) {
    for (const auto& row : rows) {
      const CacheProblem p = {.width = 4, .coded = row.coded};
      OpenCache cache(kernel, p);
      ASSERT_EQ(cache.status(), QKVET_OK) << cache.reason();
      ASSERT_EQ(cache.step(0, {1}, 0), QKVET_OK);
      ASSERT_EQ(cache.truncate(0, 0), QKVET_OK);
      StepCall call(p, 0, {1}, {});
      for (int64_t c = 0; c < 4; ++c) {
        call.k.set(0, 0, 0, c, row.given[c]);
      }
      ASSERT_EQ(cache.step(call.args), QKVET_OK) << cache.reason();
      const std::vector<float> k =
          cache.read_back(0, Layout::kBhtd, /*rows=*/1).k;
      for (size_t c = 0; c < 4; ++c) {
        if (std::isnan(row.kept[c])) {
          EXPECT_TRUE(std::isnan(k[c])) << kernel->name;
        } else {
          EXPECT_EQ(k[c], row.kept[c]) << kernel->name << " " << c;
        }
      }
    }
  }
}

TEST(CacheMemory, OfPagesIsSharedUntilSomeoneWrites) {
  for (const char* name : {"paged", "prefix"}) {
    for (const qkvet_kernel* kernel : kinds(name)) {
      OpenCache cache(kernel, kProblem);
      EXPECT_EQ(cache.memory(), 0) << name;
      ASSERT_EQ(cache.step(0, tokens_from(1, 6), 6), QKVET_OK);
      EXPECT_EQ(cache.memory(), 2 * kPage) << name;
      ASSERT_EQ(cache.fork(0, 1), QKVET_OK);
      ASSERT_EQ(cache.fork(0, 2), QKVET_OK);
      EXPECT_EQ(cache.memory(), 2 * kPage) << name;
      ASSERT_EQ(cache.step(1, {21}, 1), QKVET_OK);
      EXPECT_EQ(cache.memory(), 3 * kPage) << name;
      ASSERT_EQ(cache.step(2, {22}, 1), QKVET_OK);
      EXPECT_EQ(cache.memory(), 4 * kPage) << name;
      ASSERT_EQ(cache.step(0, {23}, 1), QKVET_OK);  // nobody else's any more
      EXPECT_EQ(cache.memory(), 4 * kPage) << name;
      for (const int64_t s : {0, 1, 2}) {
        ASSERT_EQ(cache.reset(s), QKVET_OK);
      }
      ASSERT_EQ(cache.step(1, tokens_from(31, 16), 16), QKVET_OK);
      EXPECT_EQ(cache.memory(), 4 * kPage) << name;  // all were free
      ASSERT_EQ(cache.step(1, {50}, 1), QKVET_OK);
      EXPECT_EQ(cache.memory(), 5 * kPage) << name;
    }
  }
}

// Tokens of a first page and of a second.
Tokens prompt(uint64_t first, uint64_t second) {
  Tokens all = tokens_from(first, 4);
  const Tokens more = tokens_from(second, 4);
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// Pages that are allocated when these prompts have come, each to a sequence of
// its own.
int64_t pages_of(const qkvet_kernel* kernel,
                 const std::vector<Tokens>& prompts) {
  CacheProblem p = kProblem;
  p.sequences = static_cast<int64_t>(prompts.size());
  OpenCache cache(kernel, p);
  for (int64_t s = 0; s < p.sequences; ++s) {
    EXPECT_EQ(cache.step(s, prompts[size_t(s)], 1), QKVET_OK);
    EXPECT_LE(cache.error(), 1);
  }
  for (int64_t s = 0; s < p.sequences; ++s) {
    EXPECT_EQ(cache.step(s, {}, 1), QKVET_OK);
    EXPECT_LE(cache.error(), 1);
  }
  return cache.memory() / kPage;
}

// A prompt that comes has pages of its own, until it is known to be one that is
// there: those are free then, for the next one.
TEST(CacheMemory, OfOneBeginningIsSharedByPrefix) {
  const Tokens prompt_a = prompt(1, 11);
  for (const qkvet_kernel* kernel : kinds("paged")) {
    EXPECT_EQ(pages_of(kernel, {prompt_a, prompt_a, prompt_a}), 6);
  }
  for (const qkvet_kernel* kernel : kinds("prefix")) {
    EXPECT_EQ(pages_of(kernel, {prompt_a, prompt_a, prompt_a}), 4);
    // The same first page only: 2 + 2, of which one is free.
    EXPECT_EQ(pages_of(kernel, {prompt_a, prompt(1, 21), prompt(1, 31)}), 5);
    // The same second page behind another first one is another page.
    EXPECT_EQ(pages_of(kernel, {prompt_a, prompt(5, 11), prompt(6, 11)}), 6);
  }
}

// A page that is shared by its bytes is copied like one that a fork shares, and
// one that was rewritten is no longer found.
TEST(CacheMemory, OfOneBeginningIsSafeFromItsHolders) {
  for (const qkvet_kernel* kernel : kinds("prefix")) {
    OpenCache cache(kernel, kProblem);
    ASSERT_EQ(cache.step(0, prompt(1, 11), 1), QKVET_OK);
    ASSERT_EQ(cache.step(1, prompt(1, 11), 1), QKVET_OK);
    ASSERT_EQ(cache.truncate(1, 6), QKVET_OK);
    ASSERT_EQ(cache.step(1, tokens_from(41, 2), 2), QKVET_OK);
    EXPECT_LE(cache.error(), 1);
    ASSERT_EQ(cache.step(0, {}, 1), QKVET_OK);
    EXPECT_LE(cache.error(), 1);
    // Alone again, the first one rewrites its page; the third asks for the old.
    ASSERT_EQ(cache.truncate(0, 6), QKVET_OK);
    ASSERT_EQ(cache.step(0, {51}, 1), QKVET_OK);
    ASSERT_EQ(cache.step(2, prompt(1, 11), 8), QKVET_OK);
    EXPECT_LE(cache.error(), 1);
    ASSERT_EQ(cache.step(0, {52}, 1), QKVET_OK);
    ASSERT_EQ(cache.step(2, {61}, 4), QKVET_OK);
    EXPECT_LE(cache.error(), 1);
    for (const int64_t s : {0, 1, 2}) {
      EXPECT_TRUE(cache.holds_its_history(s)) << s;
    }
  }
}

// A page that is free has its old bytes, and must not be found by them: the
// next one who needs a page gets it.
TEST(CacheMemory, OfOneBeginningIsNotFoundInFreePages) {
  for (const qkvet_kernel* kernel : kinds("prefix")) {
    OpenCache cache(kernel, kProblem);
    ASSERT_EQ(cache.step(0, prompt(1, 11), 1), QKVET_OK);
    ASSERT_EQ(cache.step(1, prompt(21, 31), 1), QKVET_OK);
    ASSERT_EQ(cache.reset(0), QKVET_OK);
    ASSERT_EQ(cache.reset(1), QKVET_OK);
    ASSERT_EQ(cache.step(2, prompt(1, 11), 1), QKVET_OK);
    ASSERT_EQ(cache.step(1, tokens_from(41, 16), 1), QKVET_OK);
    EXPECT_TRUE(cache.holds_its_history(1));
    EXPECT_TRUE(cache.holds_its_history(2));
  }
}

}  // namespace
}  // namespace qkvet::impl::cache_memory_test
