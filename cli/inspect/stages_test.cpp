// SPDX-License-Identifier: Apache-2.0
// The movie of a call, and the walk of a GPT, with their invariants.
#include "cli/inspect/stages.h"

#include <gtest/gtest.h>

#include <cmath>

#include "cli/demos/gpt.h"
#include "properties/calls/layer_calls.h"
#include "properties/judging/answer.h"

namespace qkvet::cli::stages_test {
namespace {

Movie movie_of(const std::string& text, const Focus& focus = {},
               int reading = 0) {
  const ParsedCase parsed = parse_case(text);
  EXPECT_TRUE(parsed.value) << text << ": " << parsed.error;
  const Case& value = *parsed.value;
  const Inputs inputs = make_inputs(value);
  if (value.subject() == Subject::kLayer)
    return layer_movie(layer_problem(value, inputs), value.unbatched, focus);
  const OwnedProblem owned(value, inputs, reading);
  return attention_movie(owned.problem(), focus);
}

const StageSummary& last_of(const Movie& movie, const std::string& name) {
  for (size_t n = movie.stages.size(); n-- > 0;)
    if (movie.stages[n].name == name) return movie.stages[n];
  ADD_FAILURE() << "no stage " << name;
  return movie.stages[0];
}

std::string names_and_shapes(const Movie& movie) {
  std::string out;
  for (const StageSummary& stage : movie.stages)
    out += stage.name + shape_text(stage.shape) + " ";
  return out;
}

TEST(Stages, ALayerHasEveryShapeFromXToY) {
  EXPECT_EQ(names_and_shapes(movie_of("f32,B2,H4,Hkv2,T5,D12,causal")),
            "x[2,5,12] q[2,5,12] k[2,5,6] v[2,5,6] q[2,4,5,3] k[2,2,5,3] "
            "v[2,2,5,3] scores[2,4,5,5] scaled[2,4,5,5] masked[2,4,5,5] "
            "weights[2,4,5,5] attended[2,4,5,3] merged[2,5,12] y[2,5,12] ");
  EXPECT_EQ(
      names_and_shapes(movie_of("f32,B1,H1,T3,D2,unbatched")),
      "x[3,2] q[3,2] k[3,2] v[3,2] q[1,1,3,2] k[1,1,3,2] v[1,1,3,2] "
      "scores[1,1,3,3] scaled[1,1,3,3] weights[1,1,3,3] attended[1,1,3,2] "
      "merged[3,2] y[3,2] ");
}

// The scores as they enter the softmax are computed here, the weights by the
// oracle: rows of four keys are shown whole, and must fit.
TEST(Stages, TheSoftmaxOfTheLastScoresAreTheWeights) {
  const char* cases[] = {
      "f32,B2,H2,Tq3,Tk4,d5",
      "f32,B2,H4,Hkv2,Tq3,Tk4,d5,causal=br",
      "f32,B1,H2,Tq4,Tk4,d3,causal=tl,scale=-0.25",
      "f32,B1,H2,Tq4,Tk4,d3,window=2.0",
      "f32,B2,H2,Tq3,Tk4,d5,mask=random60",
      "f32,B2,H2,Tq3,Tk4,d5,bias=normal",
      "f32,B2,H2,Tq3,Tk4,d5,bias=normal.h,softcap=2",
      "f32,B2,H2,Tq3,Tk4,d5,alibi=normal",
      "f32,B2,H2,Tq3,Tk4,d5,causal=tl,alibi=one",
      "f32,B2,H2,Tq3,Tk4,d5,qlen=3.3,kvlen=4.3,alibi=one,causal=br",
      "f32,B1,H2,Tq4,Tk4,d5,cuq=0.2.4,cuk=0.1.4,alibi=one,causal=br",
      "f32,B2,H2,Tq3,Tk4,d4,rope=half.7,causal=br",
      "f32,B1,H2,T4,D12,causal",
      "f32,B2,H2,T4,D8,causal,biases=qkvo,rope=half"};
  for (const char* text : cases)
    // Softcap before the bias, and after it.
    for (const auto& [focus, reading] :
         {std::pair{Focus{0, 0}, 0}, {Focus{0, 1}, 0}, {Focus{0, 1}, 1}}) {
      const Movie movie = movie_of(text, focus, reading);
      const std::vector<double>& weights = last_of(movie, "weights").values;
      bool masks = false;
      for (const StageSummary& stage : movie.stages)
        masks |= stage.name == "masked";
      const StageSummary& before =
          movie.stages[movie.stages.size() - (movie.y.empty() ? 4 : 5)];
      EXPECT_EQ(before.name == "masked", masks) << text;
      const std::vector<double>& scores = before.values;
      ASSERT_EQ(scores.size(), 4u) << text;
      double sum = 0;
      for (const double score : scores) sum += std::exp(score);
      for (size_t j = 0; j < 4; ++j)
        EXPECT_NEAR(weights[j], std::exp(scores[j]) / sum, 1e-13)
            << text << " j=" << j;
    }
}

// Scores of 0 and slopes of 1, so that the result is the distance to the
// diagonal of the last row. (The softmax would not change if all were off by
// one.)
TEST(Stages, AlibiCountsFromTheDiagonal) {
  const std::pair<const char*, std::vector<double>> rows[] = {
      {"Tq2,Tk4,d1,alibi=one", {-3, -2, -1, 0}},
      {"Tq2,Tk4,d1,causal=br,alibi=one", {-3, -2, -1, 0}},
      {"Tq2,Tk4,d1,causal=tl,alibi=one", {-1, 0, -1, -2}},
      {"Tq2,Tk4,d1,alibi=one,kvlen=3", {-2, -1, 0, -1}},
      {"Tq2,Tk4,d1,alibi=one,cuq=0.1.2,cuk=0.1.4", {-3, -2, -1, 0}}};
  for (const auto& [text, expected] : rows) {
    const Movie movie =
        movie_of(std::string("f32,B1,H1,") + text + ",q=zero,k=one");
    // The NaN of a key beyond the lengths is no distance.
    std::vector<double> values = last_of(movie, "biased").values;
    ASSERT_EQ(values.size(), 4u);
    for (size_t j = 0; j < 4; ++j)
      EXPECT_TRUE(values[j] == expected[j] || std::isnan(values[j]))
          << text << " " << values[j];
    EXPECT_EQ(last_of(movie, "biased").how, "- slope |i - j| (ALiBi)");
  }
}

TEST(Stages, ASinkTakesItsShare) {
  const Movie movie = movie_of("f32,B1,H1,Tq2,Tk4,d3,sink=one");
  double sum = 0;
  for (const double weight : last_of(movie, "weights").values) sum += weight;
  EXPECT_LT(sum, 0.95);
}

TEST(Stages, TheRowOfTheFocusIsShown) {
  const std::string text = "f32,B2,H2,Tq3,Tk4,d5";
  const Movie first = movie_of(text, {0, 0}), other = movie_of(text, {1, 1});
  for (const char* name : {"q", "k", "v", "weights", "lse", "o"})
    EXPECT_NE(last_of(first, name).values, last_of(other, name).values) << name;
  const Inputs inputs = make_inputs(*parse_case(text).value);
  // q[b=1,h=1,i=2]
  EXPECT_EQ(last_of(other, "q").values,
            std::vector<double>(inputs.q.end() - 5, inputs.q.end() - 1));
}

TEST(Stages, NanAndHiddenOnesAreCountedApart) {
  const StageSummary summary =
      summary_of("s", "", {1, 4}, {std::nan(""), -INFINITY, 2, -3}, 0);
  EXPECT_EQ(summary.nan, 1);
  EXPECT_EQ(summary.hidden, 1);
  EXPECT_EQ(summary.least, -3);
  EXPECT_EQ(summary.most, 2);
  EXPECT_EQ(last_of(movie_of("f32,B1,H1,Tq3,Tk4,d1,kvlen=2"), "k").nan, 2);
}

Gpt small_gpt() {
  Gpt gpt{.layers = 2, .heads = 2, .width = 8, .context = 5, .vocab = 7};
  gpt.B = 2;
  gpt.T = 3;
  gpt.tokens = {0, 6, 3, 3, 3, 1};
  return gpt;
}

// Only the stages of attention are stated twice.
TEST(Gpt, ShapesAloneAreThoseOfTheRun) {
  for (const int64_t T : {1, 3}) {
    Gpt gpt = small_gpt();
    gpt.T = T;
    gpt.tokens.resize(static_cast<size_t>(2 * T));
    const GptRun run = run_gpt(gpt, nullptr);
    std::vector<GptStage> walked;
    for (const GptStage& stage : run.stages)
      if (stage.block <= 0) walked.push_back(stage);
    const std::vector<GptStage> shapes = gpt_shapes(gpt);
    ASSERT_EQ(shapes.size(), walked.size());
    for (size_t n = 0; n < shapes.size(); ++n) {
      EXPECT_EQ(shapes[n].summary.name, walked[n].summary.name);
      EXPECT_EQ(shapes[n].summary.how, walked[n].summary.how);
      EXPECT_EQ(shapes[n].summary.shape, walked[n].summary.shape);
      EXPECT_EQ(shapes[n].summary.elements, walked[n].summary.elements);
      EXPECT_EQ(shapes[n].bytes, walked[n].bytes);
      EXPECT_EQ(shapes[n].block, walked[n].block);
    }
  }
}

// A later token changes no logit of an earlier one, and an earlier one does.
TEST(Gpt, LogitsDependOnThePastAlone) {
  Gpt gpt = small_gpt();
  const std::vector<double> before = run_gpt(gpt, nullptr).logits;
  ASSERT_EQ(before.size(), 2u * 3 * 7);
  gpt.tokens[2] = 4;  // the last of the first sequence
  const std::vector<double> after = run_gpt(gpt, nullptr).logits;
  for (size_t n = 0; n < before.size(); ++n)
    EXPECT_EQ(before[n] == after[n], n / 7 != 2) << n;
  gpt = small_gpt();
  gpt.tokens[3] = 0;  // the first of the second
  const std::vector<double> other = run_gpt(gpt, nullptr).logits;
  for (size_t n = 0; n < before.size(); ++n)
    EXPECT_EQ(before[n] == other[n], n / 7 < 3) << n;
}

// Token 3 is at places 0 and 1 of the second sequence, and its past contains
// only itself: the position is the only difference.
TEST(Gpt, PositionsMatter) {
  const std::vector<double> logits = run_gpt(small_gpt(), nullptr).logits;
  const auto of_token = [&](size_t n) {
    return std::vector<double>(
        logits.begin() + static_cast<ptrdiff_t>(7 * n),
        logits.begin() + static_cast<ptrdiff_t>(7 * n + 7));
  };
  EXPECT_NE(of_token(3), of_token(4));
}

TEST(Gpt, TheSeedDrawsOtherWeights) {
  Gpt gpt = small_gpt();
  const std::vector<double> first = run_gpt(gpt, nullptr).logits;
  EXPECT_EQ(first, run_gpt(gpt, nullptr).logits);
  gpt.seed = 2;
  EXPECT_NE(first, run_gpt(gpt, nullptr).logits);
}

// What GPT-2 small is known to have.
TEST(Gpt, ParametersOfGpt2) {
  const Gpt gpt{
      .layers = 12, .heads = 12, .width = 768, .context = 1024, .vocab = 50257};
  EXPECT_EQ(parameters_of(gpt), 124439808);
  EXPECT_NE(too_much_for(gpt), "");
  EXPECT_EQ(too_much_for(small_gpt()), "");
}

TEST(Gpt, OperationsAndBytesByHand) {
  Gpt gpt = small_gpt();
  // Per block: q, k, v and W_O 4 x 2 x 6 x 64, scores and values 2 x 2 x 2 x 9
  // x 8, feed-forward 2 x 2 x 6 x 8 x 32; logits 2 x 6 x 8 x 7.
  EXPECT_EQ(flops_of(gpt), 2 * (3072 + 576 + 6144) + 672);
  EXPECT_EQ(cache_bytes_of(gpt, 3), 2 * 2 * 2 * 4 * 3 * 2 * 4);
}

}  // namespace
}  // namespace qkvet::cli::stages_test
