// SPDX-License-Identifier: Apache-2.0
// Functions that a shared library exports by tvm-ffi, judged by way of a map.
#include <gtest/gtest.h>

#include "cli/base/program_run.h"

namespace qkvet::cli::tvm_ffi_test {
namespace {

constexpr const char* kMap = R"(
argument = q bthd
argument = k bthd
argument = v bthd
argument = o bthd
argument = causal
argument = scale
argument = int 128           # keys of a tile
options = causal_bottom_right scale default_scale grouped_heads cross_lengths
layouts = bthd
empty_row = zero
refuses = NotImplementedError
)";

// `qkvet check ffi:...` on a function of the test's library.
Ran check(const std::string& function, const std::string& map = kMap,
          const std::string& words = "--cases 400") {
  write_text(scratch() / "map.txt", map);
  return run_qkvet("check ffi:" QKVET_TVM_FFI_TEST ":" + function +
                   ":map.txt " + words);
}

TEST(TvmFfi, ARightFunctionConforms) {
  const Ran ran = exits(0, check("attention"));
  EXPECT_TRUE(has(ran.out, "tvm_ffi/attention"));
}

TEST(TvmFfi, AWrongScaleIsFoundAndCanBeReplayed) {
  const Ran ran = exits(1, check("wrong_scale"));
  const std::string lead = "qkvet replay ";
  const size_t from = ran.out.find(lead);
  ASSERT_NE(from, std::string::npos) << ran.out;
  std::string again = ran.out.substr(from, ran.out.find('\n', from) - from);
  again = again.substr(std::string("qkvet ").size());
  EXPECT_TRUE(has(again, "ffi:"));
  EXPECT_EQ(run_qkvet(again).exit, 1) << again;
}

// Its error is an answer: a failure, or a refusal if the map declares it so.
TEST(TvmFfi, ErrorsAreVerdictsWithTheirText) {
  std::string map = kMap;
  map.replace(map.find("int 128"), 7, "int 127");
  const Ran ran = exits(1, check("attention", map, "--cases 20"));
  EXPECT_TRUE(has(ran.out, "ValueError: expected a tile of 128"));
  const Ran refused =
      exits(3, check("attention", kMap, "--cases 200 --pin Tk=201"));
  EXPECT_TRUE(has(refused.out, "more than 200 keys"));
}

TEST(TvmFfi, WhatIsWrongWithAMapIsOneLine) {
  const struct {
    const char* map;
    const char* said;
  } rows[] = {
      {"argument = query\n", "map.txt:1: argument \"query\": allowed: q k v"},
      {"argument = q tbhd\n", "axes are bhtd, bthd or thd"},
      {"argument = int x\n", "argument \"int x\": a number behind it"},
      {"argument = scale 3\n", "no value behind it"},
      {"options = causal\n", "map.txt:1: options: \"causal\": allowed:"},
      {"\nwhat is this\n", "map.txt:2: no \"field = value\""},
      {"options = scale\nlike = torch_sdpa\n",
       "map.txt:2: like: allowed only before"},
      {"options = scale\n", "no line \"argument = ...\""},
  };
  for (const auto& row : rows)
    expect_wrong_use(check("attention", row.map), row.said);
  expect_wrong_use(check("none"), "does not export __tvm_ffi_none");
  expect_wrong_use(run_qkvet("check ffi:lib.so:f"),
                   "allowed: LIBRARY:FUNCTION:MAP");
  expect_wrong_use(run_qkvet("check ffi:none.so:f:map.txt"), "none.so");
}

}  // namespace
}  // namespace qkvet::cli::tvm_ffi_test
