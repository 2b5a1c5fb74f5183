// SPDX-License-Identifier: Apache-2.0
// qkvet demo inspect, as its users meet it.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/base/program_run.h"

namespace qkvet::cli::inspect_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr char kUtf8[] = "LC_ALL=C.UTF-8";
constexpr char kLayer[] = "f32,B1,H4,T12,D32,causal";

void expect_parts(const Ran& ran, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    EXPECT_TRUE(has(ran.out, part)) << part << ran.error;
}

std::vector<Json> json_lines(const Ran& ran) {
  std::vector<Json> lines;
  std::istringstream text(ran.out);
  for (std::string line; std::getline(text, line);)
    lines.push_back(Json::parse(line));
  return lines;
}

std::vector<Json> of_type(const std::vector<Json>& lines, const char* type) {
  std::vector<Json> out;
  for (const Json& line : lines) {
    EXPECT_EQ(line["schema"], 1);
    if (line["type"] == type) out.push_back(line);
  }
  return out;
}

TEST(Inspect, ALayerIsShownWithEveryShape) {
  const Ran ran = exits(0, run_qkvet(std::string("demo inspect ") + kLayer));
  EXPECT_EQ(ran.error, "");
  expect_parts(
      ran, {"x W_Q [32,32]", "[1,12,32]", "split into 4 heads", "[1,4,12,8]",
            "q k^T", "[1,4,12,12]", "scores / sqrt(d) = scores x 0.353553",
            "-inf at 264 of 576 pairs", "softmax over the keys",
            "heads side by side", "merged W_O [32,32]", "head 3",
            "from uniform", "entropy"});
  EXPECT_FALSE(has(ran.out, "\x1b"));
}

TEST(Inspect, TheTriangleOfTheTextbook) {
  const std::string arguments =
      "demo inspect f32,B1,H1,Tq4,Tk4,d2,causal=tl,q=zero";
  const Ran ran = exits(0, run_qkvet(arguments, scratch(), kUtf8));
  expect_parts(ran, {"0  █1.00\n", "1  ▓0.50 ▓0.50\n", "2  ▒0.33 ▒0.33 ▒0.33\n",
                     "3  ▒0.25 ▒0.25 ▒0.25 ▒0.25\n", "100.0 %"});
  const Ran plain = run_qkvet(arguments, scratch(), "LC_ALL=C");
  expect_parts(plain, {"0  @1.00\n", "1  #0.50 #0.50\n"});
  EXPECT_TRUE(std::all_of(plain.out.begin(), plain.out.end(), [](char c) {
    return static_cast<signed char>(c) > 0;
  })) << plain.out;
}

TEST(Inspect, OneHeadAndOneMemberCanBeChosen) {
  const std::string text = "f32,B2,H3,Tq5,Tk5,d4,causal=br";
  const Ran all = run_qkvet("demo inspect " + text);
  const Ran one = run_qkvet("demo inspect " + text + " --head 1.2");
  expect_parts(all, {"weights of member 0", "head 0", "head 2\n"});
  expect_parts(one, {"values of member 1, head 2", "weights of member 1"});
  EXPECT_FALSE(has(one.out, "head 0"));
  EXPECT_NE(all.out, one.out);
}

// A fault of a layer and its stage. The later stages take the wrong value as
// input, and agree.
TEST(Inspect, FaultsOfLayersPartAtTheirStage) {
  const struct {
    const char *kernel, *value, *stage, *agrees;
  } rows[] = {{"faulty/split_without_transpose", kLayer, "q", "attended"},
              {"faulty/value_bias_ignored", "f32,B1,H4,T12,D32,causal,biases=v",
               "v", "attended"},
              {"faulty/heads_not_merged", kLayer, "y", "attended"},
              {"faulty/output_projection_omitted", kLayer, "y", "attended"}};
  for (const auto& row : rows) {
    const Ran ran = run_qkvet(std::string("demo inspect ") + row.value +
                              " --kernel " + row.kernel);
    EXPECT_EQ(ran.exit, 1) << row.kernel << ran.out << ran.error;
    const std::string says =
        std::string("It parts from the definition at ") + row.stage + ".";
    const std::string agrees = std::string("  ") + row.agrees + "  agrees";
    expect_parts(ran, {says.c_str(), agrees.c_str(), "expected", "allowed",
                       "actual", "actual - expected"});
  }
}

TEST(Inspect, AMaskThatIsMissingPartsAtTheWeights) {
  const std::string value = "f32,B1,H2,Tq6,Tk6,d4,causal=tl";
  const Ran ran =
      exits(1, run_qkvet("demo inspect " + value + " --kernel faulty/no_mask"));
  expect_parts(ran, {"PARTS     at lse[", "PARTS     at weights[b=0,h=",
                     "PARTS     at o[", "expected 0   allowed",
                     "the o of 2 calls with V = columns of I"});
  const Ran right =
      exits(0, run_qkvet("demo inspect " + value + " --kernel scalar/plain"));
  expect_parts(right, {"weights   agrees", "It agrees with the definition."});
}

// Weights of kernels that do not return them, recovered by extra calls.
TEST(Inspect, RecoveredWeightsAreThoseOfTheDefinition) {
  const std::pair<const char*, const char*> rows[] = {
      {"f32,B2,H4,Hkv2,Tq5,Tk7,d3,dv2,causal=br,mask=random70", "eigen/plain"},
      {"f16,B1,H2,Tq3,Tk3,d4,kvlen=2", "eigen/plain"},
      {"f32,B2,H2,T6,D8,causal,biases=qkvo", "scalar/layer"},
      {"f32,B1,H2,T5,D8,d4,dv2,causal,rope=half.3", "eigen/layer"}};
  for (const auto& [value, kernel] : rows) {
    const Ran ran = run_qkvet(std::string("demo inspect ") + value +
                              " --json --head 1 --kernel " + kernel);
    EXPECT_EQ(ran.exit, 0) << value << ran.out << ran.error;
    const std::vector<Json> weights =
        of_type(json_lines(ran), "inspect_weights");
    ASSERT_EQ(weights.size(), 2u) << value << ran.out;
    EXPECT_EQ(weights[0]["whose"], "definition");
    EXPECT_EQ(weights[1]["whose"], "kernel");
    const Json& expected = weights[0]["weights"];
    const Json& actual = weights[1]["weights"];
    double sum = 0;
    for (size_t i = 0; i < expected.size(); ++i)
      for (size_t j = 0; j < expected[i].size(); ++j) {
        // Within the precision of f16, to which the one case rounds its
        // weights.
        EXPECT_NEAR(actual[i][j], expected[i][j], 0x1p-11) << value;
        sum += actual[i][j].get<double>();
      }
    EXPECT_NEAR(sum, static_cast<double>(expected.size()), 0x1p-9) << value;
  }
}

TEST(Inspect, AKernelThatReturnsItsWeightsIsNotAskedAgain) {
  const Ran ran = run_qkvet(
      "demo inspect f32,B1,H2,Tq5,Tk5,d4,causal=tl --kernel scalar/plain");
  EXPECT_EQ(ran.exit, 0) << ran.out << ran.error;
  expect_parts(ran, {"actual: as it returns them"});
}

TEST(Inspect, WhatCannotBeAskedIsSaid) {
  const Ran narrow = exits(
      0,
      run_qkvet("demo inspect f32,B1,H2,T12,D8,causal --kernel scalar/layer"));
  expect_parts(narrow, {"expected alone: a layer returns no weights, and D = 8 "
                        "is too narrow"});
  const Ran many = exits(
      0, run_qkvet(
             "demo inspect f32,B1,H1,Tq2,Tk200,d4,dv1 --kernel eigen/plain"));
  expect_parts(many, {"with dv = 1 it would take 200 calls"});
}

TEST(Inspect, LongRowsAreReduced) {
  const Ran ran =
      run_qkvet("demo inspect f32,B1,H1,Tq100,Tk128,d8,causal=br --json");
  const std::vector<Json> weights = of_type(json_lines(ran), "inspect_weights");
  ASSERT_EQ(weights.size(), 1u);
  EXPECT_EQ(weights[0]["queries_of_a_cell"], 4);
  EXPECT_EQ(weights[0]["keys_of_a_cell"], 4);
  EXPECT_EQ(weights[0]["weights"].size(), 25u);
  EXPECT_EQ(weights[0]["weights"][0].size(), 32u);
  expect_parts(run_qkvet("demo inspect f32,B1,H1,Tq100,Tk128,d8,causal=br"),
               {"a cell is 4 queries x 4 keys"});
}

TEST(Inspect, JsonHasStagesHeadsAndTheVerdict) {
  const Ran ran = run_qkvet(std::string("demo inspect ") + kLayer +
                            " --kernel faulty/split_without_transpose --json");
  EXPECT_EQ(ran.exit, 1);
  const std::vector<Json> lines = json_lines(ran);
  EXPECT_EQ(lines[0]["type"], "inspect");
  EXPECT_EQ(lines[0]["case"], kLayer);
  EXPECT_EQ(of_type(lines, "inspect_stage").size(), 14u);
  EXPECT_EQ(of_type(lines, "inspect_head").size(), 8u);
  const std::vector<Json> stages = of_type(lines, "inspect_kernel_stage");
  ASSERT_EQ(stages.size(), 6u);
  EXPECT_EQ(stages[0]["name"], "q");
  EXPECT_EQ(stages[0]["verdict"], "FAILED");
  EXPECT_TRUE(has(stages[0]["at"].get<std::string>(), "q[b=0,h="));
  EXPECT_EQ(stages[3]["verdict"], "passed");
  EXPECT_EQ(lines.back()["type"], "inspect_end");
  EXPECT_EQ(lines.back()["parts_at"], "q");
  EXPECT_EQ(lines.back()["exit"], 1);
}

TEST(Inspect, APictureIsWrittenOnceUnlessForced) {
  const fs::path svg = scratch() / "map.svg";
  const std::string arguments =
      std::string("demo inspect ") + kLayer + " --out map.svg";
  EXPECT_EQ(run_qkvet(arguments).exit, 0);
  const std::string picture = read_text(svg);
  EXPECT_TRUE(picture.starts_with("<svg ")) << picture.substr(0, 80);
  EXPECT_TRUE(picture.ends_with("</svg>\n"));
  EXPECT_TRUE(has(picture, kLayer));
  expect_wrong_use(run_qkvet(arguments), "map.svg: is there already");
  const std::string with_kernel = arguments + " --force --kernel scalar/layer";
  EXPECT_EQ(run_qkvet(with_kernel).exit, 0);
  EXPECT_NE(read_text(svg), picture);
  for (const auto& entry : fs::directory_iterator(scratch()))
    EXPECT_FALSE(has(entry.path().string(), "map.svg."))
        << "part of a file stays: " << entry.path();
  expect_wrong_use(run_qkvet(std::string("demo inspect ") + kLayer +
                             " --out no/such/folder.svg"),
                   "no/such/folder.svg: cannot be written");
}

TEST(Inspect, KernelsThatCannotAnswer) {
  const Ran other = run_qkvet(std::string("demo inspect ") + kLayer +
                              " --kernel eigen/plain");
  EXPECT_EQ(other.exit, 3) << other.out << other.error;
  expect_parts(other, {"unsupported", "weights of member 0"});
  const Ran refuses = run_qkvet(
      "demo inspect f32,B1,H1,Tq2,Tk2,d4,softcap=2 --kernel faulty/no_mask");
  EXPECT_EQ(refuses.exit, 3) << refuses.out << refuses.error;
  const struct {
    const char* kernel;
    int exit;
    const char* says;
  } rows[] = {{"bad/abort", 4, "SIGABRT"},
              {"bad/throw", 4, "printed  terminate called"},
              {"bad/read_past_k", 1, "READ of k"},
              {"bad/unwritten", 1, "never written"},
              {"bad/refuse", 1, "changed my mind"}};
  for (const auto& row : rows) {
    const Ran ran =
        run_qkvet("demo inspect f32,B1,H1,Tq2,Tk2,d4 '" +
                  std::string(QKVET_BAD_PLUGIN) + "' --kernel " + row.kernel);
    EXPECT_EQ(ran.exit, row.exit) << ran.out << ran.error;
    expect_parts(ran, {row.says});
  }
}

TEST(Inspect, WrongUse) {
  const std::pair<const char*, const char*> rows[] = {
      {"demo inspect", "case is required"},
      {"demo inspect f32,B1", "H"},
      {"demo inspect f32,B1,H2,Tq2,Tk2,d4 --head 2",
       "--head 2: allowed is H or B.H, with B 0 .. 0 and H 0 .. 1"},
      {"demo inspect f32,B1,H2,Tq2,Tk2,d4 --head 1.0", "--head 1.0: allowed"},
      {"demo inspect f32,B1,H2,Tq2,Tk2,d4 --head -1", "--head -1: allowed"},
      {"demo inspect f32,B1,H2,Tq2,Tk2,d4 --head 0.", "--head 0.: allowed"},
      {"demo inspect f32,B1,H2,Tq2,Tk2,d4 --kernel 'scalar/*'",
       "3 kernels are named"},
      {"demo inspect f32,B1,H2,Tq2,Tk2,d4 --kernel no/thing", "no/thing"},
      {"demo inspect fp8e4m3,B1,H2,Tq2,Tk2,d4", "fp8e4m3"},
      {"demo inspect f32,B1,H8,Tq4096,Tk4096,d1", "134217728 weights"},
      {"demo inspect f32,B1,H1,d4,cap8,story=append.a.3", "a story of a cache"},
      {"demo inspect f32,B1,H1,Tq2,Tk2,d4,backward", "leave `backward` out"},
      {"demo inspect f32,B1,H1,Tq0,Tk2,d4 --out x.svg",
       "x.svg: there is nothing"},
      {"demo inspect f32,B1,H1,Tq2,Tk2,d4 --png x.png",
       "--png x.png: pictures are SVG; allowed is --out FILE"}};
  for (const auto& [arguments, part] : rows)
    expect_wrong_use(run_qkvet(arguments), part);
}

TEST(Inspect, EmptyExtentsAreShownWithoutWeights) {
  for (const char* value : {"f32,B1,H1,Tq0,Tk2,d4", "f32,B0,H1,Tq2,Tk2,d4",
                            "f32,B1,H1,Tq2,Tk0,d4"}) {
    const Ran ran = run_qkvet(std::string("demo inspect ") + value);
    EXPECT_EQ(ran.exit, 0) << value << ran.error;
    expect_parts(ran, {"no weights: an extent is 0"});
    for (const char* kernel : {"scalar/plain", "eigen/plain"}) {
      const Ran judged = run_qkvet(std::string("demo inspect ") + value +
                                   " --kernel " + kernel);
      const bool zeros = std::string(value).find("Tk0") != std::string::npos;
      EXPECT_EQ(judged.exit, zeros ? 0 : 3)
          << value << judged.out << judged.error;
      expect_parts(judged, {zeros ? "It agrees" : "Nothing was there"});
    }
  }
}

// Colour on a terminal, which script(1) makes; none under NO_COLOR.
TEST(Inspect, ColourIsForTerminals) {
  const auto on_terminal = [](const std::string& environment) {
    const std::string command = "script -qec \"env " + environment +
                                " LC_ALL=C.UTF-8 '" QKVET_PROGRAM
                                "' demo inspect " +
                                kLayer + "\" /dev/null </dev/null";
    std::string out;
    std::FILE* pipe = popen(command.c_str(), "r");
    std::array<char, 4096> buffer;
    for (size_t n; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
      out.append(buffer.data(), n);
    EXPECT_EQ(pclose(pipe), 0) << out;
    return out;
  };
  EXPECT_TRUE(has(on_terminal("-u NO_COLOR"), "\x1b[38;5;"));
  const std::string plain = on_terminal("NO_COLOR=1");
  EXPECT_FALSE(has(plain, "\x1b"));
  EXPECT_TRUE(has(plain, "█"));
}

TEST(Inspect, HelpNamesWhatThereIs) {
  const Ran ran = exits(0, run_qkvet("demo inspect --help"));
  EXPECT_FALSE(has(ran.out, "--png"));
  expect_parts(ran, {"--head", "--out", "--force", "--json", "--kernel",
                     "3 it was not judged"});
}

}  // namespace
}  // namespace qkvet::cli::inspect_test
