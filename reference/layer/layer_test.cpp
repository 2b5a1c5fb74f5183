// SPDX-License-Identifier: Apache-2.0
// Projections and layers: what they are, that definition and twin agree within
// the bound of double, and that each catches the other's faults.
#include "reference/layer/layer.h"

#include <gtest/gtest.h>

#include <string>

#include "reference/agreement/agreement.h"
#include "reference/seeded/seeded_layer.h"
#include "reference/testing/test_layers.h"

namespace qkvet::reference::layer_test {
namespace {

using Values = std::vector<double>;

TEST(LinearTest, IsRowsTimesColumnsPlusBias) {
  const Values x = {1, 2, 3, 4, 5, 6};      // [2,3]
  const Values w = {1, 10, 0, -1, 2, 0.5};  // [3,2]
  const Values bias = {100, 0.25};
  LinearProblem problem{2, 3, 2, x.data(), w.data(), nullptr};
  const Values want = {7, 9.5, 16, 38};
  EXPECT_EQ(plain_linear(problem), want);
  EXPECT_EQ(twin_linear(problem), want);
  problem.bias = bias.data();
  const Values biased = {107, 9.75, 116, 38.25};
  EXPECT_EQ(plain_linear(problem), biased);
  EXPECT_EQ(twin_linear(problem), biased);
}

// One position sees itself only: y = merge(v) W_O + b_O, head by head.
TEST(LayerTest, OfOnePositionMergesTheValuesOfItsGroups) {
  Shape s;
  s.H = 4;
  s.Hkv = 2;
  s.dv = 2;
  s.D = 2;
  const Values x = {3, 5};
  const Values w_q(s.D * s.H * s.d, 1);
  const Values w_k(s.D * s.Hkv * s.d, 1);
  const Values w_v = {1, 0, 1, 2,   // v = (3, 5) of head 0
                      0, 1, 1, 0};  // and (8, 6) of head 1
  const Values w_o = {1,   0, 10,  0, 100, 0, 1000, 0,
                      1e4, 0, 1e5, 0, 1e6, 0, 1e7,  1};
  const Values b_o = {0, 0.5};
  LayerProblem problem;
  problem.shape = s;
  problem.x = x.data();
  problem.w_q = w_q.data();
  problem.w_k = w_k.data();
  problem.w_v = w_v.data();
  problem.w_o = w_o.data();
  problem.b_o = b_o.data();
  for (const LayerOutput& out : {plain_layer(problem), twin_layer(problem)}) {
    EXPECT_EQ(out.q, (Values{8, 8, 8, 8}));
    EXPECT_EQ(out.v, (Values{3, 5, 8, 6}));
    EXPECT_EQ(out.attended.o, (Values{3, 5, 3, 5, 8, 6, 8, 6}));
    EXPECT_EQ(out.y, (Values{68685353, 6.5}));
  }
}

TEST(LayerTest, SplitPutsHeadsBeforePositionsAndMergePutsThemBack) {
  Shape s;
  s.B = 2;
  s.H = 2;
  s.Tq = s.Tk = 3;
  s.d = s.dv = 2;
  Values rows(s.o_elements());
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<double>(i);
  const Values heads = split_heads(s, Projection::kQ, rows);
  EXPECT_EQ(Values(heads.begin(), heads.begin() + 12),
            (Values{0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11}));
  EXPECT_EQ(merge_heads(s, heads), rows);
}

TEST(LayerTest, StagesAreWhatTheWholeIsMadeOf) {
  TestRandom random(11);
  TestLayerProblem p = random_layer(random, LayerRegime::kNormal,
                                    random_layer_shape(random, 6), Dtype::kF32);
  const LayerOutput out = plain_layer(p.get());
  const Shape& s = p.problem.shape;
  const LinearProblem q = projection_stage(p.get(), Projection::kQ, p.x.data());
  EXPECT_EQ(split_heads(s, Projection::kQ, plain_linear(q)), out.q);
  const Problem attention =
      attention_stage(p.get(), out.q.data(), out.k.data(), out.v.data());
  EXPECT_EQ(plain_forward(attention).o, out.attended.o);
  const Values merged = merge_heads(s, out.attended.o);
  EXPECT_EQ(
      plain_linear(projection_stage(p.get(), Projection::kO, merged.data())),
      out.y);
}

TEST(LinearTwinTest, AgreesWithTheDefinitionWithinTheBoundOfDouble) {
  constexpr int kProblems = 4000;
  TestRandom random(12);
  double worst = 0;
  for (int i = 0; i < kProblems; ++i) {
    const auto regime = static_cast<LinearRegime>(i % kLinearRegimeCount);
    TestLinearProblem p = random_linear(random, regime, 24, Dtype::kF32);
    const double ratio =
        linear_ratio(p.get(), plain_linear(p.get()), twin_linear(p.get()));
    ASSERT_TRUE(ratio <= 1) << "problem " << i << ", ratio " << ratio;
    worst = std::max(worst, ratio);
  }
  EXPECT_GT(worst, 0.1);
  std::printf("projections: largest distance / bound of double %.3f\n", worst);
}

TEST(LayerTwinTest, AgreesWithTheDefinitionWithinTheBoundOfDouble) {
  constexpr int kProblems = 1200;
  TestRandom random(13);
  double worst = 0;
  for (int i = 0; i < kProblems; ++i) {
    const auto regime = static_cast<LayerRegime>(i % kLayerRegimeCount);
    const Shape shape = random_layer_shape(random, 8);
    TestLayerProblem p = random_layer(random, regime, shape, Dtype::kF32);
    const double ratio =
        layer_ratio(p.get(), plain_layer(p.get()), twin_layer(p.get()));
    ASSERT_TRUE(ratio <= 1) << "problem " << i << ", ratio " << ratio;
    worst = std::max(worst, ratio);
  }
  EXPECT_GT(worst, 0.1);
  std::printf("layers: largest distance / bound of double %.3f\n", worst);
}

class SeededLayerTest : public testing::TestWithParam<int> {};

TEST_P(SeededLayerTest, IsCaughtByTheOtherReference) {
  constexpr int kProblems = 120;
  const auto fault = static_cast<SeededLayerFault>(GetParam());
  TestRandom random(14);
  int in_layers = 0;
  int in_projections = 0;
  for (int i = 0; i < kProblems; ++i) {
    TestLayerProblem p =
        random_layer(random, static_cast<LayerRegime>(i % kLayerRegimeCount),
                     random_layer_shape(random, 6), Dtype::kF32);
    const LayerOutput faulty = seeded_layer(fault, p.get());
    const double ratio =
        seeded_in_plain(fault)
            ? layer_ratio(p.get(), faulty, twin_layer(p.get()))
            : layer_ratio(p.get(), plain_layer(p.get()), faulty);
    in_layers += !(ratio <= 1);
    TestLinearProblem l =
        random_linear(random, static_cast<LinearRegime>(i % kLinearRegimeCount),
                      8, Dtype::kF32);
    const Values wrong = seeded_linear(fault, l.get());
    const double distance =
        seeded_in_plain(fault)
            ? linear_ratio(l.get(), wrong, twin_linear(l.get()))
            : linear_ratio(l.get(), plain_linear(l.get()), wrong);
    in_projections += !(distance <= 1);
  }
  EXPECT_GT(in_layers, kProblems / 8);
  EXPECT_EQ(in_projections > 0, seeded_in_projection(fault));
  std::printf("%s: caught in %d layers and %d projections of %d\n",
              std::string(seeded_layer_name(fault)).c_str(), in_layers,
              in_projections, kProblems);
}

INSTANTIATE_TEST_SUITE_P(AllFaults, SeededLayerTest,
                         testing::Range(0, kSeededLayerFaultCount),
                         [](const testing::TestParamInfo<int>& fault) {
                           return std::string(seeded_layer_name(
                               static_cast<SeededLayerFault>(fault.param)));
                         });

}  // namespace
}  // namespace qkvet::reference::layer_test
