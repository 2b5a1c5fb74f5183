// SPDX-License-Identifier: Apache-2.0
// `qkvet fuzz` as its users meet it. Its speed is never tested. Its findings
// are a function of the seed if only --cases ends it.
#include <gtest/gtest.h>

#include "cli/base/program_run.h"

namespace qkvet::cli::fuzz_test {
namespace {

namespace fs = std::filesystem;

// A program without libFuzzer reports that, and its other tests are skipped.
class Fuzz : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!QKVET_HAS_ENGINE) GTEST_SKIP() << "built without libFuzzer";
  }
};

fs::path fresh(const std::string& name) {
  const fs::path folder = scratch() / name;
  fs::remove_all(folder);
  return folder;
}

size_t files_in(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), {}));
}

TEST_F(Fuzz, AFindingIsShrunkExplainedAndReplayable) {
  const Ran ran = exits(
      1,
      run_qkvet("fuzz shapes --kernel faulty/no_scale --cases 300 --seed 3"));
  EXPECT_TRUE(has(ran.out, "FAIL  scale_is_one_over_sqrt_d   faulty/no_scale"));
  EXPECT_TRUE(has(ran.out, "no_scale, sure\n"));
  EXPECT_TRUE(has(ran.out, "FOUND  shapes: 1 finding in "));
  const size_t at = ran.out.find("qkvet replay ");
  ASSERT_NE(at, std::string::npos) << ran.out;
  const std::string line = ran.out.substr(at, ran.out.find('\n', at) - at);
  EXPECT_EQ(run_qkvet(line.substr(6)).exit, 1) << line;
  // The same seed finds the same.
  const Ran again =
      run_qkvet("fuzz shapes --kernel faulty/no_scale --cases 300 --seed 3");
  EXPECT_EQ(again.out.substr(again.out.find("  law ")).substr(0, 400),
            ran.out.substr(ran.out.find("  law ")).substr(0, 400));
}

TEST_F(Fuzz, AGoodKernelIsClean) {
  const Ran ran =
      exits(0, run_qkvet("fuzz stability --kernel scalar/plain --cases 400"));
  EXPECT_TRUE(has(ran.out, "CLEAN  stability: 0 findings in 400 executions"));
  EXPECT_TRUE(has(ran.out, "  closest     error/bound 0."));
}

TEST_F(Fuzz, EveryTargetHuntsWhatItIsAbout) {
  const struct {
    const char *arguments, *law;
  } rows[] = {
      {"stability -k faulty/no_max_subtraction", "agrees_with_oracle"},
      {"stories -k faulty/cache_truncate_keeps_values", "cache_"},
      {"layer -k faulty/output_projection_omitted", "output_projection"},
      {"differential -k scalar/plain -k faulty/no_scale",
       "agrees_with_oracle"}};
  for (const auto& [arguments, law] : rows) {
    const Ran ran = run_qkvet(std::string("fuzz ") + arguments +
                              " --cases 3000 --fail-fast --diagnose 0");
    EXPECT_EQ(ran.exit, 1) << arguments << "\n" << ran.out << ran.error;
    EXPECT_TRUE(has(ran.out, "FAIL  "));
    EXPECT_TRUE(has(ran.out, law));
  }
  for (const char* target :
       {"case_text", "story_text", "condition_text", "worker_reply", "npy",
        "safetensors", "npz", "onnx_tensor"}) {
    const Ran ran = run_qkvet(std::string("fuzz ") + target + " --cases 3000");
    EXPECT_EQ(ran.exit, 0) << target << ran.out << ran.error;
    EXPECT_TRUE(has(ran.out, "CLEAN  "));
  }
}

TEST_F(Fuzz, FindingsBecomeLinesThatAreReplayed) {
  const fs::path file = scratch() / "regressions.txt";
  write_text(file, "# mine\n");
  const std::string hunt =
      "fuzz shapes -k faulty/no_scale --cases 200 --out regressions.txt";
  const Ran ran = run_qkvet(hunt);
  EXPECT_TRUE(has(ran.out, "regressions.txt: 1 line added"));
  const std::string text = read_text(file);
  EXPECT_TRUE(text.starts_with("# mine\nscale_is_one_over_sqrt_d f32,"));
  EXPECT_TRUE(text.ends_with("  # faulty/no_scale no_scale\n")) << text;
  // It is not added twice.
  EXPECT_TRUE(has(run_qkvet(hunt).out, "regressions.txt: 0 lines added"));
  EXPECT_EQ(read_text(file), text);
  EXPECT_EQ(run_qkvet("replay @regressions.txt -k faulty/no_scale").exit, 1);
  const Ran good =
      exits(0, run_qkvet("replay @regressions.txt -k scalar/plain"));
  // Only the law of the line.
  EXPECT_TRUE(has(good.out, "passed  scale_is_one_over_sqrt_d"));
  EXPECT_FALSE(has(good.out, "weights_sum_to_one"));
  // A case of attention does not apply to a cache.
  EXPECT_EQ(run_qkvet("replay @regressions.txt -k kv_cache/ring").exit, 3);
}

TEST_F(Fuzz, ALineOfAListThatIsWrongIsNamed) {
  write_text(scratch() / "list.txt", "\nno_law f32,B1,H1,Tq1,Tk1,d1\n");
  expect_wrong_use(run_qkvet("replay @list.txt"),
                   "list.txt:2: no law is named \"no_law\"");
}

TEST_F(Fuzz, ACorpusGrowsIsMergedAndReplayed) {
  const fs::path grown = fresh("grown"), merged = fresh("merged");
  Ran ran = exits(
      0, run_qkvet("fuzz stories -k kv_cache/ring --cases 600 --corpus grown"));
  EXPECT_TRUE(has(ran.out, "  corpus      grown"));
  ASSERT_GT(files_in(grown), 5u);
  ran =
      run_qkvet("fuzz stories -k kv_cache/ring --corpus merged --merge grown");
  EXPECT_EQ(ran.exit, 0) << ran.error;
  EXPECT_TRUE(has(ran.out, "MERGED  merged: "));
  EXPECT_GT(files_in(merged), 0u);
  EXPECT_LE(files_in(merged), files_in(grown));
  ran = run_qkvet("fuzz stories -k kv_cache/ring --replay merged");
  EXPECT_EQ(ran.exit, 0) << ran.error;
  EXPECT_TRUE(has(ran.out, std::to_string(files_in(merged)) + " executions"));
}

TEST_F(Fuzz, ListsAreInputsLineByLine) {
  write_text(scratch() / "inputs.txt",
             "# two\nagrees_with_oracle f32,B1,H1,Tq1,Tk2,d4\n\nanything\n");
  const Ran ran =
      exits(1, run_qkvet("fuzz shapes -k faulty/no_scale --replay inputs.txt"));
  EXPECT_TRUE(has(ran.out, "in 2 executions"));
  EXPECT_EQ(
      run_qkvet("fuzz shapes -k scalar/plain --seeds inputs.txt --cases 50")
          .exit,
      0);
}

TEST_F(Fuzz, SeveralProcessesHuntTogether) {
  const Ran ran = run_qkvet(
      "fuzz shapes -k faulty/no_scale --budget 90s -j 2 --fail-fast "
      "--diagnose 0");
  EXPECT_EQ(ran.exit, 1) << ran.out << ran.error;
  EXPECT_TRUE(has(ran.out, "FAIL  "));
  EXPECT_TRUE(has(ran.out, "FOUND  shapes: "));
}

TEST_F(Fuzz, AKernelThatDiesIsAFindingInAWorkerAndInTheProcess) {
  for (const char* kernel : {"null_write", "abort", "exit"})
    for (const char* how : {"", " --in-process"}) {
      const Ran ran = run_qkvet("fuzz shapes " + std::string(QKVET_BAD_PLUGIN) +
                                " -k bad/" + kernel + how +
                                " --cases 60 --fail-fast --diagnose 0");
      EXPECT_EQ(ran.exit, 4) << kernel << how << ran.out << ran.error;
      EXPECT_TRUE(has(ran.out, "CRASH "));
      EXPECT_TRUE(has(ran.out, "FOUND  shapes: "));
    }
}

// The code that clang puts into a library with -fsanitize=fuzzer-no-link.
TEST_F(Fuzz, AnInstrumentedKernelHuntsInTheProcessAndIsShrunkInAWorker) {
  ASSERT_EQ(run_qkvet("new instrumented.cpp").exit, 0);
  const fs::path file = scratch() / "instrumented.cpp";
  std::string source = read_text(file);
  const std::string scale = "const float scale = 1 / std::sqrt";
  const size_t at = source.find(scale);
  ASSERT_NE(at, std::string::npos);
  source.replace(at, scale.size(),
                 "__sanitizer_cov_trace_cmp4(1, 2);\n"
                 "  __sancov_lowest_stack = 0;\n"
                 "  const float scale = 2 / std::sqrt");
  write_text(file,
             "extern \"C\" void __sanitizer_cov_trace_cmp4(unsigned, "
             "unsigned);\n"
             "extern \"C\" thread_local unsigned long "
             "__sancov_lowest_stack;\n" +
                 source);
  const Ran ran = run_qkvet(
      "fuzz shapes instrumented.cpp --in-process --cases 200 --fail-fast");
  EXPECT_EQ(ran.exit, 1) << ran.out << ran.error;
  EXPECT_TRUE(has(ran.out, "FAIL  "));
}

TEST_F(Fuzz, WrongUseIsOneLine) {
  const struct {
    const char *arguments, *part;
  } rows[] = {
      {"fuzz nothing",
       "no fuzz target is named \"nothing\"; `qkvet explain fuzz`"},
      {"fuzz shapes --budget soon",
       "--budget soon: allowed is a time like 60s"},
      {"fuzz shapes -k kv_cache/ring", "no selected kernel: "},
      {"fuzz shapes -k no/kernel",
       "no kernel is named \"no/kernel\"; `qkvet explain kernels` shows all"},
      {"fuzz shapes -k scalr/plain", "\"scalr/plain\"; perhaps scalar/plain; "},
      {"fuzz shapes -k scalar/plane",
       "\"scalar/plane\"; perhaps scalar/plain, "},
      {"fuzz shapes --law cache_length_grows", "no law of the target shapes"},
      {"fuzz shapes --law nonsense", "nonsense"},
      {"fuzz differential -k scalar/plain", "wants two kernels, and got 1"},
      {"fuzz case_text -k scalar/plain", "case_text: is about no kernel"},
      {"fuzz shapes --replay nowhere", "nowhere: cannot be read"},
      {"fuzz shapes --seeds nowhere --cases 1",
       "--seeds nowhere: cannot be read"},
      {"fuzz shapes --merge .",
       "--merge: --corpus names the folder to merge into"},
      {"fuzz shapes --corpus /dev/null/x --cases 1", "--corpus /dev/null/x"},
      {"fuzz shapes --pin d=x --cases 1", "--pin \"d=x\""},
      {"fuzz shapes --seed x", "--seed x: allowed"},
      {"fuzz shapes --cases 0", "--cases"}};
  for (const auto& [arguments, part] : rows) {
    SCOPED_TRACE(arguments);
    expect_wrong_use(run_qkvet(arguments), part);
  }
}

TEST(FuzzEngine, WithoutOneAHuntSaysSoAndAReplayWorks) {
  if (QKVET_HAS_ENGINE) GTEST_SKIP() << "built with libFuzzer";
  expect_wrong_use(run_qkvet("fuzz shapes -k scalar/plain"),
                   "built without libFuzzer");
  write_text(scratch() / "one.txt",
             "agrees_with_oracle f32,B1,H1,Tq1,Tk2,d4\n");
  EXPECT_EQ(run_qkvet("fuzz shapes -k scalar/plain --replay one.txt").exit, 0);
}

TEST(FuzzList, ShowsEveryTargetAndItsLaws) {
  const Ran ran = exits(0, run_qkvet("explain fuzz"));
  for (const char* target : {"shapes", "stability", "stories", "layer",
                             "differential", "case_text", "safetensors"})
    EXPECT_TRUE(has(ran.out, std::string("  ") + target + " "));
  const Ran json = run_qkvet("explain fuzz --json");
  EXPECT_TRUE(has(json.out, "\"name\":\"stories\""));
  EXPECT_TRUE(has(json.out, "\"cache_length_grows\""));
}

}  // namespace
}  // namespace qkvet::cli::fuzz_test
