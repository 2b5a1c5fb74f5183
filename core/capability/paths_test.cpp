// SPDX-License-Identifier: Apache-2.0
#include "core/capability/paths.h"

#include <gtest/gtest.h>

namespace qkvet {
namespace {

TEST(Paths, AreSpelledAsTheyAreRead) {
  qkvet_capabilities declared{};
  EXPECT_EQ(paths_text(declared), "");
  EXPECT_EQ(read_paths("Tq=16 Tk=64  Tk=1777 d=96 dv=72 B=65 H=129", declared),
            "");
  EXPECT_EQ(declared.path_count, 7);
  EXPECT_EQ(paths_of(declared)[2].axis, QKVET_AXIS_TK);
  EXPECT_EQ(paths_of(declared)[2].at, 1777);
  EXPECT_EQ(bad_paths(declared), "");
  EXPECT_EQ(paths_text(declared), "Tq=16 Tk=64 Tk=1777 d=96 dv=72 B=65 H=129");
  EXPECT_EQ(axis_constant(declared.paths[4]), "QKVET_AXIS_DV");
  // As in all other fields, the last value counts.
  EXPECT_EQ(read_paths("Tk=2", declared), "");
  EXPECT_EQ(paths_text(declared), "Tk=2");
}

TEST(Paths, WhatIsNoneIsNamed) {
  qkvet_capabilities declared{};
  for (const char* text : {"Tk", "Tk=", "=64", "Tk=-64", "Tk=1", "Tk=131073",
                           "Tk=99999999999", "Tk=64x", "tk=64", "D=64"})
    EXPECT_NE(
        read_paths(text, declared)
            .find("allowed: Tq Tk d dv B H, each with = and a number from 2"),
        std::string::npos)
        << text;
  std::string many;
  for (int n = 0; n < 17; ++n) many += " Tk=" + std::to_string(n + 2);
  EXPECT_EQ(read_paths(many, declared), "more than 16 paths");
}

TEST(Paths, StructsThatNoKernelCanMeanAreRefused) {
  qkvet_capabilities declared{};
  declared.path_count = 17;
  EXPECT_EQ(bad_paths(declared), "path_count is 17, at most 16");
  EXPECT_EQ(paths_of(declared).size(), 16u);
  declared.path_count = -1;
  EXPECT_EQ(bad_paths(declared), "path_count is -1, at most 16");
  EXPECT_TRUE(paths_of(declared).empty());
  declared.path_count = 2;
  declared.paths[0] = {QKVET_AXIS_TK, 64};
  declared.paths[1] = {7, 64};
  EXPECT_EQ(bad_paths(declared), "paths[1] has the unknown axis 7");
  declared.paths[1] = {QKVET_AXIS_D, -64};
  EXPECT_EQ(bad_paths(declared), "paths[1] is at -64; allowed: 2 to 131072");
  declared.paths[1] = {QKVET_AXIS_D, QKVET_MOST_PATH};
  EXPECT_EQ(bad_paths(declared), "");
}

}  // namespace
}  // namespace qkvet
