// SPDX-License-Identifier: Apache-2.0
// Tokens leave the middle of a sequence: a question to every correct kind, and
// to kinds that are wrong on purpose.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "impl/testing/cache_kinds.h"
#include "impl/testing/cache_wrong_kinds.h"

namespace qkvet::impl::cache_evictions_test {
namespace {

bool evictions(const qkvet_kernel* kernel, const CacheProblem& p) {
  Story story(kernel, p);
  story.step(0, 9, 9);
  story.evict(0, 2, 3);  // over the border of a page
  story.ask_all();
  story.step(0, 3, 5);
  story.fork(0, 1);
  story.evict(0, 0, 1);  // from pages that both hold
  story.ask_all();
  story.evict(1, 1, 5);  // around the first gap
  story.step(1, 2, 4);
  story.step(0, 1, 2);
  story.ask_all();
  story.truncate(0, 4);
  story.evict(0, 3, 1);  // the last: what follows takes its place
  story.step(0, 2, 5);
  story.reorder({1, 0, 1});
  story.ask_all();
  for (const int64_t s : {0, 1, 2}) {
    story.step(s, 1, 3);
  }
  story.evict(2, 0, story.cache.length(2));
  story.step(2, 2, 2);
  story.ask_all();
  return story.holds();
}

bool refuses_evictions(const qkvet_kernel* kernel, const CacheProblem& p) {
  Story story(kernel, p);
  OpenCache& cache = story.cache;
  const auto refuses = [&](int64_t s, int64_t first, int64_t tokens) {
    story.check(story.holds() &&
                cache.evict(s, first, tokens) == QKVET_INVALID_ARGUMENT &&
                cache.reason()[0] != '\0');
  };
  story.step(0, 3, 3);
  refuses(0, -1, 1);
  refuses(0, 0, 0);
  refuses(0, 2, 2);
  refuses(0, 3, 1);
  refuses(0, 1, INT64_MAX);
  refuses(0, INT64_MAX, INT64_MAX);
  refuses(1, 0, 1);
  refuses(3, 0, 1);
  if (p.window > 0) {
    refuses(0, 0, 1);
  }
  story.ask_all();
  return story.holds();
}

bool evictions_are_refused(const qkvet_kernel* kernel,
                           const CacheProblem& base) {
  bool holds = true;
  for (const int64_t window : {0, 2}) {
    CacheProblem p = base;
    p.window = window;
    holds = refuses_evictions(kernel, p) && holds;
  }
  return holds;
}

void expect_of_all(bool (*holds)(const qkvet_kernel*, const CacheProblem&)) {
  for (const qkvet_kernel* kernel : caches(/*faulty=*/false)) {
    for (const CacheProblem& p : storages(kernel, kThree)) {
      EXPECT_TRUE(holds(kernel, p))
          << kernel->name << " coded " << int(p.coded) << " per channel "
          << p.per_channel << " type " << int(p.type);
    }
  }
}

TEST(CacheEvictions, KeepTheOthersInTheirPlaces) { expect_of_all(evictions); }

TEST(CacheEvictions, OfWhatIsNotThereAreRefused) {
  expect_of_all(evictions_are_refused);
}

// A page that closes up is shared if it has the bytes of another one.
TEST(CacheEvictions, PrefixesAreComparedByteByByte) {
  EXPECT_TRUE(evictions(prefixes_of_one_hash(), kThree));
}

bool holds_in_all(const qkvet_kernel* kernel,
                  bool (*holds)(const qkvet_kernel*, const CacheProblem&)) {
  bool all = true;
  for (const CacheProblem& p : storages(kernel, kThree)) {
    all = holds(kernel, p) && all;
  }
  return all;
}

qkvet_status evict_nothing(const qkvet_kernel*, qkvet_cache*, int64_t, int64_t,
                           int64_t, qkvet_text*) {
  return QKVET_OK;
}

TEST(CacheEvictions, BothQuestionsCanFail) {
  for (const char* fault :
       {"counts_positions", "drops_the_last", "keys_only",
        "position_from_count", "writes_shared_page", "scales_stay"}) {
    const qkvet_kernel* const kernel =
        find_kernel(std::string("faulty/cache_evict_") + fault);
    ASSERT_NE(kernel, nullptr) << fault;
    EXPECT_FALSE(holds_in_all(kernel, evictions)) << fault;
  }
  const qkvet_kernel* const right = find_kernel("kv_cache/contiguous");
  qkvet_cache_table table = *right->cache;
  table.evict = evict_nothing;
  qkvet_kernel wrong = *right;
  wrong.cache = &table;
  EXPECT_TRUE(holds_in_all(right, evictions_are_refused));
  EXPECT_FALSE(holds_in_all(&wrong, evictions_are_refused));
  EXPECT_FALSE(holds_in_all(&wrong, evictions));
}

}  // namespace
}  // namespace qkvet::impl::cache_evictions_test
