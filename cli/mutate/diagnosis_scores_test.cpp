// SPDX-License-Identifier: Apache-2.0
// Scored diagnoses of mutants: a few of a small kernel, a continued run, and
// refused words.
#include "cli/mutate/diagnosis_scores.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "cli/base/program_run.h"
#include "report/json_fields.h"

namespace qkvet::cli::diagnosis_scores_test {
namespace {

namespace fs = std::filesystem;

// One head at a time, in the plainest loops.
constexpr const char* kKernel = R"(#include <cmath>
#include <vector>

#include "qkvet/plain.h"

static void attend(const float* q, const float* k, const float* v, float* o,
                   int64_t B, int64_t H, int64_t Tq, int64_t Tk, int64_t d,
                   int causal) {
  std::vector<float> s(Tk);
  for (int64_t n = 0; n < B * H; ++n, k += Tk * d, v += Tk * d)
    for (int64_t i = 0; i < Tq; ++i, q += d, o += d) {
      float max = -INFINITY, sum = 0;
      for (int64_t j = 0; j < Tk; ++j) {
        s[j] = 0;
        for (int64_t c = 0; c < d; ++c) s[j] += q[c] * k[j * d + c];
        s[j] /= std::sqrt(float(d));
        if (causal && j > i + Tk - Tq) s[j] = -INFINITY;
        if (s[j] > max) max = s[j];
      }
      for (float& w : s) sum += w = std::exp(w - max);
      for (int64_t c = 0; c < d; ++c) {
        o[c] = 0;
        for (int64_t j = 0; j < Tk; ++j) o[c] += s[j] / sum * v[j * d + c];
      }
    }
}

QKVET_PLAIN_KERNEL(attend, "mine/attend");
)";

ScoreWords words_in(const fs::path& folder) {
  fs::create_directories(folder);
  write_text(folder / "mine.cpp", kKernel);
  use_program(QKVET_PROGRAM);
  ScoreWords words;
  words.kernels = {{"mine/attend", (folder / "mine.cpp").string(), ""}};
  words.count = 2;
  words.cases = 512;
  words.out = (folder / "out").string();
  words.stages = {{"mine/attend", "causal &&", Stage::kKeys},
                  {"mine/attend", "sqrt", Stage::kScores}};
  return words;
}

std::string texts_of(const std::vector<DiagnosedMutant>& mutants) {
  std::string all;
  for (const DiagnosedMutant& one : mutants)
    all += json_text(report::with_fields(Json(), one)) + "\n";
  return all;
}

TEST(DiagnosisScores, MutantsAreDiagnosedAndWhatIsSaidIsHeldAgainstCases) {
  ScoreWords words = words_in(scratch() / "scores");
  std::string error;
  const std::vector<DiagnosedMutant> mutants = score_diagnoses(words, &error);
  ASSERT_EQ(error, "");
  EXPECT_EQ(std::count_if(mutants.begin(), mutants.end(),
                          [](const auto& one) { return one.is_scored(); }),
            2);
  for (const DiagnosedMutant& one : mutants) {
    EXPECT_NE(one.before, one.after) << one.id;
    if (!one.is_claimed) continue;
    EXPECT_GT(one.all, 20) << one.id;
    EXPECT_TRUE(one.is_true()) << one.id << ": " << one.sentence << " "
                               << one.right << " of " << one.all;
  }
  const std::string table = scores_text(mutants);
  EXPECT_TRUE(has(table, "\n| all | 2 | "));

  // Finished results stay as they were.
  const std::vector<DiagnosedMutant> again = score_diagnoses(words, &error);
  EXPECT_EQ(texts_of(again), texts_of(mutants));
  words.seed = 2;
  EXPECT_TRUE(score_diagnoses(words, &error).empty());
  EXPECT_TRUE(has(error, "is of another run"));
}

// The mask is left out: the sentence is expected, and must be true.
TEST(DiagnosisScores, AMutantWithoutItsMaskFailsWhereARowHasAMaskedKey) {
  ScoreWords words = words_in(scratch() / "mask");
  words.only = "17:40:remove";
  std::string error;
  const std::vector<DiagnosedMutant> mutants = score_diagnoses(words, &error);
  ASSERT_EQ(error, "");
  ASSERT_EQ(mutants.size(), 1U);
  EXPECT_TRUE(mutants[0].is_claimed) << mutants[0].sentence;
  EXPECT_TRUE(mutants[0].is_true()) << mutants[0].sentence;
  EXPECT_TRUE(mutants[0].sentence.starts_with("where a row has a masked key"))
      << mutants[0].sentence;
  EXPECT_TRUE(mutants[0].is_description_true()) << mutants[0].instead;
  EXPECT_TRUE(mutants[0].instead.starts_with(
      "o is the result without the causal rule: all of "))
      << mutants[0].instead;
  EXPECT_EQ(mutants[0].stage, "keys");
  EXPECT_EQ(mutants[0].known_stage, "keys");
}

// The scale is left out. The control: with a wrong known stage for the line,
// the named stage counts as wrong.
TEST(DiagnosisScores, TheStageIsHeldAgainstTheLineThatWasChanged) {
  ScoreWords words = words_in(scratch() / "scale");
  words.only = "16:9:remove";
  std::string error;
  const std::vector<DiagnosedMutant> mutants = score_diagnoses(words, &error);
  ASSERT_EQ(error, "");
  ASSERT_EQ(mutants.size(), 1U);
  EXPECT_TRUE(mutants[0].instead.starts_with("o is the result of no scale: "))
      << mutants[0].instead;
  EXPECT_TRUE(has(scores_text(mutants), "\n| all | 1 | 0 | 0 | 1 | 0 | 0 |\n"));

  words.stages = {{"mine/attend", "sqrt", Stage::kSoftmax}};
  words.out += "/other";
  const std::vector<DiagnosedMutant> others = score_diagnoses(words, &error);
  ASSERT_EQ(others.size(), 1U);
  EXPECT_TRUE(has(scores_text(others), "\n| all | 1 | 0 | 0 | 0 | 1 | 0 |\n"));

  words.stages = {{"mine/attend", "no such line", Stage::kSoftmax}};
  EXPECT_TRUE(score_diagnoses(words, &error).empty());
  EXPECT_TRUE(has(error, "no line has \"no such line\""));
}

}  // namespace
}  // namespace qkvet::cli::diagnosis_scores_test
