// SPDX-License-Identifier: Apache-2.0
// Stories: calls to a cache, from its creation on.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "core/door/call_reply.h"
#include "core/testing/tables_plugin_calls.h"

namespace qkvet::cache_calls_test {
namespace {

class StoryWays : public BothWays {
 protected:
  const std::unique_ptr<Executor> executor_ = open("tables");
};
INSTANTIATE_TEST_SUITE_P(Ways, StoryWays, testing::Bool(), way_name);

void expect_not_run(const CallOutcome& outcome, const std::string& text) {
  EXPECT_EQ(outcome.status, CallStatus::kNotRun);
  EXPECT_EQ(outcome.text, text);
  EXPECT_TRUE(outcome.lengths.empty());
}

constexpr char kLost[] = "the process that held the cache has ended";
constexpr char kNone[] = "there is no cache to act on";

void check_story(Executor& executor) {
  for (const Placement placement : kPlacements) {
    CacheCalls story;
    story.create().step(0, {0, 1, 2}, {0, 1, 2}).step(0, {3}, {1});
    story.step(1, {2}, {2}).step(0, {}, {0}).step(1, {0}, {});
    story.truncate(0, 2).step(0, {3}, {3}).reset(1).step(1, {1}, {1});
    story.change([](KernelCall& call) { call.want_lse = true; });
    for (KernelCall& call : story.calls) call.placement = placement;
    const auto outcomes = story.run(executor, "cache");
    expect_done(outcomes[0], {0, 0});
    expect_done(outcomes[1], {3, 0}, {0, 1, 2});
    expect_done(outcomes[2], {4, 0}, {1});
    expect_done(outcomes[3], {4, 1}, {2});
    expect_done(outcomes[4], {4, 1}, {0});
    expect_done(outcomes[5], {4, 2});
    expect_done(outcomes[6], {2, 2});
    expect_done(outcomes[7], {3, 2}, {3});
    expect_done(outcomes[8], {3, 0});
    expect_done(outcomes[9], {3, 1}, {1});
    EXPECT_EQ(floats(outcomes[9].lse), std::vector<float>({500, 500}));
    // The control: another query gives something else.
    EXPECT_NE(floats(outcomes[9].o), values_of({2}));
    EXPECT_TRUE(outcomes[8].lse.empty());
  }
}

TEST_P(StoryWays, StepsResetsAndCuts) { check_story(*executor_); }

// Each is refused, leaves the lengths as they were, and the story continues.
void check_refusals(Executor& executor, const std::string& kernel) {
  const bool silent = kernel == "silent";
  const auto mistake = [](Mistake m) {
    return [m](KernelCall& call) { call.mistake = m; };
  };
  CacheCalls story;
  story.create().step(0, {0, 1}, {});
  story.step(5, {0}, {}).step(-1, {0}, {}).step(0, {}, {});
  story.step(0, {0}, {}).change(mistake(Mistake::kValueAbsent));
  story.step(0, {0}, {}).change(mistake(Mistake::kKeyWidth));
  story.step(1, {}, {0}).truncate(0, 3).truncate(0, -1).reset(2);
  story.evict(0, 1, 2).evict(0, -1, 1);
  story.step(0, {1, 2, 3}, {});
  story.step(0, {2}, {2});
  const auto outcomes = story.run(executor, kernel);
  const std::pair<std::string, std::string> rows[] = {
      {"step", "no such sequence"},
      {"step", "no such sequence"},
      {"step", "a step without k, v and q"},
      {"step", "k and v come together"},
      {"step", "k or v has another shape"},
      {"step", "more queries than tokens"},
      {"truncate", "not so many tokens"},
      {"truncate", "not so many tokens"},
      {"reset", "no such sequence"},
      {"evict", "no such tokens"},
      {"evict", "no such tokens"},
      {"step", "the sequence is full"}};
  for (size_t i = 0; i < std::size(rows); ++i) {
    const CallOutcome& outcome = outcomes[i + 2];
    const bool is_full = rows[i].second == "the sequence is full";
    expect_outcome(outcome, CallStatus::kRefused,
                   rows[i].first + "() returned " +
                       (is_full ? "OUT_OF_MEMORY" : "INVALID_ARGUMENT") +
                       (silent ? "" : ": " + rows[i].second));
    EXPECT_EQ(outcome.gave_reason, !silent);
    EXPECT_EQ(outcome.lengths, (Lengths{2, 0}));
  }
  expect_done(outcomes.back(), {3, 0}, {2});
}

TEST_P(StoryWays, Refusals) {
  check_refusals(*executor_, "cache");
  check_refusals(*executor_, "silent");
}

TEST(SandboxStory, ACrashEndsItsStoryOnly) {
  const auto executor = tables();
  const struct {
    const char* kernel;
    size_t culprit;
    const char* text;
  } rows[] = {{"create_crash", 0, "SIGSEGV at address 0x10 in create()"},
              {"length_crash", 0, "SIGSEGV at address 0x10 in length()"},
              {"memory_crash", 0, "SIGSEGV at address 0x10 in memory()"},
              {"step_crash", 2, "SIGSEGV at address 0x10 in step()"},
              {"truncate_crash", 3, "SIGSEGV at address 0x10 in truncate()"},
              {"reset_crash", 4, "SIGSEGV at address 0x10 in reset()"}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.kernel);
    CacheCalls story;
    for (int i = 0; i < 2; ++i)
      story.create()
          .step(0, {0, 1}, {})
          .step(0, {}, {1})
          .truncate(0, 1)
          .reset(0);
    const auto outcomes = story.run(*executor, row.kernel);
    for (size_t i = 0; i < outcomes.size(); ++i) {
      const size_t at = i % 5;
      if (at > row.culprit) {
        expect_not_run(outcomes[i], kLost);
      } else if (at == row.culprit) {
        EXPECT_EQ(outcomes[i].status, CallStatus::kCrash);
        EXPECT_EQ(outcomes[i].text, row.text);
      } else {
        EXPECT_EQ(outcomes[i].status, CallStatus::kDone) << outcomes[i].text;
      }
    }
  }
  check_story(*executor);
}

TEST(SandboxStory, ACrashOfDestroyIsBlamedOnTheNextCreate) {
  const auto executor = tables();
  CacheCalls story;
  story.create().step(0, {1}, {1}).create().step(0, {1}, {1}).create();
  const auto outcomes = story.run(*executor, "destroy_crash");
  expect_done(outcomes[1], {1, 0}, {1});
  EXPECT_EQ(outcomes[2].text, "SIGSEGV at address 0x10 in destroy()");
  expect_not_run(outcomes[3], kLost);
  expect_done(outcomes[4], {0, 0});
}

// The process ends between two runs: no command's fault.
TEST(SandboxStory, ACrashBehindTheCall) {
  const auto executor = tables();
  CacheCalls first;
  first.create();
  CacheCalls rest;
  rest.step(0, {1}, {1}).create().step(0, {1}, {1});
  expect_done(first.run(*executor, "late_crash")[0], {0, 0});
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  const auto outcomes = rest.run(*executor, "late_crash");
  expect_not_run(outcomes[0], kLost);
  expect_done(outcomes[2], {1, 0}, {1});
}

TEST(SandboxStory, AHangEndsTheRun) {
  const auto executor = tables(soon_stalling());
  CacheCalls story;
  story.create().step(0, {1}, {}).step(0, {}, {1}).reset(0).create();
  const auto outcomes = story.run(*executor, "step_hang");
  EXPECT_EQ(outcomes[2].status, CallStatus::kHang);
  expect_not_run(outcomes[3], "");
  expect_not_run(outcomes[4], "");
  CacheCalls rest;
  rest.reset(0).create();
  expect_not_run(rest.run(*executor, "step_hang")[0], kLost);
  expect_done(rest.run(*executor, "step_hang")[1], {0, 0});
}

// A call that was left out after the culprit has the outcome that it would have
// had.
TEST(SandboxStory, WhatIsLeftOutBehindACrash) {
  const auto executor = tables();
  const auto halves = [](KernelCall& call) { call.q_dtype = Dtype::kF16; };
  CacheCalls story;
  story.create().step(0, {}, {1}).step(0, {1}, {}).create().change(halves);
  story.reset(0).create().step(0, {1}, {});
  const auto outcomes = story.run(*executor, "step_crash");
  EXPECT_EQ(outcomes[1].text, "SIGSEGV at address 0x10 in step()");
  expect_not_run(outcomes[2], kLost);
  EXPECT_EQ(outcomes[3].status, CallStatus::kUnsupported);
  expect_outcome(outcomes[4], CallStatus::kUnsupported,
                 "q f16, kv f32, o f32 is not declared");
  expect_done(outcomes[6], {1, 0});
}

// Longer than a batch: what follows the crash is in a batch of its own.
TEST(SandboxStory, StoriesAreLongerThanBatches) {
  const auto executor = tables();
  CacheCalls story;
  const auto tell = [&] {
    story.create(1, 200);
    for (int i = 0; i < 70; ++i) story.step(0, {i % 4}, {i % 4});
    story.step(0, {}, {1});
    for (int i = 0; i < 40; ++i) story.step(0, {i % 4}, {});
  };
  tell();
  tell();
  const size_t half = story.calls.size() / 2;
  const auto good = story.run(*executor, "cache");
  const auto cut = story.run(*executor, "step_crash");
  for (size_t i = 0; i < 2 * half; ++i) {
    const int n = static_cast<int>(i % half);
    EXPECT_EQ(good[i].lengths, Lengths{n - (n > 70 ? 1 : 0)});
    if (n == 0 || n > 71) continue;
    expect_done(good[i], good[i].lengths, {n == 71 ? 1 : (n - 1) % 4});
  }
  for (size_t i = 0; i < 2 * half; ++i) {
    const size_t n = i % half;
    if (n < 71)
      EXPECT_EQ(cut[i].lengths, Lengths{static_cast<int64_t>(n)});
    else if (n == 71)
      EXPECT_EQ(cut[i].text, "SIGSEGV at address 0x10 in step()");
    else
      expect_not_run(cut[i], kLost);
  }
}

TEST_P(StoryWays, WhatIsLeftOutEndsTheStory) {
  CacheCalls story;
  story.create().change([](KernelCall& call) { call.q_dtype = Dtype::kF16; });
  story.step(0, {1}, {1}).reset(0).create().step(0, {1}, {1});
  const auto outcomes = story.run(*executor_, "cache");
  for (size_t i = 0; i < 3; ++i) {
    expect_outcome(outcomes[i], CallStatus::kUnsupported,
                   "q f16, kv f32, o f32 is not declared");
  }
  expect_done(outcomes[4], {1, 0}, {1});

  CacheCalls uncut;
  uncut.create().step(0, {1}, {1}).truncate(0, 0).step(0, {1}, {1});
  const auto rest = uncut.run(*executor_, "no_truncate");
  expect_done(rest[1], {1, 0}, {1});
  expect_outcome(rest[2], CallStatus::kUnsupported, "truncate is not offered");
  expect_not_run(rest[3],
                 "an earlier call to the cache was not made: truncate is not "
                 "offered");
}

TEST_P(StoryWays, WithoutACacheNothingIsDone) {
  CacheCalls none;
  none.step(0, {1}, {1});
  expect_not_run(none.run(*executor_, "cache")[0], kNone);

  CacheCalls refused;
  refused.create().step(0, {1}, {1});
  auto outcomes = refused.run(*executor_, "no_create");
  expect_outcome(outcomes[0], CallStatus::kUnsupported,
                 "create() returned UNSUPPORTED: keeps no such cache");
  EXPECT_TRUE(outcomes[0].gave_reason);
  expect_not_run(outcomes[1], kNone);
  outcomes = refused.run(*executor_, "null_cache");
  expect_outcome(outcomes[0], CallStatus::kRefused,
                 "create() returned OK and no cache");
  expect_not_run(outcomes[1], kNone);

  // A story may continue in the next run, but only with its own kernel.
  CacheCalls first;
  first.create();
  first.run(*executor_, "cache");
  expect_not_run(none.run(*executor_, "silent")[0],
                 "the cache is another kernel's");
  expect_done(none.run(*executor_, "cache")[0], {1, 0}, {1});
}

TEST(SandboxStory, BuffersOfStepsAreGuarded) {
  const auto executor = tables();
  CacheCalls story;
  story.create().step(0, {0, 1}, {}).step(0, {}, {1}).reset(0);
  auto outcomes = story.run(*executor, "past_o");
  expect_outcome(outcomes[2], CallStatus::kFault,
                 "write past the end of o, offset 0 in step()");
  expect_fault(outcomes[2].fault, TensorName::kO, true, false, 0);
  expect_not_run(outcomes[3], kLost);
  story.calls[2].placement = Placement::kStart;
  outcomes = story.run(*executor, "past_o");
  EXPECT_EQ(outcomes[2].status, CallStatus::kDone);
  expect_fault(outcomes[2].damage, TensorName::kO, true, false, 0);
  expect_done(outcomes[3], {0, 0});
}

TEST_P(StoryWays, LengthsAreTheKernels) {
  CacheCalls story;
  story.create().step(1, {0, 1}, {1});
  EXPECT_EQ(story.run(*executor_, "cache")[1].lengths, (Lengths{0, 2}));
  EXPECT_EQ(story.run(*executor_, "wrong_length")[1].lengths, (Lengths{1, 3}));
  for (const CallOutcome& outcome : story.run(*executor_, "no_length")) {
    expect_outcome(outcome, CallStatus::kRefused,
                   "length() returned INVALID_ARGUMENT: lost count");
    EXPECT_TRUE(outcome.lengths.empty());
  }
}

TEST_P(StoryWays, MemoryIsTheKernels) {
  // k and v of a token, in f32.
  const int64_t token = (kKeyWidth + 2) * int64_t{sizeof(float)};
  CacheCalls story;
  story.create().step(1, {0, 1}, {1}).step(0, {2}, {}).step(0, {}, {});
  story.truncate(1, 1).reset(0);
  const int64_t tokens[] = {0, 2, 3, 3, 2, 1};  // the fourth call is refused
  const auto outcomes = story.run(*executor_, "cache");
  const auto untold = story.run(*executor_, "no_truncate");
  for (size_t i = 0; i < outcomes.size(); ++i) {
    EXPECT_EQ(outcomes[i].cache_bytes, tokens[i] * token) << i;
    EXPECT_EQ(untold[i].cache_bytes, -1) << i;
  }
  EXPECT_EQ(outcomes[3].status, CallStatus::kRefused);

  for (const CallOutcome& outcome : story.run(*executor_, "no_memory")) {
    expect_outcome(outcome, CallStatus::kRefused,
                   "memory() returned INVALID_ARGUMENT: lost count");
    EXPECT_EQ(outcome.cache_bytes, -1);
  }
  const auto wrong = story.run(*executor_, "wrong_memory");
  EXPECT_EQ(wrong[1].status, CallStatus::kRefused);
  EXPECT_EQ(wrong[1].text, "memory() returns " +
                               std::to_string(-1 - 2 * token) +
                               " bytes are allocated");
  EXPECT_EQ(wrong[1].cache_bytes, -1);
}

// The kernel itself may have written the reply.
TEST(CallReply, NoCacheTakesLessThanNothing) {
  CallReply reply;
  EXPECT_EQ(outcome_of(reply, {}).cache_bytes, -1);
  reply.cache_bytes = -7;
  EXPECT_EQ(outcome_of(reply, {}).cache_bytes, -1);
  reply.cache_bytes = 7;
  EXPECT_EQ(outcome_of(reply, {}).cache_bytes, 7);
  reply.clear();
  EXPECT_EQ(reply.cache_bytes, -1);
}

}  // namespace
}  // namespace qkvet::cache_calls_test
