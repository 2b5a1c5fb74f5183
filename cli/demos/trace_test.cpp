// SPDX-License-Identifier: Apache-2.0
// qkvet demo trace, as its users meet it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/base/program_run.h"

namespace qkvet::cli::trace_test {
namespace {

using Json = nlohmann::json;

void expect_parts(const Ran& ran, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    EXPECT_TRUE(has(ran.out, part)) << part << ran.error;
}

std::vector<Json> json_lines(const Ran& ran, const std::string& type) {
  std::vector<Json> lines;
  std::istringstream text(ran.out);
  for (std::string line; std::getline(text, line);) {
    Json parsed = Json::parse(line);
    EXPECT_EQ(parsed["schema"], 1);
    if (parsed["type"] == type) lines.push_back(std::move(parsed));
  }
  return lines;
}

TEST(Trace, TheTextbookModelFromTokensToLogits) {
  const Ran ran = exits(0, run_qkvet("demo trace"));
  EXPECT_EQ(ran.error, "");
  expect_parts(
      ran, {"GPT: 2 blocks, H = 4, D = 32, d = 8, context 12, vocabulary 64",
            "tokens   ids", "row of [64,32]", "token + position", "block 2",
            "norm W_Q [32,32]", "[1,4,12,8]", "[1,4,12,12]", "[1,12,128]",
            "norm E^T [32,64]", "[1,12,64]",
            "(64 + 12) x 32 + 2 x (12 x 1024 + 13 x 32) + 2 x 32 = 27,904",
            "= 675,840", "= 6,144 bytes"});
  EXPECT_EQ(run_qkvet("demo trace").out, ran.out)
      << "the same numbers every time";
  EXPECT_NE(run_qkvet("demo trace --seed 2").out, ran.out);
}

TEST(Trace, AModelOfAnySizeHasShapes) {
  const std::string gpt2 = "demo trace L12,H12,D768,T1024,V50257";
  const Ran ran = exits(0, run_qkvet(gpt2));
  expect_parts(ran, {"shapes only: 124439808 parameters: at most 16777216",
                     "block 1, and 11 more like it", "[1,12,1024,1024]",
                     "[1,1024,50257]", "= 124,439,808", "75,497,472 bytes"});
  expect_wrong_use(run_qkvet(gpt2 + " scalar/plain"),
                   "124439808 parameters: at most 16777216");
  EXPECT_EQ(
      run_qkvet("demo trace L4096,H1024,D65536,T1048576,V16777216,B1024").exit,
      0);
}

TEST(Trace, TokensOfTheUser) {
  const Ran ran = exits(
      0, run_qkvet("demo trace L1 --tokens 3,1,4,1 --tokens 5,9,2,6 --json"));
  const std::vector<Json> stages = json_lines(ran, "trace_stage");
  EXPECT_EQ(stages.front()["shape"], Json({2, 4}));
  EXPECT_EQ(stages.front()["least"], 1);
  EXPECT_EQ(stages.front()["most"], 9);
  EXPECT_EQ(stages.back()["name"], "logits");
  EXPECT_EQ(stages.back()["shape"], Json({2, 4, 64}));
  const std::vector<Json> end = json_lines(ran, "trace_end");
  ASSERT_EQ(end.size(), 1u);
  EXPECT_EQ(end[0]["parameters"], 64 * 32 + 12 * 32 + 12704 + 64);
  // 2 x 1 layer x 4 heads x 8 x 4 tokens x 2 sequences x 4 bytes.
  EXPECT_EQ(end[0]["kv_cache_bytes"], 2 * 4 * 8 * 4 * 2 * 4);
}

TEST(Trace, KernelsTakeThePlaceOfAttention) {
  for (const char* kernel : {"scalar/layer", "scalar/plain", "eigen/layer"}) {
    const Ran ran = run_qkvet(std::string("demo trace --kernel ") + kernel);
    EXPECT_EQ(ran.exit, 0) << kernel << ran.out << ran.error;
    expect_parts(
        ran, {"attention by the kernel", "block 2\n", "agrees    error/bound"});
    EXPECT_FALSE(has(ran.out, "PARTS"));
  }
  const std::pair<const char*, const char*> rows[] = {
      {"faulty/split_without_transpose", "PARTS     at q["},
      {"faulty/no_mask", "PARTS     at o["}};
  for (const auto& [kernel, part] : rows) {
    const Ran ran = run_qkvet(std::string("demo trace --kernel ") + kernel);
    EXPECT_EQ(ran.exit, 1) << kernel << ran.out << ran.error;
    expect_parts(ran, {part, "expected", "actual", "parameters"});
    const Ran json =
        run_qkvet(std::string("demo trace --json --kernel ") + kernel);
    EXPECT_FALSE(json_lines(json, "trace_kernel_stage").empty());
  }
}

TEST(Trace, AKernelThatEndsEndsTheWalk) {
  const Ran dead = run_qkvet(std::string("demo trace T1 '") + QKVET_BAD_PLUGIN +
                             "' --kernel bad/abort");
  EXPECT_EQ(dead.exit, 4) << dead.out << dead.error;
  EXPECT_FALSE(has(dead.out, "logits"));
  const Ran none = run_qkvet("demo trace --kernel kv_cache/contiguous");
  expect_wrong_use(none, "neither a layer nor attention");
}

TEST(Trace, WrongUse) {
  const std::pair<const char*, const char*> rows[] = {
      {"demo trace D30", "D30: 4 heads do not divide it"},
      {"demo trace T2 --tokens 1,2,3", "3 tokens; allowed: 2"},
      {"demo trace --tokens 1,64", "64 is no token; allowed: 0 .. 63"},
      {"demo trace --tokens 1,-1", "-1 is no token"},
      {"demo trace --tokens 1,,2", "token ids with commas"},
      {"demo trace --tokens ''", "--tokens: an empty value"},
      {"demo trace --tokens 1,2 --tokens 3", "the sequences before have 2"},
      {"demo trace B2 --tokens 1,2", "B2"},
      {"demo trace H0", "H0: allowed"},
      {"demo trace D-8", "D-8: allowed"},
      {"demo trace L1,L2", "L2: L is given twice"},
      {"demo trace B1025", "B1025: allowed"},
      {"demo trace --seed soon", "--seed soon"},
      {"demo trace --kernel 'scalar/*'", "3 kernels are named"},
      {"demo trace H8,D8,T4096,B4 --kernel scalar/layer",
       "operations: at most"}};
  for (const auto& [arguments, part] : rows)
    expect_wrong_use(run_qkvet(arguments), part);
}

}  // namespace
}  // namespace qkvet::cli::trace_test
