// SPDX-License-Identifier: Apache-2.0
// What the kinds of caches differ in, each a question to every correct one:
// forks, orders, windows, rollback, what is refused, what is read back. That a
// question can fail is shown by caches that are wrong on purpose.
#include "impl/testing/cache_kinds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "impl/testing/cache_wrong_kinds.h"

namespace qkvet::impl::cache_kinds_test {
namespace {

bool forks(const qkvet_kernel* kernel, const CacheProblem& p) {
  Story story(kernel, p);
  story.step(0, 6, 6);
  story.fork(0, 1);
  for (const int64_t tokens : {1, 1, 3}) {  // in a page, to its end, beyond
    story.step(0, tokens, 1);
    story.step(1, tokens, tokens);
    story.ask_all();
  }
  story.fork(1, 2);
  story.truncate(1, 5);  // into a page that is shared and full
  story.step(1, 2, 2);
  story.ask_all();
  story.step(2, 2, 1);
  story.fork(2, 2);
  story.ask_all();
  story.fork(0, 1);  // which forgets its own
  story.check(story.cache.reset(0) == QKVET_OK);
  story.step(1, 1, 1);
  story.ask_all();
  story.fork(0, 2);  // from nothing
  story.ask_all();
  story.step(2, 3, 3);
  story.step(0, 5, 5);
  story.ask_all();
  return story.holds();
}

bool orders(const qkvet_kernel* kernel, const CacheProblem& p) {
  Story story(kernel, p);
  story.step(0, 3, 3);
  story.step(1, 6, 6);
  story.step(2, 9, 9);
  for (const std::vector<int64_t>& parents :
       {std::vector<int64_t>{1, 1, 0}, {2, 0, 1}, {0, 1, 2}, {1, 2, 1}}) {
    story.reorder(parents);
    story.ask_all();
    for (const int64_t s : {0, 1, 2}) {
      story.step(s, 1, 2);
    }
    story.ask_all();
  }
  return story.holds();
}

// Prompts longer than the window, one at once and one behind it, and decoding
// far beyond.
bool windows(const qkvet_kernel* kernel, const CacheProblem& base) {
  bool holds = true;
  for (const auto& [window, first] :
       {std::pair{1, 0}, {3, 0}, {3, 2}, {5, 9}}) {
    CacheProblem p = base;
    p.window = window;
    p.first_tokens = first;
    Story story(kernel, p);
    story.step(0, 10, 10);
    story.step(1, 2, 2);
    for (int n = 0; n < 9; ++n) {
      story.step(0, 1, 1);
    }
    story.step(0, 8, 4);
    story.step(1, 11, 12);
    story.fork(0, 2);
    story.step(2, 2, 3);
    story.step(0, 1, 0);
    story.step(0, 0, 1);
    story.ask_all();
    holds = story.holds() && holds;
  }
  return holds;
}

// Everything that a window may be asked for, back to the oldest token.
bool rollback(const qkvet_kernel* kernel, const CacheProblem& base) {
  bool holds = true;
  for (const auto& [window, first, back] :
       {std::tuple{3, 0, 2}, {1, 1, 4}, {4, 2, 1}}) {
    CacheProblem p = base;
    p.window = window;
    p.first_tokens = first;
    p.rollback = back;
    Story story(kernel, p);
    story.step(0, 9, 9);
    for (const int64_t tokens : {3, 1, 8}) {
      const int64_t most = story.cache.length(0);
      story.truncate(0, most - back);
      story.step(0, 0, 1);
      story.step(0, 1, 2);
      story.fork(0, 1);
      story.step(1, 1, 3);
      story.step(0, tokens, tokens + (back > 1 ? 1 : 0));
      const int64_t held = story.cache.length(0);
      const int64_t oldest = std::max(held, most) - back - 1;
      story.step(0, back, held + back - oldest);
      story.ask_all();
    }
    holds = story.holds() && holds;
  }
  return holds;
}

bool refusals(const qkvet_kernel* kernel, const CacheProblem& base) {
  CacheProblem p = base;
  p.window = 3;
  p.first_tokens = 1;
  p.rollback = 2;
  Story story(kernel, p);
  OpenCache& cache = story.cache;
  // Nothing is asked any more of a cache that did what it should have refused.
  const auto refused = [&story](const auto& call) {
    story.check(story.holds() && call() == QKVET_INVALID_ARGUMENT &&
                story.cache.reason()[0] != '\0');
  };
  story.step(0, 12, 12);
  story.step(2, 5, 5);
  refused([&] { return cache.truncate(0, 9); });
  refused([&] {
    return cache.step(0, tokens_from(90, 2), 6);
  });  // stands at 8, not at 9
  refused([&] { return cache.step(0, {}, 4); });
  story.truncate(0, 10);
  refused([&] { return cache.truncate(0, 9); });
  refused([&] { return cache.step(0, {90}, 3); });
  story.fork(0, 1);
  refused([&] { return cache.truncate(1, 9); });
  refused([&] { return cache.step(1, {}, 2); });
  story.step(1, 1, 2);
  refused([&] { return cache.fork(0, 3); });
  refused([&] { return cache.fork(-1, 0); });
  refused([&] { return cache.reorder({0, 1, 3}); });
  refused([&] { return cache.reorder({-1, 1, 2}); });
  story.ask_all();
  story.step(0, 1, 2);
  story.check(story.holds() && cache.reset(0) == QKVET_OK);
  story.step(0, 2, 2);
  story.truncate(0, 0);
  story.step(0, 3, 3);
  story.ask_all();
  return story.holds();
}

bool contents(const qkvet_kernel* kernel, const CacheProblem& base) {
  bool holds = true;
  for (const Layout layout : {Layout::kBhtd, Layout::kBhdt, Layout::kGaps}) {
    for (const int64_t window : {0, 4}) {
      CacheProblem p = base;
      p.layout = layout;
      p.window = window;
      Story story(kernel, p);
      story.step(0, 3, 3);
      story.step(1, 9, 9);
      story.step(1, 1, 1);
      story.fork(1, 2);
      story.step(2, 2, 2);
      for (int64_t s = 0; story.holds() && s < p.sequences; ++s) {
        story.check(story.cache.holds_its_history(s));
      }
      holds = story.holds() && holds;
    }
  }
  return holds;
}

constexpr struct {
  const char* name;
  bool (*holds)(const qkvet_kernel*, const CacheProblem&);
} kQuestions[] = {{"forks", forks},       {"orders", orders},
                  {"windows", windows},   {"rollback", rollback},
                  {"refusals", refusals}, {"contents", contents}};

void expect_of_all(const std::string& question) {
  for (const auto& [name, holds] : kQuestions) {
    for (const qkvet_kernel* kernel : caches(/*faulty=*/false)) {
      const bool says = holds != contents ||
                        (kernel->cache->read_back != nullptr &&
                         !has_option(kernel, QKVET_CACHE_READ_BACK_COMPUTES));
      if (question != name || !says) {
        continue;
      }
      ASSERT_TRUE(has_option(kernel, QKVET_CACHE_WINDOW)) << kernel->name;
      for (const CacheProblem& p : storages(kernel, kThree)) {
        EXPECT_TRUE(holds(kernel, p))
            << kernel->name << " " << name << " coded " << int(p.coded)
            << " per channel " << p.per_channel << " type " << int(p.type);
      }
    }
  }
}

TEST(CacheKinds, ForksGoTheirOwnWay) { expect_of_all("forks"); }
TEST(CacheKinds, OrdersAreReadBeforeTheyAreWritten) { expect_of_all("orders"); }
TEST(CacheKinds, WindowsShowTheirKeysAndNoOthers) { expect_of_all("windows"); }
TEST(CacheKinds, RollbackReachesAsFarAsItSays) { expect_of_all("rollback"); }
TEST(CacheKinds, RefusalsChangeNothing) { expect_of_all("refusals"); }
TEST(CacheKinds, ContentsAreReadBack) { expect_of_all("contents"); }

TEST(CacheKinds, EveryQuestionCanFail) {
  for (const auto& [name, holds] : kQuestions) {
    int wrong = 0;
    for (const WrongKind& kind : wrong_kinds()) {
      if (std::string(kind.question) == name) {
        ++wrong;
        ASSERT_NE(kind.kernel, nullptr) << name;
        bool all = true;
        for (const CacheProblem& p : storages(kind.kernel, kThree)) {
          all = holds(kind.kernel, p) && all;
        }
        EXPECT_FALSE(all) << kind.kernel->name;
      }
    }
    EXPECT_GT(wrong, 0) << name;
  }
}

// A hash says where to look, and not what is there.
TEST(CacheKinds, PrefixesAreComparedByteByByte) {
  for (const auto& [name, holds] : kQuestions) {
    EXPECT_TRUE(holds(prefixes_of_one_hash(), kThree)) << name;
  }
}

TEST(CacheKinds, AreAllThereAtBothInstructionSets) {
  for (const std::string name : {"contiguous", "growing", "paged", "prefix",
                                 "ring", "quantised", "split"}) {
    const qkvet_kernel* const kernel = find_kernel("kv_cache/" + name);
    ASSERT_NE(kernel, nullptr) << name;
    const qkvet_kernel* const wide = find_kernel("kv_cache_avx2/" + name);
    if (wide != nullptr) {
      EXPECT_EQ(wide->cache->options, kernel->cache->options) << name;
      EXPECT_STREQ(wide->source_file, kernel->source_file) << name;
    }
  }
}

TEST(CacheKinds, RefuseWhatTheyDoNotKeep) {
  for (const qkvet_kernel* kernel : caches(/*faulty=*/false)) {
    for (const CacheProblem& p :
         {CacheProblem{.window = -1}, CacheProblem{.first_tokens = 1},
          CacheProblem{.rollback = 1},
          CacheProblem{.window = 2, .rollback = -1},
          CacheProblem{.window = 2, .first_tokens = -1},
          CacheProblem{.per_channel = true}}) {
      const OpenCache cache(kernel, p);
      EXPECT_EQ(cache.status(), QKVET_INVALID_ARGUMENT) << kernel->name;
      EXPECT_STRNE(cache.reason(), "");
    }
    for (const Coded coded : {Coded::kInt8, Coded::kFp8}) {
      const OpenCache cache(kernel, {.coded = coded});
      const bool keeps =
          has_option(kernel, coded == Coded::kInt8 ? QKVET_CACHE_INT8_PER_TOKEN
                                                   : QKVET_CACHE_FP8_PER_TOKEN);
      EXPECT_EQ(cache.status(), keeps ? QKVET_OK : QKVET_UNSUPPORTED)
          << kernel->name;
      EXPECT_EQ(cache.reason()[0] == '\0', keeps);
    }
  }
}

// Into tensors of other shapes nothing is read, and an empty sequence is read
// into an empty one.
TEST(CacheKinds, ReadBackChecksItsTensors) {
  for (const qkvet_kernel* kernel : caches(/*faulty=*/false)) {
    if (kernel->cache->read_back == nullptr) {
      continue;
    }
    OpenCache cache(kernel, {.sequences = 2, .type = Storage::kF16});
    EXPECT_EQ(cache.read_back(1).status, QKVET_OK) << kernel->name;
    ASSERT_EQ(cache.step(0, tokens_from(1, 2), 0), QKVET_OK);
    EXPECT_TRUE(cache.holds_its_history(0));
    EXPECT_EQ(cache.read_back(-1, Layout::kBhtd, /*rows=*/2).status,
              QKVET_INVALID_ARGUMENT);
    EXPECT_EQ(cache.read_back(0, Layout::kBhtd, /*rows=*/3).status,
              QKVET_INVALID_ARGUMENT);
    EXPECT_STRNE(cache.reason(), "");
  }
}

}  // namespace
}  // namespace qkvet::impl::cache_kinds_test
