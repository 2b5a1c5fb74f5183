// SPDX-License-Identifier: Apache-2.0
// qkvet new: each template is written, compiled and judged, and a mistake in it
// is found.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <ostream>

#include "cli/base/program_run.h"
#include "core/base/at_night.h"

namespace qkvet::cli::new_test {
namespace {

namespace fs = std::filesystem;

// Enough for every law to find the errors below. Threads of an emulator are
// more expensive.
constexpr const char* kCases = " --cases 800";
constexpr const char* kCasesOfThreads = " --cases 200";
constexpr const char* kNearest =
    " --cases 3000 --law shifted_keys_change_nothing";

struct Row {
  const char* file;
  const char* options;
  const char* kernel;
  // A right expression of the template, and a wrong replacement.
  const char* right;
  const char* wrong;
};

// Otherwise test names contain addresses, which differ from build to build.
void PrintTo(const Row& row, std::ostream* out) { *out << row.file; }

class Templates : public testing::TestWithParam<Row> {};

TEST_P(Templates, CompilesConformsAndFailsWhenItIsBroken) {
  const Row& row = GetParam();
  const fs::path file = scratch() / row.file;
  const bool rust = file.extension() == ".rs";
  const bool threads = file.extension() == ".cu";
  if (rust && std::system("rustc --version >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "rustc is not on this machine";
  const std::string quoted = "'" + std::string(row.file) + "'";
  const Ran made = run_qkvet("new " + quoted + row.options);
  ASSERT_EQ(made.exit, 0) << made.error;
  EXPECT_TRUE(has(made.out, "next: qkvet check "));
  EXPECT_EQ(made.error, "");
  std::string text = read_text(file);
  EXPECT_FALSE(has(text, "SPDX")) << "it is the user's";
  EXPECT_FALSE(has(text, "BROKEN")) << "faults are examples'";
  struct stat info {};
  ASSERT_EQ(stat(file.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0600, 0600U);

  const char* const cases = at_night() ? ""
                            : threads  ? kCasesOfThreads
                                       : kCases;
  const std::string check =
      "check " + quoted + cases + (rust ? "" : " --cflags '-Wall -Wextra'");
  const Ran good = exits(0, run_qkvet(check));
  EXPECT_EQ(good.error, "") << "warnings";
  EXPECT_TRUE(has(good.out, row.kernel));
  if (threads) {
    // The law that is closest to the declared arithmetic: few cases miss a
    // scale that is declared at another stage.
    const Ran near = exits(0, run_qkvet("check " + quoted + kNearest));
  }

  const size_t at = text.find(row.right);
  ASSERT_NE(at, std::string::npos);
  write_text(file, text.replace(at, std::string(row.right).size(), row.wrong));
  const Ran bad = exits(1, run_qkvet(check));
}

INSTANTIATE_TEST_SUITE_P(
    New, Templates,
    testing::Values(
        Row{"mine.cpp", "", "mine/attention", "p[j] *= scale", ""},
        Row{"c kernel.c", "", "c_kernel/attention", "i + Tk - Tq + 1", "Tk"},
        Row{"Full-ABI.cc", " --template abi", "full_abi/attention",
            "max + std::log(sum)", "std::log(sum)"},
        Row{"kv.cxx", " -t cache", "kv/slots", "tokens - Tq + i + 1", "tokens"},
        Row{"planned.cpp", " -t plan", "planned/planned", "i + keys - rows + 1",
            "i + 1"},
        Row{"stale_plan.cpp", " -t plan", "stale_plan/planned",
            "plan->items.swap(items)", "plan->items.size()"},
        Row{"race.cu", "", "race/attention", "__syncthreads();  // the next",
            "// the next"},
        Row{"oxide.rs", "", "oxide/attention", "dot * scale", "dot"}),
    [](const auto& test) {
      std::string name = test.param.file;
      std::erase_if(name, [](char c) { return std::isalnum(c) == 0; });
      return name;
    });

// Types and words of other people's files: halves that are read eight at a
// time, CUDA's own headers, a static kernel, a promise to the compiler.
constexpr const char* kHalves = R"(#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <vector>

#include "qkvet/plain.h"
#include "qkvet/simt/runtime.h"

static __global__ void first(const half* v, float* o, int Tk, int d) {
  __builtin_assume(Tk > 0);
  const half* row = v + blockIdx.x * Tk * 8;
  const uint4 eight = *reinterpret_cast<const uint4*>(row);
  const half2* pairs = reinterpret_cast<const half2*>(&eight);
  const float2 pair = __half22float2(pairs[threadIdx.x / 2]);
  o[blockIdx.x * d + threadIdx.x] = threadIdx.x % 2 == 0 ? pair.x : pair.y;
}

static void attend(const float*, const float*, const float* v, float* o,
                   int64_t B, int64_t H, int64_t, int64_t Tk, int64_t d, int) {
  std::vector<half> halves(B * H * Tk * 8);
  for (int64_t n = 0; n < B * H * Tk * d; ++n)
    halves[n / d * 8 + n % d] = __float2half(v[n]);
  simt::or_abort(SIMT_LAUNCH(first, unsigned(B * H), unsigned(d), 0, nullptr,
                             halves.data(), o, int(Tk), int(d)));
}
QKVET_PLAIN_KERNEL(attend, "halves/first");
)";

TEST(New, CudaOfStrangersCompiles) {
  write_text(scratch() / "halves.cu", kHalves);
  const auto replay = [](const std::string& of) {
    return run_qkvet("replay " + of +
                     " --law agrees_with_oracle halves.cu --cflags -Wall");
  };
  const Ran one_key = exits(0, replay("f32,B2,H3,Tq1,Tk1,d7,v=lattice"));
  EXPECT_EQ(one_key.error, "") << "warnings";
  EXPECT_EQ(replay("f32,B2,H3,Tq1,Tk2,d7,v=lattice").exit, 1);
}

TEST(New, NeverOverwrites) {
  const fs::path file = scratch() / "taken.cpp";
  write_text(file, "mine");
  expect_wrong_use(run_qkvet("new taken.cpp"), "taken.cpp: is there already");
  EXPECT_EQ(read_text(file), "mine");
  // A dangling link counts as a user's file, too.
  fs::create_symlink(scratch() / "nowhere", scratch() / "link.cpp");
  expect_wrong_use(run_qkvet("new link.cpp"), "link.cpp: is there already");
  EXPECT_FALSE(fs::exists(scratch() / "nowhere"));
}

TEST(New, WhatCannotBeWrittenIsOneLineAndLeavesNothing) {
  const fs::path folder = scratch() / "empty";
  fs::create_directories(folder);
  expect_wrong_use(run_qkvet("new no/such/x.cpp", folder),
                   "no/such/x.cpp: the directory is not there");
  expect_wrong_use(run_qkvet("new x.txt", folder), "x.txt: no template");
  expect_wrong_use(run_qkvet("new x", folder),
                   ".cpp .cc .cxx .c .cu .rs .toml");
  expect_wrong_use(
      run_qkvet("new x.cpp -t abc", folder),
      "\"abc\"; allowed: plain, abi, cache, plan, rust, cuda, task");
  expect_wrong_use(run_qkvet("new x.c -t abi", folder), "is for .cpp files");
  expect_wrong_use(run_qkvet("new x.cpp -t rust", folder), "is for .rs files");
  expect_wrong_use(run_qkvet("new", folder), "file is required");
  EXPECT_TRUE(fs::is_empty(folder));
  // The control: the same command without an error leaves one file.
  EXPECT_EQ(run_qkvet("new x.cpp", folder).exit, 0);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1);
}

}  // namespace
}  // namespace qkvet::cli::new_test
