// SPDX-License-Identifier: Apache-2.0
// Copies of sequences, reading back, and what a cache is made for.
#include <gtest/gtest.h>

#include "core/testing/tables_plugin_calls.h"

namespace qkvet::cache_moves_test {
namespace {

class MoveWays : public BothWays {
 protected:
  const std::unique_ptr<Executor> executor_ = open("tables");
};
INSTANTIATE_TEST_SUITE_P(Ways, MoveWays, testing::Bool(), way_name);

// [Hkv, tokens, kKeyWidth]: keys are unit vectors, one per token.
std::vector<float> keys_of(const CallOutcome& outcome) {
  return floats(outcome.stage_k);
}

TEST_P(MoveWays, ForksAndReorders) {
  CacheCalls story;
  story.create().step(0, {0, 1}, {}).step(1, {2}, {}).fork(0, 1);
  story.step(1, {3}, {3}).step(0, {}, {1}).reorder("ba").step(0, {}, {3});
  story.reorder("bb").fork(1, 1).step(1, {2}, {1}).step(0, {}, {1});
  const auto outcomes = story.run(*executor_, "cache");
  expect_done(outcomes[3], {2, 2});
  expect_done(outcomes[4], {2, 3}, {3});
  expect_done(outcomes[5], {2, 3}, {1});
  expect_done(outcomes[6], {3, 2});
  expect_done(outcomes[7], {3, 2}, {3});
  expect_done(outcomes[8], {2, 2});
  expect_done(outcomes[9], {2, 2});
  expect_done(outcomes[10], {2, 3}, {1});
  expect_done(outcomes[11], {2, 3}, {1});
}

TEST_P(MoveWays, ReadsBack) {
  for (const Placement placement : kPlacements) {
    CacheCalls story;
    story.create().step(0, {2, 0}, {}).step(1, {1}, {});
    story.read_back(0, 2).read_back(1, 1).read_back(0, 3);
    for (KernelCall& call : story.calls) call.placement = placement;
    const auto outcomes = story.run(*executor_, "cache");
    EXPECT_EQ(outcomes[3].status, CallStatus::kDone) << outcomes[3].text;
    const auto k = keys_of(outcomes[3]), other = keys_of(outcomes[4]);
    ASSERT_EQ(k.size(), size_t{2 * kKeyWidth});
    for (int64_t c = 0; c < kKeyWidth; ++c) {
      EXPECT_EQ(k[static_cast<size_t>(c)] != 0, c == 2);
      EXPECT_EQ(k[static_cast<size_t>(kKeyWidth + c)] != 0, c == 0);
      EXPECT_EQ(other[static_cast<size_t>(c)] != 0, c == 1);
    }
    EXPECT_EQ(floats(outcomes[3].stage_v), (std::vector<float>{21, 22, 1, 2}));
    expect_outcome(
        outcomes[5], CallStatus::kRefused,
        "read_back() returned INVALID_ARGUMENT: k has another shape");
    EXPECT_TRUE(outcomes[5].stage_k.empty());
  }
}

TEST_P(MoveWays, Evictions) {
  CacheCalls story;
  story.create().step(0, {0, 1, 2}, {}).step(1, {3}, {});
  story.evict(0, 1, 1).step(0, {3}, {0, 2}).read_back(0, 3);
  const auto outcomes = story.run(*executor_, "cache");
  EXPECT_EQ(outcomes[3].status, CallStatus::kDone) << outcomes[3].text;
  EXPECT_EQ(outcomes[3].lengths, (Lengths{2, 1}));
  expect_done(outcomes[4], {3, 1}, {0, 2});
  EXPECT_EQ(floats(outcomes[5].stage_v),
            (std::vector<float>{1, 2, 21, 22, 31, 32}));
}

TEST(SandboxStory, CopiesThatCannotBe) {
  const auto executor = tables();
  CacheCalls story;
  story.create().step(0, {0}, {}).fork(0, 2).fork(3, 0).reorder("ac");
  story.read_back(2, 1);
  const auto outcomes = story.run(*executor, "cache");
  const char* const texts[] = {
      "fork() returned INVALID_ARGUMENT: no such sequence",
      "fork() returned INVALID_ARGUMENT: no such sequence",
      "reorder() returned INVALID_ARGUMENT: no such parent",
      "read_back() returned INVALID_ARGUMENT: no such sequence"};
  for (size_t i = 0; i < std::size(texts); ++i) {
    expect_outcome(outcomes[2 + i], CallStatus::kRefused, texts[i]);
    EXPECT_EQ(outcomes[2 + i].lengths, (Lengths{1, 0}));
  }
}

TEST(SandboxStory, CopiesNeedNotBeOfferedAndACrashNamesTheFunction) {
  const auto executor = tables();
  const std::pair<std::string, CacheCalls> rows[] = {
      {"fork", CacheCalls().create().fork(0, 1)},
      {"reorder", CacheCalls().create().reorder("ba")},
      {"read_back", CacheCalls().create().read_back(0, 0)},
      {"evict", CacheCalls().create().evict(0, 0, 1)}};
  for (const auto& [name, story] : rows) {
    expect_outcome(story.run(*executor, "no_truncate")[1],
                   CallStatus::kUnsupported, name + " is not offered");
    expect_outcome(story.run(*executor, name + "_crash")[1], CallStatus::kCrash,
                   "SIGSEGV at address 0x10 in " + name + "()");
  }
}

// The kernel returns its arguments as a length.
TEST_P(MoveWays, TheFormOfTheCacheArrives) {
  std::vector<float> k_scale(kKeyWidth), v_scale(2);
  k_scale.back() = 3;
  v_scale.back() = 7;
  CacheCalls story;
  story.create().change([](KernelCall& call) {
    call.cache = {5, 2, 3, StoredAs::kAsGiven};
  });
  story.create().change([&](KernelCall& call) {
    call.shape.Hkv = 1;
    call.cache = {0, 0, 0, StoredAs::kInt8PerChannel};
    call.k_scale = reinterpret_cast<const std::byte*>(k_scale.data());
    call.v_scale = reinterpret_cast<const std::byte*>(v_scale.data());
  });
  const auto outcomes = story.run(*executor_, "form");
  EXPECT_EQ(outcomes[0].lengths, (Lengths{52300, 52300})) << outcomes[0].text;
  EXPECT_EQ(outcomes[1].lengths, (Lengths{8237, 8237})) << outcomes[1].text;
}

TEST(SandboxStory, FormsThatCannotBe) {
  const auto executor = tables();
  const struct {
    CacheForm form;
    const char* kernel;
    const char* text;
  } rows[] = {
      {{0, 1, 0, StoredAs::kAsGiven}, "cache", "win is missing"},
      {{-1, 0, 0, StoredAs::kAsGiven}, "cache", "0 or more"},
      {{0, 0, 0, StoredAs::kInt8PerChannel}, "cache", "scales are missing"},
      {{0, 0, 0, StoredAs::kFp8PerToken},
       "cache",
       "quantised storage (stored=fp8token) is not declared"}};
  for (const auto& row : rows) {
    CacheCalls story;
    story.create().change([&](KernelCall& call) { call.cache = row.form; });
    const auto outcome = story.run(*executor, row.kernel)[0];
    EXPECT_EQ(outcome.status, CallStatus::kUnsupported);
    EXPECT_NE(outcome.text.find(row.text), std::string::npos) << outcome.text;
  }
}

}  // namespace
}  // namespace qkvet::cache_moves_test
