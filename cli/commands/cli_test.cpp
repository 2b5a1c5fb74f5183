// SPDX-License-Identifier: Apache-2.0
// The program as its users meet it: what it prints, and its exit code.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>

#include "cli/base/program_run.h"

namespace qkvet::cli::cli_test {
namespace {

namespace fs = std::filesystem;

std::string bad_plugin() { return QKVET_BAD_PLUGIN; }

TEST(Cli, CheckPassesTheScalarKernel) {
  const Ran ran =
      exits(0, run_qkvet("check --kernel scalar/plain --cases 300"));
  EXPECT_TRUE(std::regex_search(
      ran.out, std::regex("PASSED  1 kernel, [0-9]+ laws asked: [0-9]+ "
                          "passed, 0 failed; ")))
      << ran.out;
  // The fourteen are the laws about pages, appended tokens, int32 lengths and
  // plans, which it does not take.
  EXPECT_TRUE(
      std::regex_search(ran.out, std::regex("scalar/plain +[0-9]+ +0 +14 ")))
      << ran.out;
  const Ran full = run_qkvet("check --kernel scalar/plain --cases 300 -v");
  EXPECT_TRUE(has(full.out, "; pages, new tokens,"));
  // Silence in a pipe: no progress, no colour.
  EXPECT_EQ(ran.error, "");
  EXPECT_FALSE(has(ran.out, "\x1b"));
}

TEST(Cli, WrongUseIsOneLineAndTwo) {
  const std::pair<const char*, const char*> wrong[] = {
      {"", "A subcommand is required"},
      {"chekc", "chekc"},
      {"check --kernel nobody/nothing", "nobody/nothing"},
      {"check --kernel 'scalar/x*'", "scalar/x*"},
      {"check --law no_such_law", "no_such_law"},
      {"check --colour", "--colour"},
      {"check --cases 0", "--cases"},
      {"check --cases many", "--cases"},
      {"check --cases 10 --budget 1s", "--budget"},
      {"check --budget soon", "--budget soon"},
      {"check --budget -3s", "--budget"},
      {"check --seed x", "--seed x"},
      {"check --jobs -1", "--jobs"},
      {"check /nowhere.so", "/nowhere.so"},
      {"check /etc/passwd", "/etc/passwd"},
      {"check --cases 6 --junit /nowhere/x.xml", "/nowhere/x.xml"},
      {"check --cases 6 --json /nowhere/x.json", "/nowhere/x.json"},
      {"explain everything", "everything"},
      {"replay", "case"},
      {"replay f32,B1,H1", "Tq is missing"},
      {"replay nonsense", "nonsense"},
      {"replay f32,B1,H1,Tq1,Tk1,d1 --law x", "\"x\""},
      {"replay @/nowhere.txt", "/nowhere.txt"},
      {"replay f32,B1,H1,Tq1,Tk1,d1 --digest 00000000", "--digest 00000000"},
      {"replay f32,B1,H1,Tq1,Tk1,d1,layout=fra", "\"layout=fra\": allowed "},
      {"replay f32,B1,H1,Tq1,Tk1,d1,layout=", "\"layout=\" has no value"},
      {"replay f32,B1,H1,Tq1,Tk1,d1,layout=far,layout=far", "given twice"},
      {"check --pin layout=far", "--pin \"layout=far\": allowed: B H"},
  };
  for (const auto& [arguments, part] : wrong)
    expect_wrong_use(run_qkvet(arguments), part);
}

TEST(Cli, ParseOnlyReadsALineAndRunsNothing) {
  const Ran fine = exits(0, run_qkvet("--parse-only golden record new_folder"));
  EXPECT_EQ(fine.out + fine.error, "");
  EXPECT_FALSE(fs::exists(scratch() / "new_folder"));
  expect_wrong_use(run_qkvet("--parse-only chek"), "unknown command \"chek\"");
  expect_wrong_use(run_qkvet("--parse-only check --no-such"), "--no-such");
  expect_wrong_use(run_qkvet("--parse-only check --sizes tiny"), "--sizes");
  expect_wrong_use(run_qkvet("--parse-only"), "subcommand");
}

TEST(Cli, NothingRunIsThree) {
  // fp8 has no bound, so every law is unsupported.
  const Ran ran = exits(
      3, run_qkvet("replay fp8e4m3,B1,H1,Tq1,Tk2,d3 --kernel scalar/plain"));
  // A law that does not apply to the case.
  EXPECT_EQ(
      run_qkvet("replay f32,B1,H1,Tq1,Tk2,d3 --law future_weights_are_zero "
                "--kernel scalar/plain")
          .exit,
      3);
}

// Parts of tensors many GiB apart: a kernel that cannot have them is not
// judged, and the reason is printed.
TEST(Cli, FarStridesThatCannotBeAreNotJudged) {
  const auto replay = [](const std::string& options, const std::string& kernel,
                         const fs::path& program) {
    return run_qkvet("replay f32,B2,H1," + options +
                         ",d4,layout=far --law agrees_with_oracle --kernel " +
                         kernel,
                     scratch(), "", program);
  };
  const auto expect_unjudged = [](const Ran& ran, const std::string& why) {
    EXPECT_EQ(ran.exit, 3) << ran.out << ran.error;
    EXPECT_TRUE(has(ran.out, "unsupported  agrees_with_oracle"));
    EXPECT_TRUE(has(ran.out, why));
    EXPECT_EQ(ran.error, "");
  };
#ifndef QKVET_SANITIZED  // where there are no controls
  expect_unjudged(replay("Tq3,Tk3", "controls/qkv_pointer", {}),
                  "any strides (members far apart) is not declared");
#endif
  // Mappings of a process are counted.
  const std::string parts = "f32,B1,H1,Tq1,Tk";
  const auto rows = [&](const std::string& keys) {
    return run_qkvet("replay " + parts + keys +
                     ",d1,layout=far --law agrees_with_oracle --kernel "
                     "scalar/plain");
  };
  expect_unjudged(rows("4097"),
                  "k has 4097 parts, and at most 4096 are put far apart");
  EXPECT_EQ(rows("4096").exit, 0);
  // All of it, if no limit prevents it.
  const Ran far = exits(0, replay("Tq3,Tk3", "scalar/plain", {}));
#ifndef QKVET_SANITIZED  // which has more addresses than this limit
  const fs::path limited = scratch() / "limited.sh";
  write_text(limited, "#!/bin/sh\nulimit -v 20000000\nexec '" QKVET_PROGRAM
                      "' \"$@\"\n");
  fs::permissions(limited, fs::perms::owner_all);
  expect_unjudged(replay("Tq3,Tk3", "scalar/plain", limited),
                  "a limit (ulimit -v), gives no 32.0 GiB of addresses to q");
  // A run that has few of them continues without them and reports it.
  const Ran run = run_qkvet("check --kernel scalar/plain --cases 2000 -v",
                            scratch(), "", limited);
  EXPECT_EQ(run.exit, 0) << run.out << run.error;
  EXPECT_TRUE(has(run.out, "(ulimit -v)"));
#endif
}

#if defined(__x86_64__)
TEST(Cli, WithoutAvx2TheVerdictIsUnsupported) {
  const Ran named = run_qkvet("check --kernel avx2/flash --cases 60", scratch(),
                              "QKVET_CPU=baseline");
  EXPECT_EQ(named.exit, 3) << named.out << named.error;
  EXPECT_TRUE(has(named.out, "unsupported"));
  EXPECT_TRUE(has(named.out, "AVX2"));
  // By default it is shown and does not fail the run.
  const Ran all = run_qkvet("check --law agrees_with_oracle --cases 60",
                            scratch(), "QKVET_CPU=baseline");
  EXPECT_EQ(all.exit, 0) << all.out << all.error;
  EXPECT_TRUE(has(all.out, "unsupported"));
}
#endif

TEST(Cli, ReplayTakesListsAndDigests) {
  const fs::path list = scratch() / "cases.txt";
  std::ofstream(list) << "# two cases\nf32,B1,H1,Tq1,Tk1,d1\n\n"
                         "f32,B1,H1,Tq2,Tk2,d1,causal=br  # the second\n";
  const Ran ran = exits(
      0, run_qkvet("replay '@" + list.string() + "' --kernel scalar/plain"));
  EXPECT_TRUE(has(ran.out, "cases.txt:4: "));
  std::ofstream(list) << "f32,B1,H1,Tq1,Tk1,d1\nf32,B1,H0,Tq1,Tk1,d1\n";
  expect_wrong_use(run_qkvet("replay '@" + list.string() + "'"),
                   "cases.txt:2: case: H0");
  EXPECT_EQ(run_qkvet("replay f32,B1,H2,Hkv1,Tq3,Tk5,d4 --digest 22e10344 "
                      "--kernel scalar/plain")
                .exit,
            0);
}

// Whether the kernel declares them or not, no law fails on them or ends the
// program.
TEST(Cli, ReplayTakesEmptyExtents) {
  for (const char* const extents :
       {"B0,H1,Tq2,Tk2", "B1,H1,Tq0,Tk2", "B1,H1,Tq2,Tk0", "B0,H1,Tq0,Tk0"})
    for (const char* const causal : {"", ",causal=tl", ",causal=br"}) {
      const Ran ran = run_qkvet("replay f32," + std::string(extents) + ",d1" +
                                causal + " --kernel scalar/plain");
      EXPECT_TRUE(ran.exit == 0 || ran.exit == 3) << ran.out << ran.error;
    }
}

// One value per flag, so that a flag never swallows the case that follows it.
TEST(Cli, FlagsAndCasesComeInAnyOrder) {
  const Ran ran = run_qkvet(
      "replay --law agrees_with_oracle --kernel scalar/plain "
      "f32,B1,H1,Tq1,Tk2,d3");
  EXPECT_EQ(ran.exit, 0) << ran.out << ran.error;
}

// It is built if there is nvcc, and judged if there is a device, too.
TEST(Cli, TheFamilyOfTheDeviceSaysWhyItIsNotJudged) {
  const Ran ran = run_qkvet("check --kernel cuda/flash --cases 51");
  if (!fs::exists(fs::path(QKVET_PROGRAM).parent_path() / ".." / "lib" /
                  "qkvet" / "qkvet_cuda.so")) {
    EXPECT_EQ(ran.exit, 2) << ran.out;
    EXPECT_TRUE(has(ran.error, "the family cuda is not built"));
  } else if (ran.exit != 0) {
    EXPECT_EQ(ran.exit, 3) << ran.out << ran.error;
    EXPECT_TRUE(has((ran.out + ran.error), "no CUDA d"))
        << ran.out << ran.error;
  }
}

TEST(Cli, TheSmallScopeTakesNeitherLawsNorPins) {
  expect_wrong_use(
      run_qkvet("check --kernel scalar/plain --exhaustive --pin d=2"),
      "no --pin beside it");
  expect_wrong_use(run_qkvet("check --kernel scalar/plain --exhaustive --law "
                             "weights_sum_to_one"),
                   "no --law beside it");
}

TEST(Cli, ABudgetBuysWholeRounds) {
  const Ran ran = run_qkvet(
      "check --kernel scalar/plain --law agrees_with_oracle "
      "--law weights_sum_to_one --budget 0.2s");
  EXPECT_EQ(ran.exit, 0) << ran.out;
  EXPECT_TRUE(has(ran.out, "whole rounds"));
}

// With an exact law: others may have too few cases that could have failed under
// some seed, and report that.
TEST(Cli, ARandomSeedIsPrinted) {
  const Ran ran = run_qkvet(
      "check --kernel scalar/plain --law every_key_counts_once --cases 100 "
      "--seed random");
  EXPECT_EQ(ran.exit, 0) << ran.out;
  EXPECT_TRUE(std::regex_search(ran.out, std::regex("seed [0-9]+")));
}

// A kernel that misbehaves gets a verdict with a case, and the run goes on.
Ran bad_beside_good(const std::string& kernel) {
  return run_qkvet(
      "check -v --cases 60 --diagnose 0 --law reads_only_its_inputs --law "
      "weights_sum_to_one "
      "--law agrees_with_oracle " +
      bad_plugin() + " --kernel bad/" + kernel + " --kernel scalar/plain");
}

TEST(Cli, ACrashIsFourAndTheRunGoesOn) {
  for (const char* kernel : {"abort", "null_write", "exit", "throw", "stack"}) {
    const Ran ran = bad_beside_good(kernel);
    EXPECT_EQ(ran.exit, 4) << kernel << ran.out << ran.error;
    EXPECT_TRUE(has(ran.out, "CRASH"));
    EXPECT_TRUE(std::regex_search(
        ran.out, std::regex("scalar/plain +agrees_with_oracle +passed")))
        << ran.out;
  }
}

// Three kernels of one library, of which the second always crashes.
TEST(Cli, ACrashingSiblingLeavesTheOthersJudged) {
  const Ran ran =
      run_qkvet("check " QKVET_BAD_PLUGIN
                " --kernel bad/copy --kernel bad/abort --kernel bad/unwritten "
                "--cases 60 --diagnose 0 --verbose");
  EXPECT_EQ(ran.exit, 4) << ran.out << ran.error;
  for (const char* kernel : {"bad/copy", "bad/unwritten"})
    EXPECT_TRUE(std::regex_search(
        ran.out,
        std::regex(
            std::string(kernel) +
            " +(agrees_with_oracle|reads_only_its_inputs) +(passed|FAILED)")))
        << kernel << ran.out;
  EXPECT_TRUE(has(ran.out, "gdb --args qkvet replay"));
}

TEST(Cli, AHangIsFourAndTheRunGoesOn) {
  const Ran ran = exits(4, bad_beside_good("endless"));
  EXPECT_TRUE(has(ran.out, "no end after"));
  EXPECT_TRUE(std::regex_search(
      ran.out, std::regex("scalar/plain +agrees_with_oracle +passed")));
}

TEST(Cli, AReadPastTheEndOfKIsAFailureOfTheMemoryLaw) {
  const Ran ran = exits(1, bad_beside_good("read_past_k"));
  EXPECT_TRUE(has(ran.out, "FAIL  reads_only_its_inputs   bad/read_past_k"));
  EXPECT_TRUE(has(ran.out, "READ of k, 0 bytes past its end"));
}

TEST(Cli, APluginIsJudgedAndNamedInTheReplayLine) {
  const Ran ran = exits(
      1, run_qkvet("check --cases 60 " + bad_plugin() + " --kernel bad/copy"));
  EXPECT_TRUE(has(ran.out, bad_plugin()));
  // One of many in the library, so that it is named.
  std::smatch again;
  ASSERT_TRUE(std::regex_search(
      ran.out, again,
      std::regex("again +qkvet (replay .* --kernel bad/copy)\n")))
      << ran.out;
  const Ran replayed = exits(1, run_qkvet(again[1]));
  EXPECT_FALSE(has(replayed.out, "bad/abort"));
}

TEST(Cli, ThePluginsOwnKernelsAreListed) {
  const Ran ran = exits(0, run_qkvet("explain " + bad_plugin()));
  for (const char* part :
       {"bad/copy\n", "bad/aligned\n", "  subject     attention",
        "  alignment   ", "  options     "})
    EXPECT_TRUE(has(ran.out, part)) << part;
  EXPECT_FALSE(has(ran.out, "scalar/plain"));
  const Ran json = run_qkvet("explain --json " + bad_plugin());
  EXPECT_TRUE(has(json.out, "\"subject\":\"attention\""));
  expect_wrong_use(run_qkvet("explain /etc/passwd"), "/etc/passwd");
  expect_wrong_use(run_qkvet("explain /nowhere.so"), "/nowhere.so");
}

// A named kernel is judged, or the command is refused.
TEST(Cli, AFileOfWhichNoKernelIsNamedIsWrongUse) {
  const std::string plugin = " " + bad_plugin();
  const std::string line = bad_plugin() +
                           ": none of its kernels is named by --kernel "
                           "scalar/plain; allowed: ";
  for (const char* command :
       {"check -n 5", "replay f32,B1,H1,Tq1,Tk2,d1", "identify",
        "golden verify", "fuzz shapes --cases 5", "bench decode"})
    expect_wrong_use(run_qkvet(command + plugin + " --kernel scalar/plain"),
                     line);
  const std::string source =
      " '" + std::string(QKVET_EXAMPLES) + "/ggml_like.cpp'";
  expect_wrong_use(run_qkvet("check -n 5 --kernel scalar/plain" + source),
                   "ggml_like.cpp: none of its kernels is named by");
  // One kernel of each is enough; an unknown name is an error.
  const Ran both = run_qkvet(
      "check -n 5 --law weights_sum_to_one --kernel bad/copy "
      "--kernel scalar/plain" +
      plugin);
  EXPECT_EQ(both.exit, 1) << both.out << both.error;
  expect_wrong_use(run_qkvet("check --kernel bad/coyp" + plugin),
                   "no kernel is named \"bad/coyp\"");
}

}  // namespace
}  // namespace qkvet::cli::cli_test
