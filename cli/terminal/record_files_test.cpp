// SPDX-License-Identifier: Apache-2.0
// Records of the built program: bad input, shards, baselines.
#include <gtest/gtest.h>

#include <filesystem>

#include "cli/base/program_run.h"
#include "report/run_record.h"

namespace qkvet::cli::record_files_test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPlain =
    "check --kernel scalar/plain --sizes small --law agrees_with_oracle --law "
    "weights_sum_to_one --law rows_stay_in_hull";
constexpr const char* kWrong =
    "check --kernel faulty/no_scale --sizes small --law agrees_with_oracle "
    "--law weights_sum_to_one --law scale_is_one_over_sqrt_d";

RunRecord record_in(const std::string& file) {
  std::string error;
  const auto record = read_record((scratch() / file).string(), &error);
  EXPECT_TRUE(record) << error;
  return record ? *record : RunRecord();
}

std::string words(const char* check, const std::string& more) {
  return std::string(check) + " " + more;
}

TEST(RecordFiles, BadInputIsOneLineAndLeavesNothing) {
  expect_wrong_use(run_qkvet("report nowhere.jsonl"),
                   "nowhere.jsonl: cannot be read");
  write_text(scratch() / "broken.jsonl", start_text({}) + "{");
  expect_wrong_use(run_qkvet("report broken.jsonl --html broken.html"),
                   "broken.jsonl:2: no JSON");
  EXPECT_FALSE(fs::exists(scratch() / "broken.html"));
  expect_wrong_use(run_qkvet("report broken.jsonl broken.jsonl"),
                   "broken.jsonl:2: no JSON");
  expect_wrong_use(run_qkvet("report broken.jsonl -o all.jsonl"),
                   "broken.jsonl:2: no JSON");
  // Extents with a product of 2^64.
  RunRecord edited;
  edited.laws.emplace_back().law = "law";
  edited.kernels.emplace_back().kernel = "a/b";
  ResultLine& result = edited.results.emplace_back();
  result.kernel = "a/b";
  result.law = "law";
  result.failure.emplace().calls = {
      {"",
       {{"o", "bhic", "f32", std::vector<int64_t>(4, 65536), {}, {}, {}, {}}}}};
  write_text(scratch() / "edited.jsonl", record_lines(edited));
  expect_wrong_use(run_qkvet("report edited.jsonl --html edited.html"),
                   "edited.jsonl:4: failure.calls[0].outputs[0]: shape [65536, "
                   "65536, 65536, 65536] of axes \"bhic\"; allowed: 1 to 4");
  EXPECT_FALSE(fs::exists(scratch() / "edited.html"));
  EXPECT_FALSE(fs::exists(scratch() / "all.jsonl"));
  expect_wrong_use(run_qkvet(words(kPlain, "-n 9 --html nowhere/x.html")),
                   "nowhere/x.html: cannot be written");
  expect_wrong_use(run_qkvet(words(kPlain, "-n 9 --baseline nowhere.jsonl")),
                   "nowhere.jsonl: cannot be read");
  for (const char* shard : {"0/2", "3/2", "1", "1/x", "1/2/3", "-1/2", "/"})
    expect_wrong_use(
        run_qkvet(words(kPlain, std::string("-n 9 --shard ") + shard)),
        "allowed: K/N");
  expect_wrong_use(run_qkvet(words(kPlain, "--seed random --shard 1/2")),
                   "no --seed random");
  expect_wrong_use(run_qkvet(words(kPlain, "--budget 1s --shard 1/2")),
                   "no --budget and no --fail-fast beside it");
}

// Its line without times.
std::string line_of_cases(ResultLine result) {
  result.counts.seconds = 0;
  RunRecord record;
  record.results = {std::move(result)};
  return result_lines(record);
}

// Counts of checked cases, law by law.
std::vector<std::pair<int64_t, int64_t>> counts_in(const RunRecord& record) {
  std::vector<std::pair<int64_t, int64_t>> out;
  for (const ResultLine& result : record.results)
    out.emplace_back(result.counts.checked, result.counts.elements.compared);
  return out;
}

TEST(RecordFiles, ShardsTogetherAreTheRun) {
  // Only the plan: shards lack the cases that a run adds for missing pairs.
  ASSERT_EQ(
      run_qkvet(words(kPlain, "-n 300 --shard 1/1 --json whole.jsonl")).exit,
      0);
  std::string files;
  for (int shard = 1; shard <= 3; ++shard) {
    const std::string file = "part" + std::to_string(shard) + ".jsonl";
    const Ran ran =
        run_qkvet(words(kPlain, "-n 300 --shard " + std::to_string(shard) +
                                    "/3 --json " + file));
    EXPECT_EQ(ran.exit, 0) << ran.out;
    EXPECT_TRUE(has(ran.out, "shard " + std::to_string(shard) + " of 3"));
    if (shard == 2) {
      const Ran some =
          exits(3, run_qkvet("report part1.jsonl part2.jsonl -o some.jsonl"));
      EXPECT_TRUE(has(some.out, "shard 3 of 3 is missing"));
    }
    files += file + " ";
  }
  const Ran ran = exits(0, run_qkvet("report " + files + "-o all.jsonl"));
  const RunRecord whole = record_in("whole.jsonl"),
                  all = record_in("all.jsonl");
  EXPECT_EQ(counts_in(all), counts_in(whole));
  for (size_t i = 0; i < whole.results.size(); ++i)
    EXPECT_EQ(line_of_cases(all.results[i]), line_of_cases(whole.results[i]));
  for (size_t i = 0; i < whole.kernels[0].drawn.size(); ++i)
    EXPECT_EQ(all.kernels[0].drawn[i].calls, whole.kernels[0].drawn[i].calls);
  // The order of the files does not matter.
  ASSERT_EQ(
      run_qkvet("report part3.jsonl part1.jsonl part2.jsonl -o b.jsonl").exit,
      0);
  EXPECT_EQ(read_text(scratch() / "b.jsonl"),
            read_text(scratch() / "all.jsonl"));
  expect_wrong_use(run_qkvet("report part1.jsonl part1.jsonl -o c.jsonl"),
                   "shard 1 is there already");
  expect_wrong_use(run_qkvet("report whole.jsonl -o c.jsonl"), "is no shard");
}

TEST(RecordFiles, ShardsFindWhatTheRunFinds) {
  ASSERT_EQ(run_qkvet(words(kWrong, "-n 240 --json bad_whole.jsonl")).exit, 1);
  for (int shard = 1; shard <= 2; ++shard)
    EXPECT_EQ(
        run_qkvet(words(kWrong, "-n 240 --shard " + std::to_string(shard) +
                                    "/2 --json bad" + std::to_string(shard) +
                                    ".jsonl"))
            .exit,
        1);
  const Ran ran =
      exits(1, run_qkvet("report bad1.jsonl bad2.jsonl -o bad_all.jsonl"));
  EXPECT_TRUE(has(ran.out, "no_scale"));
  const RunRecord whole = record_in("bad_whole.jsonl"),
                  all = record_in("bad_all.jsonl");
  for (size_t i = 0; i < whole.results.size(); ++i)
    EXPECT_EQ(all.results[i].verdict, whole.results[i].verdict);
  // One cause, however many shards have found it.
  EXPECT_EQ(reported_failures(all).size(), reported_failures(whole).size());
}

// The results of the kernel, as lines.
Texts results_in(const std::string& file, const std::string& kernel) {
  const RunRecord record = record_in(file);
  Texts out;
  for (const ResultLine* result : record.results_of(kernel))
    out.push_back(line_of_cases(*result));
  return out;
}

TEST(RecordFiles, AKernelHasTheSameResultsAloneAndBesideOthers) {
  const std::string laws =
      " --law agrees_with_oracle --law rows_stay_in_hull --law "
      "page_size_changes_nothing --law mask_equals_bias -n 200 --json ";
  ASSERT_EQ(run_qkvet("check -k eigen/plain" + laws + "alone.jsonl").exit, 0);
  ASSERT_EQ(
      run_qkvet("check -k eigen/plain -k scalar/plain" + laws + "both.jsonl")
          .exit,
      0);
  const Texts alone = results_in("alone.jsonl", "eigen/plain");
  EXPECT_EQ(alone.size(), 4u);
  EXPECT_EQ(alone, results_in("both.jsonl", "eigen/plain"));
}

TEST(RecordFiles, AKernelThatIsGoneIsWorse) {
  const std::string laws =
      " --law rows_stay_in_hull --law weights_sum_to_one -n 40 ";
  ASSERT_EQ(run_qkvet("check -k scalar/plain -k eigen/plain" + laws +
                      "--json two.jsonl")
                .exit,
            0);
  ASSERT_EQ(run_qkvet("check -k scalar/plain" + laws + "--json one.jsonl").exit,
            0);
  const Ran diff = exits(1, run_qkvet("report two.jsonl one.jsonl"));
  EXPECT_TRUE(
      has(diff.out, "eigen/plain: 2 passed, 0 failed -> not in the run\n"))
      << diff.out;
  EXPECT_EQ(run_qkvet("report one.jsonl two.jsonl").exit, 0);
  // All kernels in a plug-in are to be judged.
  const std::string family = " '" + std::string(QKVET_SCALAR) + "'";
  const Ran gone = run_qkvet("check" + family + laws +
                             "--baseline two.jsonl --json gone.jsonl");
  EXPECT_EQ(gone.exit, 1) << gone.out;
  EXPECT_TRUE(has(gone.out, "eigen/plain: judged -> not in the run\n"));
  EXPECT_TRUE(has(run_qkvet("report gone.jsonl").out,
                  "judged in the baseline, and not in this run: eigen/plain"));
  // What --kernel or --law leaves out is not lost.
  const Ran fewer = run_qkvet(
      "check -k scalar/plain --law rows_stay_in_hull -n 40 --baseline "
      "two.jsonl");
  EXPECT_EQ(fewer.exit, 0) << fewer.out;
  EXPECT_TRUE(has(fewer.out, "not held against 1 kernel that --kernel leaves"));
}

TEST(RecordFiles, ABaselineFailsWhatGotWorse) {
  ASSERT_EQ(run_qkvet(words(kWrong, "-n 120 --json before.jsonl")).exit, 1);
  const Ran same = run_qkvet(words(kWrong,
                                   "-n 120 --baseline before.jsonl --json "
                                   "same.jsonl --junit same.xml"));
  EXPECT_EQ(same.exit, 0) << same.out;
  EXPECT_TRUE(has(same.out, "nothing got worse"));
  EXPECT_TRUE(has(same.out, "PASSED"));
  EXPECT_TRUE(has(read_text(scratch() / "same.xml"),
                  "failures=\"0\" errors=\"0\" skipped=\"2\""));
  // In the baseline everything passed, under this name.
  std::string text = read_text(scratch() / "before.jsonl");
  const std::string word = "\"verdict\":\"FAILED\"";
  for (size_t at = 0; (at = text.find(word, at)) != std::string::npos;)
    text.replace(at, word.size(), "\"verdict\":\"passed\"");
  write_text(scratch() / "good.jsonl", text);
  const Ran worse =
      exits(1, run_qkvet(words(kWrong, "-n 120 --baseline good.jsonl")));
  EXPECT_TRUE(has(worse.out, "worse       faulty/no_scale "));
  EXPECT_TRUE(has(worse.out, "passed -> FAILED"));
  // The other way round it got better.
  const Ran diff = exits(1, run_qkvet("report good.jsonl before.jsonl"));
  EXPECT_TRUE(has(diff.out, "WORSE  2 laws worse"));
  const Ran back = exits(0, run_qkvet("report before.jsonl good.jsonl"));
  EXPECT_TRUE(has(back.out, "NO WORSE  0 laws worse, 2 better"));
}

}  // namespace
}  // namespace qkvet::cli::record_files_test
