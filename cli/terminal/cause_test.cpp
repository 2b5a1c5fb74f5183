// SPDX-License-Identifier: Apache-2.0
// Causes as users meet them, in reports of the program.
#include <gtest/gtest.h>

#include "cli/base/program_run.h"

namespace qkvet::cli::cause_test {
namespace {

constexpr const char* kCheck =
    "check --kernel faulty/mask_after_softmax --cases 3000 ";

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1))
    ++n;
  return n;
}

TEST(Causes, OneCauseIsOneReport) {
  const Ran ran =
      exits(1, run_qkvet(std::string(kCheck) + "--verbose --json out.jsonl"));
  EXPECT_EQ(count(ran.out, "FAIL  "), 1) << ran.out;
  EXPECT_TRUE(has(ran.out,
                  "\n  cause       Hidden keys keep their share of the "
                  "denominator.\n              mask_after_softmax, sure: "))
      << ran.out;
  EXPECT_TRUE(has(ran.out, "\n  fails       where a row has a masked key"));
  EXPECT_TRUE(has(ran.out, "\n  stage       the softmax"));
  EXPECT_TRUE(has(ran.out,
                  "\n  instead     o is divided by the sum over all keys, "
                  "hidden ones with them: all of"))
      << ran.out;
  EXPECT_TRUE(has(ran.out, "\n  fix         Mask the scores with -inf"));
  EXPECT_TRUE(has(ran.out, "\n  also        "));
  const std::string json = read_text(scratch() / "out.jsonl");
  EXPECT_GE(count(json, "\"cause\":\"mask_after_softmax\""), 5) << json;
  EXPECT_TRUE(has(json, "\"certainty\":\"sure\""));
  EXPECT_TRUE(has(json, "\"stage\":{\"name\":\"softmax\""));
}

// A symbol in lower case stays so at the beginning of a sentence.
TEST(Causes, FormulasAreNotCapitalised) {
  const Ran ran = run_qkvet(
      "replay f32,B1,H1,Tq1,Tk2,d1,backward "
      "--law backward_agrees_with_oracle "
      "--kernel faulty/backward_delta_missing");
  EXPECT_EQ(ran.exit, 1) << ran.error;
  EXPECT_TRUE(has(ran.out, "  cause       ds = p dp, without"));
  EXPECT_TRUE(has(ran.out, "  fix         Subtract "));
}

TEST(Causes, NobodyLooksWhereNoneIsAskedFor) {
  const Ran ran = exits(1, run_qkvet(std::string(kCheck) + "--diagnose 0"));
  EXPECT_FALSE(has(ran.out, "  cause "));
  EXPECT_TRUE(has(ran.out, "causes      not looked for in 1 failing kernel"));
  EXPECT_EQ(count(ran.out, "FAIL  "), 1) << ran.out;
}

TEST(Causes, TheFirstFailureCanEndTheRun) {
  const Ran ran = run_qkvet(
      "check --kernel faulty/mask_after_softmax --fail-fast --jobs 1 -v");
  EXPECT_EQ(ran.exit, 1) << ran.error;
  EXPECT_TRUE(has(ran.out, "mask_after_softmax, sure: "));
  EXPECT_TRUE(has(ran.out, "no more after the first failure"));
  // A passing kernel is judged to the end.
  const Ran right = run_qkvet(
      "check --kernel scalar/plain --sizes small --cases 1500 --fail-fast");
  EXPECT_EQ(right.exit, 0) << right.out;
  EXPECT_TRUE(has(right.out, "1500 cases per kernel\n"));
}

TEST(Causes, OfOneCaseThatIsReplayed) {
  const std::string line =
      "replay f32,B1,H1,Tq1,Tk2,d1,causal=tl,q=zero,k=zero,v=one --law "
      "weights_sum_to_one --kernel faulty/mask_after_softmax";
  const Ran ran = exits(1, run_qkvet(line));
  const Ran all = exits(1, run_qkvet(line + " -v"));
  EXPECT_TRUE(has(ran.out, "mask_after_softmax, sure\n"));
  EXPECT_LE(count(ran.out, "\n"), 19) << ran.out;
  EXPECT_TRUE(has(all.out, "mask_after_softmax, sure: "));
  EXPECT_TRUE(has(all.out, "  instead "));
}

// Every law is judged, and those that do not apply are one line.
TEST(Causes, ACaseAloneIsReplayedUnderTheLawsThatAreAboutIt) {
  const Ran ran = exits(
      0,
      run_qkvet("replay f32,B1,H1,Tq1,Tk2,d1,backward --kernel scalar/plain"));
  EXPECT_TRUE(has(ran.out, "passed  backward_agrees_with_oracle "));
  EXPECT_TRUE(has(ran.out, " laws say nothing about this case\n"));
  EXPECT_EQ(count(ran.out, "\n"), 1 + count(ran.out, "passed  backward_") +
                                      count(ran.out, "passed  permuted_"))
      << ran.out;
}

// The scale of the first call is kept for all others.
TEST(Causes, AnEarlierCallIsOneAndIsReplayed) {
  ASSERT_EQ(run_qkvet("new mine.cpp").exit, 0);
  const auto source = scratch() / "mine.cpp";
  std::string wrong = read_text(source);
  const std::string line = "const float scale = 1 /";
  ASSERT_TRUE(has(wrong, line));
  write_text(source, wrong.insert(wrong.find(line), "static "));
  const Ran ran = exits(1, run_qkvet("check mine.cpp --cases 600"));
  EXPECT_TRUE(has(ran.out, "  cause       An earlier call decides: "));
  for (const char* name : {"fails", "stage", "instead", "looks", "hidden"})
    EXPECT_FALSE(has(ran.out, std::string("\n  ") + name + "  "));
  const std::string again = "  again       qkvet ";
  ASSERT_TRUE(has(ran.out, again));
  std::string words = ran.out.substr(ran.out.find(again) + again.size());
  words.resize(words.find('\n'));
  const size_t after = words.find(" --after ");
  ASSERT_NE(after, std::string::npos) << words;
  const Ran replayed = exits(1, run_qkvet(words));
  EXPECT_TRUE(has(replayed.out, "An earlier call decides"));
  EXPECT_TRUE(has(replayed.out, words));
  // Without the call before it passes.
  words.erase(after, words.find(" --law") - after);
  const Ran alone = exits(0, run_qkvet(words));
  const Ran misspelled =
      exits(2, run_qkvet("replay f32,B1,H1,Tq1,Tk1,d1 --after f33"));
  EXPECT_TRUE(has(misspelled.error, "--after f33: "));
}

TEST(Causes, OfAKernelThatNobodyKnows) {
  ASSERT_EQ(run_qkvet("new mine.cpp").exit, 0);
  const auto source = scratch() / "mine.cpp";
  const std::string right = read_text(source);
  const std::string line = "out[c] += p[j] / sum * values[j * d + c];";
  ASSERT_TRUE(has(right, line));
  std::string wrong = right;
  wrong.replace(wrong.find(line), line.size(),
                "out[c] += p[j] * (j % 3 == 2 ? 1.1f : 1.0f) / sum * "
                "values[j * d + c];");
  write_text(source, wrong);
  const Ran ran = exits(1, run_qkvet("check mine.cpp --cases 2000"));
  EXPECT_TRUE(has(ran.out, "cause       unknown: no known fault does what"));
  EXPECT_FALSE(has(ran.out, "  fix "));
}

}  // namespace
}  // namespace qkvet::cli::cause_test
