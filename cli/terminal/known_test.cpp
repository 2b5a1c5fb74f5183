// SPDX-License-Identifier: Apache-2.0
// Files of accepted failures: how they are read, and their effect on a run.
#include "cli/terminal/known.h"

#include <gtest/gtest.h>

#include "cli/base/program_run.h"
#include "cli/terminal/report.h"

namespace qkvet::cli::known_test {
namespace {

KnownFailures parsed(const std::string& text) {
  std::string error;
  auto known = parse_known(text, "known.txt", &error);
  EXPECT_TRUE(known.has_value()) << error;
  return known.value_or(KnownFailures{});
}

TEST(Known, ReadsLinesAndSkipsCommentsAndBlanks) {
  const KnownFailures known = parsed(
      "# kernel law how since why\r\n\n  \t\n"
      "mine/fast  weights_sum_to_one\tlaw 2026-11-22   comes too late, #12\r\n"
      "mine/slow reads_only_its_inputs memory 2024-02-29 reads a row more");
  ASSERT_EQ(known.all.size(), 2u);
  EXPECT_EQ(known.all[0].kernel, "mine/fast");
  EXPECT_STREQ(known.all[0].law->id, "weights_sum_to_one");
  EXPECT_EQ(known.all[0].kind, FailureKind::kLaw);
  EXPECT_EQ(known.all[0].line, 4);
  EXPECT_EQ(known_reason(known.all[0]),
            "since 2026-11-22: comes too late, #12");
  EXPECT_EQ(known.all[1].kind, FailureKind::kMemory);
  EXPECT_EQ(known.find("mine/slow", *find_law("reads_only_its_inputs")),
            std::vector{&std::as_const(known).all[1]});
  EXPECT_TRUE(known.find("mine/slow", *find_law("weights_sum_to_one")).empty());
  EXPECT_TRUE(parsed("").all.empty());
}

TEST(Known, EveryWrongLineIsNamed) {
  const std::string good = "a/b weights_sum_to_one law 2026-11-22 why\n";
  const struct {
    std::string text, part;
  } rows[] = {
      {"a/b\n", "known.txt:1: a line is KERNEL LAW HOW SINCE [until=DAY] WHY"},
      {"\na/b weights_sum_to_one law 2026-11-22\n", "known.txt:2: a line is"},
      {"a/b weights law 2026-11-22 why\n", "no law is named \"weights\""},
      {"a/b weights_sum_to_one Law! 2026-11-22 why\n", "allowed: law, memory"},
      {"a/b weights_sum_to_one law 2026-02-30 why\n", "\"2026-02-30\": a day"},
      {"a/b weights_sum_to_one law 22.11.2026 why\n", "\"22.11.2026\": a day"},
      {"a/b weights_sum_to_one law 2026-11-2x why\n", "\"2026-11-2x\": a day"},
      {"a/b weights_sum_to_one law 2026-+1-02 why\n", "\"2026-+1-02\": a day"},
      {"a/b weights_sum_to_one law 2026-11-22 until=soon why\n",
       "until=soon: a day is written"},
      {"a/b weights_sum_to_one law 2026-11-22 until=2026-11-21 why\n",
       "until=2026-11-21: is before 2026-11-22"},
      {"a/b weights_sum_to_one law 2026-11-22 until=2027-01-31\n",
       "known.txt:1: a line is"},
      {good + good,
       "known.txt:2: a/b weights_sum_to_one law has a line already, 1"}};
  for (const auto& [text, part] : rows) {
    std::string error;
    EXPECT_FALSE(parse_known(text, "known.txt", &error)) << text;
    EXPECT_TRUE(has(error, part));
    EXPECT_FALSE(has(error, "\n"));
  }
}

// A law of a kernel that failed in two ways; the file may name either.
struct TwoFailures {
  TwoFailures() {
    KernelResult& kernel = result.kernels.emplace_back();
    kernel.kernel.judged.info.name = "a/b";
    Cell& cell = kernel.cells.emplace_back();
    cell.law = find_law("weights_sum_to_one");
    cell.verdict = Verdict::kFailed;
    cell.failure.emplace().law = cell.law;
    cell.others.emplace_back().law = cell.law;
    cell.others[0].judgement.kind = FailureKind::kMemory;
  }
  KnownCell held_against(const std::string& text) {
    const KnownFailures known = parsed(text);
    const ReportInput input{result, options, selected, false, &known};
    return copied(known_cell(input, result.kernels[0], cell()));
  }
  // The lines live no longer than the file.
  static KnownCell copied(KnownCell known) {
    known.lines.clear();
    return known;
  }
  const Cell& cell() const { return result.kernels[0].cells[0]; }

  RunResult result;
  RunOptions options;
  SelectedKernels selected;
};

TEST(Known, EveryFailureOfALawNeedsALine) {
  TwoFailures two;
  const std::string law = "a/b weights_sum_to_one law 2026-11-22 why\n";
  const std::string memory = "a/b weights_sum_to_one memory 2026-11-22 why\n";

  const KnownCell first = two.held_against(law);
  EXPECT_EQ(first.state, KnownState::kOtherwise);
  ASSERT_EQ(first.problems.size(), 1u);
  EXPECT_EQ(first.problems[0],
            "known.txt:1: a/b weights_sum_to_one is known to fail by law, and "
            "fails by memory");
  EXPECT_EQ(two.held_against(memory).state, KnownState::kOtherwise);
  const KnownCell both = two.held_against(law + memory);
  EXPECT_EQ(both.state, KnownState::kAsKnown);
  EXPECT_TRUE(both.problems.empty());
}

TEST(Known, ALineAboutAWayThatIsGoneIsWrong) {
  TwoFailures two;
  const std::string law = "a/b weights_sum_to_one law 2026-11-22 why\n";
  const std::string memory = "a/b weights_sum_to_one memory 2026-11-22 why\n";
  two.result.kernels[0].cells[0].others.clear();
  const KnownCell one = two.held_against(law + memory);
  EXPECT_EQ(one.state, KnownState::kGone);
  ASSERT_EQ(one.problems.size(), 1u);
  EXPECT_EQ(one.problems[0],
            "known.txt:2: a/b weights_sum_to_one does not fail by memory any "
            "more: take the line out");
}

// The day itself counts; days are of UTC.
TEST(Known, ALineExpires) {
  KnownFailures known = parsed(
      "a/b weights_sum_to_one law 2026-11-22 until=2027-01-31 soon mended\n"
      "a/b rows_stay_in_hull law 2026-11-22 until it is mended\n");
  ASSERT_EQ(known.all.size(), 2u);
  EXPECT_EQ(known.all[0].until, "2027-01-31");
  EXPECT_EQ(known.all[0].why, "soon mended");
  EXPECT_EQ(known_reason(known.all[0]),
            "since 2026-11-22, until 2027-01-31: soon mended");
  EXPECT_EQ(known.all[1].until, "");
  known.today = "2027-01-31";
  EXPECT_FALSE(known.has_expired(known.all[0]));
  known.today = "2027-02-01";
  EXPECT_TRUE(known.has_expired(known.all[0]));
  EXPECT_FALSE(known.has_expired(known.all[1]));
  EXPECT_EQ(day_now().size(), 10u);
  EXPECT_GT(day_now(), "2020-01-01");
}

TEST(Known, WhatHasExpiredCountsAgain) {
  TwoFailures two;
  two.result.kernels[0].cells[0].others.clear();
  const std::string line = "a/b weights_sum_to_one law 2020-01-01 until=";
  EXPECT_EQ(two.held_against(line + "9999-12-31 why\n").state,
            KnownState::kAsKnown);
  const KnownCell over = two.held_against(line + "2020-01-02 why\n");
  EXPECT_EQ(over.state, KnownState::kOtherwise);
  ASSERT_EQ(over.problems.size(), 1u);
  EXPECT_EQ(over.problems[0],
            "known.txt:1: a/b weights_sum_to_one was accepted until "
            "2020-01-02, and fails by law still (since 2020-01-01, until "
            "2020-01-02: why)");
  // A line about a mended failure has to go, expired or not.
  two.result.kernels[0].cells[0].failure.reset();
  EXPECT_EQ(two.held_against(line + "2020-01-02 why\n").state,
            KnownState::kGone);
}

constexpr const char* kScale = "scale_is_one_over_sqrt_d";
const std::string kCheck =
    "check --kernel faulty/no_scale --law scale_is_one_over_sqrt_d --law "
    "weights_sum_to_one --cases 200 --known known.txt";

Ran run_with(const std::string& known, const std::string& more = "") {
  write_text(scratch() / "known.txt", known);
  return run_qkvet(kCheck + more);
}
TEST(KnownRun, AFailureIsKnownUntilADay) {
  const std::string line =
      std::string("faulty/no_scale ") + kScale + " law 2020-01-01 until=";
  const Ran then = exits(0, run_with(line + "9999-12-31 a textbook\n"));
  EXPECT_TRUE(has(then.out, "since 2020-01-01, until\n"));
  EXPECT_TRUE(has(then.out, " 9999-12-31: a textbook\n"));
  const Ran over = exits(
      1, run_with(line + "2020-01-02 a textbook\n", " --json over.jsonl"));
  EXPECT_TRUE(has(over.out, "FAIL  " + std::string(kScale)));
  EXPECT_TRUE(has(over.out, "outdated    known.txt:1"));
  EXPECT_TRUE(has(over.out, "was accepted until"));
  EXPECT_TRUE(
      has(read_text(scratch() / "over.jsonl"), "\"until\":\"2020-01-02\""));
}

TEST(KnownRun, AFailureThatIsKnownDoesNotFailTheRun) {
  const Ran ran = run_with(
      std::string("faulty/no_scale ") + kScale + " law 2026-11-22 a textbook\n",
      " --junit out.xml --json out.jsonl");
  EXPECT_EQ(ran.exit, 0) << ran.out << ran.error;
  EXPECT_FALSE(has(ran.out, "FAIL"));
  EXPECT_TRUE(has(ran.out, "1 passed, 0 failed, 1 known; "));
  EXPECT_TRUE(has(ran.out, std::string("known       faulty/no_scale ") +
                               kScale + ", since 2026-11-22: a textbook"));
  const std::string junit = read_text(scratch() / "out.xml");
  EXPECT_TRUE(has(junit, "failures=\"0\" errors=\"0\" skipped=\"1\""));
  EXPECT_TRUE(has(junit, "<skipped message=\"known since 2026-11-22: a text"));
  EXPECT_TRUE(has(read_text(scratch() / "out.jsonl"), "\"holds\":true"));
}

TEST(KnownRun, OneThatNoLongerFailsFailsTheRun) {
  const Ran ran = run_with(
      std::string("faulty/no_scale ") + kScale +
          " law 2026-11-22 a textbook\n" +
          "# the next one is right\n"
          "faulty/no_scale weights_sum_to_one law 2026-11-22 mended since\n",
      " --junit out.xml");
  EXPECT_EQ(ran.exit, 1) << ran.out;
  EXPECT_TRUE(has(ran.out,
                  "outdated    known.txt:3: faulty/no_scale "
                  "weights_sum_to_one does not fail any more"))
      << ran.out;
  EXPECT_TRUE(has(read_text(scratch() / "out.xml"),
                  "<failure message=\"known.txt:3: "));
}

TEST(KnownRun, OneThatFailsOtherwiseFailsTheRun) {
  const Ran ran = run_with(std::string("faulty/no_scale ") + kScale +
                           " crash 2026-11-22 dies\n");
  EXPECT_EQ(ran.exit, 1) << ran.out;
  EXPECT_TRUE(has(ran.out, "FAIL  scale_is_one_over_sqrt_d"));
  EXPECT_TRUE(has(ran.out, "is known to fail"));
  EXPECT_TRUE(has(ran.out, "fails by law"));
}

TEST(KnownRun, AFailureIsHeldAgainstItsCause) {
  const std::string line = std::string("faulty/no_scale ") + kScale;
  // Even if diagnoses are switched off.
  const Ran same = exits(
      0, run_with(line + " no_scale 2026-11-22 a textbook\n", " --diagnose 0"));
  const Ran other =
      exits(1, run_with(line + " scale_twice 2026-11-22 a textbook\n"));
  EXPECT_TRUE(has(other.out, "by scale_twice, and fails by no_scale"));
}

TEST(KnownRun, WithoutItsLineAFailureIsOneAndTheLineIsShown) {
  const Ran ran =
      exits(1, run_with("scalar/plain weights_sum_to_one law 2026-11-22 x\n"));
  EXPECT_TRUE(has(ran.out, std::string("to accept   faulty/no_scale ") +
                               kScale + " no_scale DAY WHY"));
  EXPECT_TRUE(has(ran.out, "1 of 1 lines of known.txt"));
}

TEST(KnownRun, ABadFileIsWrongUseBeforeAnythingRuns) {
  expect_wrong_use(run_with("nonsense\n"), "known.txt:1: a line is KERNEL LAW");
  std::filesystem::remove(scratch() / "known.txt");
  expect_wrong_use(run_qkvet(kCheck), "known.txt: cannot be read");
  std::filesystem::create_directories(scratch() / "known.txt");
  expect_wrong_use(run_qkvet(kCheck), "known.txt: is a directory");
  std::filesystem::remove(scratch() / "known.txt");
}

}  // namespace
}  // namespace qkvet::cli::known_test
