// SPDX-License-Identifier: Apache-2.0
// Warp functions, against the definitions of the PTX ISA in plain
// code.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "impl/cuda/simt/simt_orders.h"

namespace simt_warp_test {
namespace {

constexpr uint32_t kFull = 0xffffffffu;

// ---- Shuffles ---------------------------------------------------------------

enum class Kind { kIndex, kUp, kDown, kXor };
constexpr Kind kKinds[] = {Kind::kIndex, Kind::kUp, Kind::kDown, Kind::kXor};

// The lane that provides the value: shfl.sync of the PTX ISA 8; CUDA computes
// its operand c from the width.
int answering_lane(Kind kind, int lane, int b, int width) {
  const int segment = 32 - width;
  const int clamp = kind == Kind::kUp ? 0 : 31;
  const int most = (lane & segment) | (clamp & ~segment);
  const int least = lane & segment;
  b &= 31;
  int j = 0;
  bool inside = false;
  switch (kind) {
    case Kind::kUp:
      j = lane - b;
      inside = j >= most;
      break;
    case Kind::kDown:
      j = lane + b;
      inside = j <= most;
      break;
    case Kind::kXor:
      j = lane ^ b;
      inside = j <= most;
      break;
    case Kind::kIndex:
      j = least | (b & ~segment);
      inside = j <= most;
      break;
  }
  return inside ? j : lane;
}

template <class T>
__global__ void shuffle(Kind kind, int by, int width, T* values) {
  const T mine = values[threadIdx.x];
  T got = mine;
  switch (kind) {
    case Kind::kIndex:
      got = __shfl_sync(kFull, mine, by, width);
      break;
    case Kind::kUp:
      got = __shfl_up_sync(kFull, mine, static_cast<unsigned>(by), width);
      break;
    case Kind::kDown:
      got = __shfl_down_sync(kFull, mine, static_cast<unsigned>(by), width);
      break;
    case Kind::kXor:
      got = __shfl_xor_sync(kFull, mine, by, width);
      break;
  }
  values[threadIdx.x] = got;
}

template <class T>
std::vector<T> values_of(int count) {
  std::vector<T> values;
  for (int n = 0; n < count; ++n) {
    values.push_back(static_cast<T>(n) * static_cast<T>(1.5) +
                     static_cast<T>(1e6));
  }
  return values;
}

// Counts launches with other values than those of `assumed_width`.
template <class T>
int differences(int assumed_width) {
  int different = 0;
  for (const Kind kind : kKinds) {
    for (const int width : {8, 16, 32}) {
      for (int by = 0; by < 32; ++by) {
        // Two warps: each has lanes of its own.
        const std::vector<T> before = values_of<T>(64);
        std::vector<T> got = before, expected = before;
        EXPECT_TRUE(SIMT_LAUNCH(shuffle, 1, 64, 0, nullptr, kind, by, width,
                                got.data()))
            << simt::fault_text();
        for (int n = 0; n < 64; ++n) {
          const int lane = answering_lane(
              kind, n % 32, by, assumed_width == 0 ? width : assumed_width);
          expected[n] = before[n / 32 * 32 + lane];
        }
        different += got != expected ? 1 : 0;
      }
    }
  }
  return different;
}

TEST(SimtWarp, ShufflesGiveTheLaneThatPtxNames) {
  simt::in_every_order(
      [&](simt::Schedule) { EXPECT_EQ(differences<int>(0), 0); });
  EXPECT_EQ(differences<float>(0), 0);
  EXPECT_EQ(differences<double>(0), 0);
  EXPECT_EQ(differences<uint64_t>(0), 0);
}

TEST(SimtWarp, TheComparisonOfShufflesSeesTheWidth) {
  EXPECT_GT(differences<int>(32), 50);
}

__global__ void negative_lane(int* out) {
  out[threadIdx.x] = __shfl_sync(kFull, static_cast<int>(threadIdx.x), -1, 8);
}

TEST(SimtWarp, LanesOfAShuffleWrapAround) {
  std::vector<int> out(32);
  ASSERT_TRUE(SIMT_LAUNCH(negative_lane, 1, 32, 0, nullptr, out.data()));
  EXPECT_EQ(out[0], 7);
  EXPECT_EQ(out[31], 31);
}

// ---- Votes ------------------------------------------------------------------

struct Votes {
  uint32_t ballot;
  bool any, all;
};

__global__ void vote(Votes* votes, uint32_t yes) {
  const uint32_t lane = threadIdx.x % 32;
  const bool mine = (yes >> lane & 1) != 0;
  votes[threadIdx.x].ballot = __ballot_sync(kFull, mine);
  votes[threadIdx.x].any = __any_sync(kFull, mine);
  votes[threadIdx.x].all = __all_sync(kFull, mine);
}

TEST(SimtWarp, VotesAreOfTheLanesThatLive) {
  // The second warp has 8 lanes.
  for (const uint32_t yes : {0U, 1U, 0x80000000U, 0xffU, 0x5a5a5a5aU, kFull}) {
    simt::in_every_order([&](simt::Schedule) {
      std::vector<Votes> votes(40);
      ASSERT_TRUE(SIMT_LAUNCH(vote, 1, 40, 0, nullptr, votes.data(), yes))
          << simt::fault_text();
      for (size_t n = 0; n < votes.size(); ++n) {
        const uint32_t live = n < 32 ? kFull : 0xffU;
        EXPECT_EQ(votes[n].ballot, yes & live);
        EXPECT_EQ(votes[n].any, (yes & live) != 0);
        EXPECT_EQ(votes[n].all, (yes & live) == live);
      }
    });
  }
}

// ---- Part of a warp ---------------------------------------------------------

// Halves of a warp take different branches and shuffle separately.
__global__ void halves(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  if (lane < 16) {
    out[lane] = __shfl_xor_sync(0xffffu, lane, 1);
  } else {
    const int sum = lane + __shfl_xor_sync(0xffff0000u, lane, 2);
    out[lane] = sum + __shfl_xor_sync(0xffff0000u, 0, 4);
  }
  __syncwarp();
  out[lane] += __shfl_sync(kFull, 1000 * lane, 31);
}

TEST(SimtWarp, PartsOfAWarpWorkApart) {
  simt::in_every_order([&](simt::Schedule) {
    std::vector<int> out(32);
    ASSERT_TRUE(SIMT_LAUNCH(halves, 1, 32, 0, nullptr, out.data()))
        << simt::fault_text();
    for (int lane = 0; lane < 32; ++lane) {
      const int own = lane < 16 ? lane ^ 1 : lane + (lane ^ 2);
      EXPECT_EQ(out[lane], own + 31000);
    }
  });
}

// Ended lanes are not awaited, whether they end before or after the others
// arrive.
__global__ void some_end(uint32_t* out, uint32_t ending) {
  const uint32_t lane = threadIdx.x;
  if ((ending >> lane & 1) != 0) {
    return;
  }
  __syncwarp();
  out[lane] = __ballot_sync(kFull, true);
}

TEST(SimtWarp, LanesThatEndedAreNotWaitedFor) {
  for (const uint32_t ending : {0U, 1U, 0x80000000U, 0x00010000U, 0x7fffffffU,
                                0xfffffffeU, 0x55555555U}) {
    simt::in_every_order([&](simt::Schedule) {
      std::vector<uint32_t> out(32, 0);
      ASSERT_TRUE(SIMT_LAUNCH(some_end, 1, 32, 0, nullptr, out.data(), ending))
          << simt::fault_text() << " " << ending;
      for (uint32_t lane = 0; lane < 32; ++lane) {
        EXPECT_EQ(out[lane], (ending >> lane & 1) != 0 ? 0 : ~ending);
      }
    });
  }
}

// ---- __syncwarp -------------------------------------------------------------

__global__ void neighbour(int* values, bool together) {
  __shared__ int shared[32];
  const unsigned lane = threadIdx.x;
  shared[lane] = values[lane];
  if (together) {
    __syncwarp();
  }
  values[lane] = shared[(lane + 1) % 32];
}

int schedules_right(bool together) {
  int right = 0;
  simt::in_every_order([&](simt::Schedule) {
    std::vector<int> values(32), expected(32);
    for (int n = 0; n < 32; ++n) {
      values[n] = n + 1;
      expected[n] = (n + 1) % 32 + 1;
    }
    // Otherwise leftovers of an earlier schedule would be right by chance.
    std::vector<int> other(32, -1);
    EXPECT_TRUE(SIMT_LAUNCH(neighbour, 1, 32, 0, nullptr, other.data(), true));
    EXPECT_TRUE(
        SIMT_LAUNCH(neighbour, 1, 32, 0, nullptr, values.data(), together));
    right += values == expected ? 1 : 0;
  });
  return right;
}

TEST(SimtWarp, SyncwarpWaitsForAllLanes) {
  EXPECT_EQ(schedules_right(true), 4);
  EXPECT_EQ(schedules_right(false), 0);
}

}  // namespace
}  // namespace simt_warp_test
