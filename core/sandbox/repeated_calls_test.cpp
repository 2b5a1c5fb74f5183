// SPDX-License-Identifier: Apache-2.0
#include "core/sandbox/repeated_calls.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <ctime>
#include <thread>
#include <vector>

namespace qkvet::repeated_calls_test {
namespace {

constexpr int64_t kTimes = 2000;

int64_t g_live = 0;
int64_t live_bytes() { return g_live; }

// A call that returns a length: `answer` returns it for call n, from 1.
RepeatedCall repeat(const std::function<int64_t(int64_t)>& answer,
                    uint64_t flags = 0) {
  KernelInfo kernel;
  kernel.capabilities.flags = flags;
  CallPlan plan;
  plan.repeats = kTimes;
  TensorAddresses addresses{};
  CallReply reply;
  const CallAtOnce one{&plan, &addresses, &reply};
  int64_t made = 0;
  g_live = 0;
  repeat_calls(
      kernel, {&one, 1},
      [&](size_t) {
        reply.clear();
        reply.answer(CallStatus::kDone, "");
        reply.lengths_known = 1;
        reply.lengths[0] = answer(++made);
      },
      live_bytes);
  EXPECT_EQ(reply.repeated.made, made);
  return reply.repeated;
}

TEST(RepeatedCalls, AnswersThatStayTheSameAreAllMade) {
  const RepeatedCall repeated = repeat([](int64_t) { return 3; });
  EXPECT_EQ(repeated.made, kTimes);
  EXPECT_EQ(repeated.first_other, 0);
  EXPECT_EQ(repeated.bytes, 0);
  EXPECT_EQ(repeated.descriptors, 0);
  EXPECT_EQ(repeated.threads, 0);
}

TEST(RepeatedCalls, StopAtTheFirstOtherAnswer) {
  const auto wears = [](int64_t n) { return n > 1000 ? 4 : 3; };
  const RepeatedCall repeated = repeat(wears);
  EXPECT_EQ(repeated.first_other, 1001);
  EXPECT_EQ(repeated.made, 1001);
  // Other bits each time are what a nondeterministic kernel declares.
  EXPECT_EQ(repeat(wears, QKVET_FLAG_NONDETERMINISTIC).made, kTimes);
}

TEST(RepeatedCalls, MemoryThatGrowsToTheEndIsLeaked) {
  const RepeatedCall leaks = repeat([](int64_t) { return g_live += 64, 3; });
  EXPECT_EQ(leaks.bytes, 64 * leaks.grown_in);
  EXPECT_GE(leaks.grown_in, kTimes / 2);
  // Also for one in ten calls.
  EXPECT_GT(repeat([](int64_t n) { return g_live += n % 10 == 0, 3; }).bytes,
            0);
  // Memory that is kept up to a bound is no leak.
  for (const int64_t bound : {1, 100, 900}) {
    const auto keeps = [bound](int64_t n) {
      return g_live += n <= bound ? 64 : 0, 3;
    };
    EXPECT_EQ(repeat(keeps).bytes, 0) << bound;
  }
}

TEST(RepeatedCalls, MuchMemoryEndsThem) {
  const auto much = [](int64_t) { return g_live += int64_t{64} << 20, 3; };
  const RepeatedCall repeated = repeat(much);
  EXPECT_LT(repeated.made, 10);
  EXPECT_GT(repeated.bytes, 0);
}

TEST(RepeatedCalls, DescriptorsThatStayOpenAreLeaked) {
  std::vector<int> open_ones;
  const RepeatedCall repeated = repeat([&](int64_t) {
    open_ones.push_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
    return 3;
  });
  EXPECT_GT(repeated.descriptors, 0);
  EXPECT_LT(repeated.made, kTimes);  // before there are none left
  EXPECT_EQ(repeated.bytes, 0);
  for (const int fd : open_ones) close(fd);
}

TEST(RepeatedCalls, ThreadsThatDoNotEndAreLeaked) {
  std::atomic<bool> over = false;
  std::vector<std::thread> threads;
  const auto start = [&](int64_t n) {
    if (n <= 2 || threads.size() < 2)
      threads.emplace_back([&] { over.wait(false); });
    return 3;
  };
  EXPECT_EQ(repeat(start).threads, 0);  // a pool
  const RepeatedCall repeated = repeat([&](int64_t) {
    threads.emplace_back([&] { over.wait(false); });
    return 3;
  });
  EXPECT_GT(repeated.threads, 0);
  EXPECT_LT(repeated.made, kTimes);
  over = true;
  over.notify_all();
  for (std::thread& thread : threads) thread.join();
}

TEST(RepeatedCalls, SlowCallsAreFewer) {
  const RepeatedCall repeated = repeat([](int64_t) {
    const std::clock_t end = std::clock() + CLOCKS_PER_SEC / 20;
    while (std::clock() < end) {
    }
    return 3;
  });
  EXPECT_GE(repeated.made, 2);
  EXPECT_LE(repeated.made, 20);
}

}  // namespace
}  // namespace qkvet::repeated_calls_test
