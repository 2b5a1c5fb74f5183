// SPDX-License-Identifier: Apache-2.0
// Bends of bytes: jumps and other slopes are found exactly, steps and curves
// are not bends.
#include "properties/checking/workspace_hints.h"

#include <gtest/gtest.h>

#include <bit>

namespace qkvet::properties::workspace_hints_test {
namespace {

constexpr int64_t kMost = 16384;

struct Answers {
  std::vector<int64_t> at;
  int calls = 0;
};

template <class Bytes>
Answers bends(Bytes bytes) {
  Answers out;
  for (const Bend& bend : bends_of(
           [&](int64_t extent) -> std::optional<int64_t> {
             ++out.calls;
             return bytes(extent);
           },
           kMost))
    out.at.push_back(bend.at);
  return out;
}
using At = std::vector<int64_t>;

int64_t tiles(int64_t extent, int64_t tile) {
  return (extent + tile - 1) / tile;
}

TEST(WorkspaceHints, AJumpIsFoundToTheExactNumber) {
  for (const int64_t at : {33, 64, 777, 1000, 1024, 5001}) {
    const auto jump =
        bends([at](int64_t T) { return T > at ? int64_t{5000} : int64_t{0}; });
    EXPECT_EQ(jump.at, At{at});
    EXPECT_LT(jump.calls, 80);
    EXPECT_EQ(bends([at](int64_t T) { return 8 * T + (T > at ? 512 : 0); }).at,
              At{at});
  }
}

TEST(WorkspaceHints, AnotherSlopeIsFoundToTheExactNumber) {
  for (const int64_t at : {777, 3000})
    EXPECT_EQ(bends([at](int64_t T) {
                return 8 * T + (T > at ? 24 * (T - at) : int64_t{0});
              }).at,
              At{at});
}

TEST(WorkspaceHints, TwoOfThemAreTwo) {
  EXPECT_EQ(bends([](int64_t T) {
              return T > 6000 ? 900 * T : T > 300 ? int64_t{5000} : int64_t{0};
            }).at,
            (At{300, 6000}));
}

// A workspace that is constant, or grows in proportion or by whole tiles, bends
// nowhere, or at the start of the second tile.
TEST(WorkspaceHints, WhatFollowsTheExtentSaysNothing) {
  EXPECT_EQ(bends([](int64_t) { return int64_t{0}; }).at, At{});
  EXPECT_EQ(bends([](int64_t T) { return 12 * T + 64; }).at, At{});
  EXPECT_EQ(bends([](int64_t T) { return T * T; }).at, At{});
  EXPECT_EQ(bends([](int64_t T) { return 40 * tiles(T, 64); }).at, At{64});
  EXPECT_EQ(
      bends([](int64_t T) {
        return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(T))) *
               4;
      }).at,
      At{});
}

TEST(WorkspaceHints, AKernelThatDoesNotAnswerSaysNothing) {
  int calls = 0;
  const BytesOf silent = [&](int64_t T) -> std::optional<int64_t> {
    ++calls;
    if (T > 1000) return std::nullopt;
    return T > 100 ? 1 << 20 : 0;
  };
  EXPECT_TRUE(bends_of(silent, kMost).empty());
  EXPECT_LT(calls, 40);
}

}  // namespace
}  // namespace qkvet::properties::workspace_hints_test
