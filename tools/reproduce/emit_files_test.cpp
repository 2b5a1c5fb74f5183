// SPDX-License-Identifier: Apache-2.0
// qkvet replay --emit: where it writes, and what it refuses to write.
#include <gtest/gtest.h>

#include "tools/base/program_run.h"
#include "tools/reproduce/emit_run.h"

namespace qkvet::tools::emit_files_test {
namespace {

namespace fs = std::filesystem;

fs::path fresh_folder(const std::string& name) {
  const fs::path folder = scratch() / name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

const std::string kFailing =
    kReplay +
    "f32,B1,H1,Tq2,Tk3,d4 --law agrees_with_oracle --kernel "
    "faulty/no_scale ";

TEST(EmitFiles, NothingIsOverwrittenUnlessForced) {
  const fs::path folder = fresh_folder("files");
  write_text(folder / "taken.c", "mine");
  const std::string emit = std::string(kFailing) + "--emit ";
  const char* there = "is there already and is not overwritten";
  expect_wrong_use(run_qkvet(emit + "c --out taken.c", folder), there);
  EXPECT_EQ(read_text(folder / "taken.c"), "mine");
  EXPECT_EQ(run_qkvet(emit + "c --out taken.c --force", folder).exit, 1);
  EXPECT_NE(read_text(folder / "taken.c"), "mine");
  EXPECT_EQ(run_qkvet(emit + "npy --out t", folder).exit, 1);
  expect_wrong_use(run_qkvet(emit + "npy --out t/", folder), there);
  write_text(folder / "t" / "o.txt", "old");
  EXPECT_EQ(run_qkvet(emit + "npy --out t --force", folder).exit, 1);
  EXPECT_FALSE(fs::exists(folder / "t" / "o.txt"));
  // A folder that is somebody's own stays.
  fs::create_directories(folder / "own");
  write_text(folder / "own" / "thesis.tex", "mine");
  expect_wrong_use(run_qkvet(emit + "npy --out own --force", folder),
                   "own: is not replaced: it is no folder with a case.txt");
  EXPECT_EQ(read_text(folder / "own" / "thesis.tex"), "mine");
  expect_wrong_use(run_qkvet(emit + "c --out no/such.c", folder),
                   "no/such.c: cannot be written");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 3);
}

TEST(EmitFiles, WhatCannotBeWrittenDownIsOneLine) {
  const fs::path folder = fresh_folder("refusals");
  const std::string failing = kFailing;
  const auto refuses = [&](const std::string& arguments,
                           const std::string& part) {
    expect_wrong_use(run_qkvet(arguments, folder), part);
  };
  refuses(failing + "--emit xml", "xml");
  refuses(failing + "--out x.c", "--out and --force are about --emit");
  refuses(failing + "--kernel scalar/plain --emit c", "2 kernels are named");
  refuses(failing + "--law weights_sum_to_one --emit c", "2 laws");
  write_text(folder / "log.story", "");
  refuses("replay log.story --kernel faulty/stale_cache --emit npy",
          "--emit npy: a recorded story; allowed: a case");
  fs::remove(folder / "log.story");
  refuses(kReplay +
              "f32,B1,H1,Tq1,Tk128,d256 --law agrees_with_oracle --kernel "
              "faulty/no_scale --emit c",
          "allowed: 65536 as literals (--emit npy takes any)");
  refuses(kReplay +
              "f32,B1,H1,Tq3,Tk2,d4 --law agrees_with_oracle --kernel "
              "faulty/tail_row_not_written --emit c",
          "no number but what the kernel did to memory");
  write_text(folder / "list.txt",
             "f32,B1,H1,Tq1,Tk2,d4\nf32,B1,H1,Tq2,Tk2,d4\n");
  refuses(
      "replay @list.txt --law agrees_with_oracle --kernel faulty/no_scale "
      "--emit c",
      "one case, not a list");
  fs::remove(folder / "list.txt");
  EXPECT_TRUE(fs::is_empty(folder));
  // There is nothing to write about a kernel that passes, which is no mistake.
  const Ran passes =
      run_qkvet(kReplay +
                    "f32,B1,H1,Tq2,Tk3,d4 --law agrees_with_oracle --kernel "
                    "scalar/plain --emit c",
                folder);
  EXPECT_EQ(passes.exit, 0);
  EXPECT_NE(passes.out.find("nothing: no law failed"), std::string::npos);
  EXPECT_TRUE(fs::is_empty(folder));
  // The control: one that fails leaves one file.
  EXPECT_EQ(run_qkvet(failing + "--emit c", folder).exit, 1);
  EXPECT_TRUE(fs::exists(folder / "qkvet-agrees_with_oracle.c"));
}

TEST(EmitFiles, ACacheThatDiesIsOneLine) {
  const fs::path folder = fresh_folder("dies");
  ASSERT_EQ(run_qkvet("new kv.cpp -t cache", folder).exit, 0);
  std::string text = read_text(folder / "kv.cpp");
  const std::string where = "Tq = a.q.shape[2];\n";
  const size_t at = text.find(where);
  ASSERT_NE(at, std::string::npos);
  text.insert(at + where.size(), "  if (Tq == 2) __builtin_trap();\n");
  write_text(folder / "kv.cpp", text);
  const std::string replay = kReplay +
                             "f32,B1,H1,d4,cap4,story=step.a.TOKENS --law "
                             "cache_agrees_with_history kv.cpp --out x --emit ";
  const auto with = [&](const char* tokens) {
    return std::string(replay).replace(replay.find("TOKENS"), 6, tokens);
  };
  for (const char* kind : {"c", "py", "npy"}) {
    expect_wrong_use(run_qkvet(with("2") + kind, folder),
                     "no number but what the kernel did to memory or to its "
                     "process");
    EXPECT_FALSE(fs::exists(folder / "x"));
  }
  // The control: a step that it survives, and of which nothing is wrong.
  const Ran passes = run_qkvet(with("1") + "c", folder);
  EXPECT_EQ(passes.exit, 0) << passes.out << passes.error;
}

// Adds what no bound can see, where a law asks for an exact 0.
constexpr const char* kNearlyZero = R"(
#include <math.h>
#include "qkvet/plain.h"
static void nearly(const float* q, const float* k, const float* v, float* o,
                   int64_t B, int64_t H, int64_t Tq, int64_t Tk, int64_t d,
                   int causal) {
  for (int64_t n = 0; n < B * H * Tq * d; ++n) {
    const int64_t row = n / d, head = row / Tq, i = row % Tq, c = n % d;
    const int64_t seen = causal ? i + Tk - Tq + 1 : Tk;
    double sum = 0, all = 0;
    for (int64_t j = 0; j < seen; ++j) {
      double s = 0;
      for (int64_t x = 0; x < d; ++x)
        s += (double)q[row * d + x] * k[(head * Tk + j) * d + x];
      all += exp(s / sqrt((double)d));
      sum += exp(s / sqrt((double)d)) * v[(head * Tk + j) * d + c];
    }
    o[n] = (float)(sum / all) + 1e-44f;
  }
}
QKVET_PLAIN_KERNEL(nearly, "mine/nearly");
)";

TEST(EmitFiles, WhereNoNumberLeavesItsBoundThereAreTensorsOnly) {
  const fs::path folder = fresh_folder("nearly");
  write_text(folder / "nearly.c", kNearlyZero);
  const std::string replay =
      kReplay +
      "f32,B1,H1,Tq2,Tk2,d1,causal=tl,q=zero,k=zero,v=zero --law "
      "future_weights_are_zero nearly.c --out x --emit ";
  for (const char* kind : {"c", "py"})
    expect_wrong_use(run_qkvet(replay + kind, folder),
                     "no number leaves its bound on its own");
  EXPECT_FALSE(fs::exists(folder / "x"));
  EXPECT_EQ(run_qkvet(replay + "npy", folder).exit, 1);
  const std::string readme = read_text(folder / "x" / "README.txt");
  EXPECT_NE(readme.find("No number leaves its bound"), std::string::npos);
}

}  // namespace
}  // namespace qkvet::tools::emit_files_test
