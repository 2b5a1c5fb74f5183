// SPDX-License-Identifier: Apache-2.0
// Cooperative groups, and loads and stores with hints for caches.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "impl/cuda/simt/groups.h"
#include "impl/cuda/simt/simt_orders.h"

namespace simt_groups_test {
namespace {

namespace cg = cooperative_groups;

// ---- Who is where -----------------------------------------------------------

struct Ranks {
  unsigned in_block, block, in_tile, tile, meta, metas;
};

template <unsigned kSize>
__global__ void tell_ranks(Ranks* ranks) {
  const cg::thread_block block = cg::this_thread_block();
  const cg::thread_block_tile<kSize> tile = cg::tiled_partition<kSize>(block);
  ranks[block.thread_rank()] = {block.thread_rank(),    block.size(),
                                tile.thread_rank(),     tile.size(),
                                tile.meta_group_rank(), tile.meta_group_size()};
}

template <unsigned kSize>
void expect_ranks() {
  // 8 by 3 by 4 threads, numbered by x, then y, then z.
  std::vector<Ranks> ranks(96, Ranks{});
  ASSERT_TRUE(SIMT_LAUNCH(tell_ranks<kSize>, 1, dim3(8, 3, 4), 0, nullptr,
                          ranks.data()))
      << simt::fault_text();
  for (unsigned n = 0; n < 96; ++n) {
    EXPECT_EQ(ranks[n].in_block, n);
    EXPECT_EQ(ranks[n].block, 96u);
    EXPECT_EQ(ranks[n].in_tile, n % kSize);
    EXPECT_EQ(ranks[n].tile, kSize);
    EXPECT_EQ(ranks[n].meta, n / kSize);
    EXPECT_EQ(ranks[n].metas, 96 / kSize);
  }
}

TEST(SimtGroups, ThreadsAndTilesAreNumberedAsCudaSays) {
  expect_ranks<1>();
  expect_ranks<4>();
  expect_ranks<32>();
}

__global__ void part_of_tile(unsigned* metas) {
  const auto whole = cg::tiled_partition<16>(cg::this_thread_block());
  const auto part = cg::tiled_partition<4>(whole);
  metas[threadIdx.x] = part.meta_group_rank() * 10 + part.meta_group_size();
}

TEST(SimtGroups, TilesHaveTiles) {
  std::vector<unsigned> metas(32);
  ASSERT_TRUE(SIMT_LAUNCH(part_of_tile, 1, 32, 0, nullptr, metas.data()));
  for (unsigned n = 0; n < 32; ++n) {
    EXPECT_EQ(metas[n], n % 16 / 4 * 10 + 4);
  }
}

// ---- What a tile does together ----------------------------------------------

struct Answers {
  int first, up, down, other;
  unsigned ballot;
  int any, all;
  int sum, least, most, bits;
};

template <unsigned kSize>
__global__ void ask(Answers* answers) {
  const int n = static_cast<int>(threadIdx.x);
  const auto tile = cg::tiled_partition<kSize>(cg::this_thread_block());
  Answers mine = {};
  mine.first = tile.shfl(n, 0);
  mine.up = tile.shfl_up(n, 1);
  mine.down = tile.shfl_down(n, 1);
  mine.other = tile.shfl_xor(n, 1);
  mine.ballot = tile.ballot(n % 3 == 0);
  mine.any = tile.any(n == 5);
  mine.all = tile.all(n != 5);
  mine.sum = cg::reduce(tile, n, cg::plus<int>());
  mine.least = cg::reduce(tile, n, cg::less<int>());
  mine.most = cg::reduce(tile, n, cg::greater<int>());
  mine.bits = cg::reduce(tile, 1 << n % 7, cg::bit_or<int>());
  answers[n] = mine;
}

Answers expected_of(int n, int size) {
  const int first = n / size * size, last = first + size - 1;
  Answers a = {};
  a.first = first;
  a.up = n == first ? n : n - 1;
  a.down = n == last ? n : n + 1;
  a.other = (n ^ 1) <= last ? n ^ 1 : n;
  a.all = 1;
  a.least = first;
  a.most = last;
  for (int lane = first; lane <= last; ++lane) {
    a.ballot |= lane % 3 == 0 ? 1u << (lane - first) : 0;
    a.any |= lane == 5 ? 1 : 0;
    a.all &= lane != 5 ? 1 : 0;
    a.sum += lane;
    a.bits |= 1 << lane % 7;
  }
  return a;
}

// Counts answers that differ from those for tiles of `assumed`.
template <unsigned kSize>
int differences(int assumed) {
  std::vector<Answers> answers(64, Answers{});
  EXPECT_TRUE(SIMT_LAUNCH(ask<kSize>, 1, 64, 0, nullptr, answers.data()))
      << simt::fault_text();
  int different = 0;
  for (int n = 0; n < 64; ++n) {
    const Answers& got = answers[static_cast<size_t>(n)];
    const Answers want = expected_of(n, assumed);
    for (const auto member :
         {&Answers::first, &Answers::up, &Answers::down, &Answers::other,
          &Answers::any, &Answers::all, &Answers::sum, &Answers::least,
          &Answers::most, &Answers::bits}) {
      different += got.*member != want.*member ? 1 : 0;
    }
    different += got.ballot != want.ballot ? 1 : 0;
  }
  return different;
}

TEST(SimtGroups, TilesAnswerForTheirLanesAlone) {
  simt::in_every_order([&](simt::Schedule) {
    EXPECT_EQ(differences<2>(2), 0);
    EXPECT_EQ(differences<8>(8), 0);
    EXPECT_EQ(differences<16>(16), 0);
    EXPECT_EQ(differences<32>(32), 0);
  });
}

TEST(SimtGroups, TheComparisonSeesTheWidthOfATile) {
  EXPECT_GT(differences<8>(16), 50);
  EXPECT_GT(differences<32>(16), 50);
}

// Tiles of one warp take different branches.
__global__ void ways(int* out) {
  const auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  const int n = static_cast<int>(threadIdx.x);
  if (tile.meta_group_rank() % 2 == 0) {
    out[n] = cg::reduce(tile, n, cg::plus<int>());
  } else {
    tile.sync();
    out[n] = tile.shfl(n, 3);
  }
}

TEST(SimtGroups, TilesGoTheirOwnWays) {
  simt::in_every_order([&](simt::Schedule) {
    std::vector<int> out(64);
    ASSERT_TRUE(SIMT_LAUNCH(ways, 1, 64, 0, nullptr, out.data()))
        << simt::fault_text();
    EXPECT_EQ(out[0], 120);
    EXPECT_EQ(out[20], 19);
    EXPECT_EQ(out[40], 120 + 16 * 32);
    EXPECT_EQ(out[63], 51);
  });
}

// ---- Barriers ---------------------------------------------------------------

enum class Barrier { kNone, kBlock, kSync, kTile };

__global__ void neighbour(int* values, Barrier barrier) {
  __shared__ int shared[64];
  const cg::thread_block block = cg::this_thread_block();
  const auto tile = cg::tiled_partition<32>(block);
  const unsigned n = block.thread_rank();
  shared[n] = values[n];
  if (barrier == Barrier::kBlock) {
    block.sync();
  } else if (barrier == Barrier::kSync) {
    cg::sync(block);
  } else if (barrier == Barrier::kTile) {
    tile.sync();
  }
  const unsigned around = barrier == Barrier::kTile ? 32 : 64;
  values[n] = shared[n / around * around + (n + 1) % around];
}

int schedules_right(Barrier barrier) {
  const int around = barrier == Barrier::kTile ? 32 : 64;
  int right = 0;
  simt::in_every_order([&](simt::Schedule) {
    // Otherwise leftovers of an earlier launch would be right by chance.
    std::vector<int> other(64, -1), values(64), expected(64);
    for (int n = 0; n < 64; ++n) {
      values[static_cast<size_t>(n)] = n + 1;
      expected[static_cast<size_t>(n)] =
          n / around * around + (n + 1) % around + 1;
    }
    EXPECT_TRUE(SIMT_LAUNCH(neighbour, 1, 64, 0, nullptr, other.data(),
                            Barrier::kBlock));
    EXPECT_TRUE(
        SIMT_LAUNCH(neighbour, 1, 64, 0, nullptr, values.data(), barrier))
        << simt::fault_text();
    right += values == expected ? 1 : 0;
  });
  return right;
}

TEST(SimtGroups, BarriersWaitForAllOfTheirGroup) {
  EXPECT_EQ(schedules_right(Barrier::kBlock), 4);
  EXPECT_EQ(schedules_right(Barrier::kSync), 4);
  EXPECT_EQ(schedules_right(Barrier::kTile), 4);
  EXPECT_EQ(schedules_right(Barrier::kNone), 0);
}

// ---- Faults -----------------------------------------------------------------

// The line of a group's function is that of its call.
__global__ void apart(bool faulty, int* line) {
  const cg::thread_block block = cg::this_thread_block();
  if (faulty && block.thread_rank() >= 32) {
    *line = __LINE__ + 1;
    block.sync();
  } else {
    block.sync();
  }
}

TEST(SimtGroups, DifferentBarriersAreAFaultWithTheirLine) {
  int line = 0;
  EXPECT_TRUE(SIMT_LAUNCH(apart, 1, 64, 0, nullptr, false, &line));
  EXPECT_FALSE(SIMT_LAUNCH(apart, 1, 64, 0, nullptr, true, &line));
  EXPECT_NE(
      simt::fault_text().find("simt_groups_test.cpp:" + std::to_string(line) +
                              ": block (0,0,0), thread (32,0,0): waits at "
                              "another barrier"),
      std::string::npos);
}

__global__ void divide(int* out) {
  const auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  out[threadIdx.x] = cg::reduce(tile, 1, cg::plus<int>());
}

TEST(SimtGroups, ABlockThatLeavesThreadsOverIsAFault) {
  std::vector<int> out(48);
  EXPECT_TRUE(SIMT_LAUNCH(divide, 1, 48, 0, nullptr, out.data()));
  EXPECT_EQ(out[47], 16);
  EXPECT_FALSE(SIMT_LAUNCH(divide, 1, 40, 0, nullptr, out.data()));
  EXPECT_NE(simt::fault_text().find("tiles that leave threads over"),
            std::string::npos);
}

// ---- Loads and stores -------------------------------------------------------

template <class T>
__global__ void copy(const T* in, T* out) {
  __stwb(out, __ldg(in));
  __stcg(out + 1, __ldcg(in + 1));
  __stcs(out + 2, __ldcs(in + 2));
  __stwt(out + 3, __ldca(in + 3));
  __stcs(out + 4, __ldlu(in + 4));
  __stcs(out + 5, __ldcv(in + 5));
}

TEST(SimtGroups, LoadsAndStoresWithHintsMoveNumbersAndVectors) {
  const float in[6] = {1, -2, 3, 4.5f, 5, 6};
  float out[6] = {};
  ASSERT_TRUE(SIMT_LAUNCH(copy<float>, 1, 1, 0, nullptr, in, out));
  float4 vectors[6], copied[6] = {};
  for (int n = 0; n < 6; ++n) {
    EXPECT_EQ(out[n], in[n]);
    vectors[n] = make_float4(in[n], 7, static_cast<float>(n), -in[n]);
  }
  ASSERT_TRUE(SIMT_LAUNCH(copy<float4>, 1, 1, 0, nullptr, vectors, copied));
  for (int n = 0; n < 6; ++n) {
    EXPECT_EQ(copied[n].x, in[n]);
    EXPECT_EQ(copied[n].y, 7);
    EXPECT_EQ(copied[n].z, static_cast<float>(n));
    EXPECT_EQ(copied[n].w, -in[n]);
  }
}

__global__ void store_pairs(float* out, unsigned first) {
  __stcs(reinterpret_cast<float2*>(out + first), float2{1, 2});
}

__global__ void load_fours(const float* in, float* out, unsigned first) {
  *out = __ldcs(reinterpret_cast<const float4*>(in + first)).x;
}

TEST(SimtGroups, VectorsBesideTheirMultiplesAreAFault) {
  alignas(16) float values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  float out = 0;
  EXPECT_TRUE(SIMT_LAUNCH(load_fours, 1, 1, 0, nullptr, values, &out, 4u));
  EXPECT_EQ(out, 5);
  EXPECT_FALSE(SIMT_LAUNCH(load_fours, 1, 1, 0, nullptr, values, &out, 2u));
  EXPECT_NE(simt::fault_text().find("loads from an address"),
            std::string::npos);
  EXPECT_TRUE(SIMT_LAUNCH(store_pairs, 1, 1, 0, nullptr, values, 2u));
  EXPECT_EQ(values[3], 2);
  EXPECT_FALSE(SIMT_LAUNCH(store_pairs, 1, 1, 0, nullptr, values, 1u));
  EXPECT_NE(simt::fault_text().find("stores to an address"), std::string::npos);
}

}  // namespace
}  // namespace simt_groups_test
