// SPDX-License-Identifier: Apache-2.0
// The threads of a launch, their order, and barriers of a block.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "impl/cuda/simt/simt_orders.h"

namespace simt_launch_test {
namespace {

using simt::Extent;
using simt::Order;

// ---- Indices ----------------------------------------------------------------

__global__ void count_visits(unsigned* visits, unsigned* wrong) {
  const unsigned block =
      (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread =
      (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  if (threadIdx.x >= blockDim.x || threadIdx.y >= blockDim.y ||
      threadIdx.z >= blockDim.z || blockIdx.x >= gridDim.x ||
      blockIdx.y >= gridDim.y || blockIdx.z >= gridDim.z) {
    ++*wrong;
    return;
  }
  ++visits[block * (blockDim.x * blockDim.y * blockDim.z) + thread];
}

TEST(SimtLaunch, EveryThreadOfEveryBlockRunsOnce) {
  const struct {
    Extent grid, block;
    unsigned total;
  } launches[] = {{1, 1, 1},
                  {{7}, {33}, 231},
                  {{77}, {1}, 77},
                  {{3, 2}, {5, 4}, 120},
                  {{2, 3, 4}, {4, 3, 2}, 576},
                  {{154}, {2}, 308},
                  {{1, 1, 11}, {1, 1, 64}, 704},
                  {{2}, {1024}, 2048}};
  for (const auto& launch : launches) {
    simt::in_every_order([&](simt::Schedule) {
      std::vector<unsigned> visits(launch.total, 0);
      unsigned wrong = 0;
      ASSERT_TRUE(SIMT_LAUNCH(count_visits, launch.grid, launch.block, 0,
                              nullptr, visits.data(), &wrong))
          << simt::fault_text();
      EXPECT_EQ(wrong, 0U);
      EXPECT_EQ(visits, std::vector<unsigned>(launch.total, 1));
    });
  }
}

__global__ void note_turn(std::vector<unsigned>* turns) {
  turns->push_back(blockIdx.x * blockDim.x + threadIdx.x);
}

std::vector<unsigned> turns_of(simt::Schedule schedule) {
  simt::set_schedule(schedule);
  std::vector<unsigned> turns;
  EXPECT_TRUE(SIMT_LAUNCH(note_turn, 5, 70, 0, nullptr, &turns));
  simt::set_schedule({});
  return turns;
}

TEST(SimtLaunch, OrdersAreWhatTheyAreCalled) {
  std::vector<unsigned> all(5 * 70);
  for (unsigned n = 0; n < all.size(); ++n) {
    all[n] = n;
  }
  const std::vector<unsigned> forward = turns_of({Order::kForward, 0});
  EXPECT_EQ(forward, all);
  const std::vector<unsigned> reverse = turns_of({Order::kReverse, 0});
  EXPECT_EQ(reverse, std::vector<unsigned>(all.rbegin(), all.rend()));
  const std::vector<unsigned> random = turns_of({Order::kRandom, 1});
  EXPECT_NE(random, forward);
  EXPECT_EQ(random, turns_of({Order::kRandom, 1})) << "a seed is an order";
  EXPECT_NE(random, turns_of({Order::kRandom, 2}));
  std::vector<unsigned> sorted = random;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, all);
}

// ---- Barriers ---------------------------------------------------------------

// Reads the values that another warp writes. Without the second barrier a round
// may overwrite a value that is still unread.
__global__ void rotate(int* values, int rounds, int barriers) {
  SIMT_DYNAMIC_SHARED(int, shared);
  const unsigned i = threadIdx.x;
  for (int r = 0; r < rounds; ++r) {
    shared[i] = values[i];
    if (barriers > 0) {
      __syncthreads();
    }
    values[i] = shared[(i + 33) % blockDim.x];
    if (barriers > 1) {
      __syncthreads();
    }
  }
}

// The number of schedules with correct results.
int schedules_right(int barriers) {
  constexpr int kThreads = 96, kRounds = 5;
  int right = 0;
  simt::in_every_order([&](simt::Schedule) {
    std::vector<int> values(kThreads), expected(kThreads);
    for (int i = 0; i < kThreads; ++i) {
      values[i] = i;
      expected[i] = (i + 33 * kRounds) % kThreads;
    }
    EXPECT_TRUE(SIMT_LAUNCH(rotate, 1, kThreads, kThreads * sizeof(int),
                            nullptr, values.data(), kRounds, barriers))
        << simt::fault_text();
    right += values == expected ? 1 : 0;
  });
  return right;
}

TEST(SimtLaunch, MissingBarriersGiveWrongNumbers) {
  EXPECT_EQ(schedules_right(2), 4);
  EXPECT_EQ(schedules_right(0), 0);
  EXPECT_LT(schedules_right(1), 4);
}

struct Votes {
  int count, any, all;
};

__global__ void vote(Votes* votes, unsigned below) {
  const unsigned i = threadIdx.x;
  votes[i].count = __syncthreads_count(i < below);
  votes[i].any = __syncthreads_or(i < below) ? 1 : 0;
  votes[i].all = __syncthreads_and(i < below) ? 1 : 0;
}

TEST(SimtLaunch, VotesOfABlockCountAllThreads) {
  constexpr unsigned kThreads = 77;
  simt::in_every_order([&](simt::Schedule) {
    for (const unsigned below : {0U, 1U, 76U, 77U}) {
      std::vector<Votes> votes(kThreads);
      ASSERT_TRUE(
          SIMT_LAUNCH(vote, 1, kThreads, 0, nullptr, votes.data(), below));
      for (const Votes& v : votes) {
        EXPECT_EQ(v.count, static_cast<int>(below));
        EXPECT_EQ(v.any, below > 0 ? 1 : 0);
        EXPECT_EQ(v.all, below == kThreads ? 1 : 0);
      }
    }
  });
}

// Ended threads are not awaited, neither before nor after others wait.
__global__ void end_early(int* counts, unsigned rest) {
  if (threadIdx.x >= rest) {
    return;
  }
  counts[threadIdx.x] = __syncthreads_count(true);
}

TEST(SimtLaunch, BarriersDoNotWaitForThreadsThatEnded) {
  simt::in_every_order([&](simt::Schedule) {
    for (const unsigned rest : {1U, 31U, 40U, 100U}) {
      std::vector<int> counts(100, 0), expected(100, 0);
      std::fill_n(expected.begin(), rest, static_cast<int>(rest));
      ASSERT_TRUE(
          SIMT_LAUNCH(end_early, 1, 100, 0, nullptr, counts.data(), rest))
          << simt::fault_text();
      EXPECT_EQ(counts, expected);
    }
  });
}

// ---- Launches that no GPU takes ---------------------------------------------

__global__ void nothing() {}

TEST(SimtLaunch, ImpossibleLaunchesAreRefused) {
  const struct {
    Extent grid, block;
    size_t shared;
    const char* what;  // NULL: possible
  } launches[] = {
      {1, 1024, 0, nullptr},
      {1, 1025, 0, "1024 threads"},
      {1, {32, 33}, 0, "1024 threads"},
      {1, {1, 1, 64}, 0, nullptr},
      {1, {1, 1, 65}, 0, "64 in z"},
      {0, 1, 0, "without blocks"},
      {{1, 0}, 1, 0, "without blocks"},
      {1, 0, 0, "without blocks or threads"},
      {{1, 65535}, 1, 0, nullptr},
      {{1, 65536}, 1, 0, "65535"},
      {1, 1, 227 << 10, nullptr},
      {1, 1, (227 << 10) + 1, "227 KiB"},
  };
  for (const auto& launch : launches) {
    const bool ok =
        SIMT_LAUNCH(nothing, launch.grid, launch.block, launch.shared, nullptr);
    EXPECT_EQ(ok, launch.what == nullptr);
    const std::string text = simt::fault_text();
    EXPECT_NE(text.find(ok ? "no fault" : launch.what), std::string::npos)
        << text;
    EXPECT_EQ(simt::take_fault().what, nullptr) << "told once";
  }
}

}  // namespace
}  // namespace simt_launch_test
