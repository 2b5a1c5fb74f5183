// SPDX-License-Identifier: Apache-2.0
// The end-to-end bound of a layer: correct kernels of f32 and half storage stay
// within it, whatever type their stages have; one wrong index does not.
#include <gtest/gtest.h>

#include "core/base/at_night.h"
#include "reference/agreement/agreement.h"
#include "reference/testing/test_layer_kernels.h"
#include "reference/testing/test_layers.h"
#include "reference/testing/test_ratios.h"

namespace qkvet::reference::layer_bound_test {
namespace {

// Every attention kernel of the storage type, with projections in turn.
std::vector<TestLayerKernel> test_layer_kernels(Dtype storage) {
  const bool half = storage != Dtype::kF32;
  const std::vector<TestLinearKernel> linear = test_linear_kernels();
  std::vector<TestLayerKernel> all;
  for (const TestControl& attention : half ? half_controls() : f32_controls()) {
    if (attention.storage != storage) continue;
    TestLayerKernel kernel;
    kernel.attention = attention;
    // Only the last of the projections flushes to zero.
    kernel.linear = declared_precision(attention).ftz
                        ? linear.back()
                        : linear[all.size() % (linear.size() - 1)];
    kernel.linear.storage = storage;
    all.push_back(kernel);
    if (!half) continue;
    kernel.stage = storage;
    all.push_back(kernel);
  }
  return all;
}

struct Counts {
  double worst = 0;  // distance / bound
  int outside = 0;   // problems with an element that is not accepted
  int64_t judged = 0;
  int64_t vacuous = 0;
};

void judge(const TestLayerKernel& kernel, TestLayerProblem& p, Dtype storage,
           Counts& counts) {
  const LayerOutput oracle = plain_layer(p.get());
  const LayerBound bound = layer_bound(
      p.get(), oracle, declared_precision(kernel.attention), storage);
  const std::vector<double> got = run_test_layer(kernel, p.get());
  counts.worst = std::max(counts.worst, worst_ratio(got, oracle.y, bound.y));
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isinf(bound.y[i])) continue;
    ++counts.judged;
    counts.vacuous += bound.y[i] >= bound.reach[i] / 2;
  }
  counts.outside += !accepted(oracle.y, bound.y, got, storage);
}

class LayerBoundTest : public testing::TestWithParam<Dtype> {};

TEST_P(LayerBoundTest, HoldsForCorrectKernels) {
  const int problems = taken(400, 2);
  const Dtype storage = GetParam();
  Counts all;
  uint64_t seed = 900;
  for (const TestLayerKernel& kernel : test_layer_kernels(storage)) {
    TestRandom random(seed++);
    Counts counts;
    for (int i = 0; i < problems; ++i) {
      const auto regime = static_cast<LayerRegime>(i % kLayerRegimeCount);
      const Shape shape = random_layer_shape(random, i % 4 == 0 ? 24 : 6);
      TestLayerProblem p = random_layer(random, regime, shape, storage);
      judge(kernel, p, storage, counts);
      ASSERT_EQ(counts.outside, 0) << kernel.attention.name() << " with "
                                   << kernel.linear.name << ", problem " << i;
    }
    EXPECT_LE(counts.worst, 1) << kernel.attention.name();
    all.worst = std::max(all.worst, counts.worst);
    all.judged += counts.judged;
    all.vacuous += counts.vacuous;
  }
  EXPECT_GT(all.worst, 0.3);
  EXPECT_GT(all.judged, 250 * problems);
  std::printf(
      "%s layers: largest distance / bound %.3f, vacuous %.2f %%\n",
      dtype_name(storage).data(), all.worst,
      100 * static_cast<double>(all.vacuous) / static_cast<double>(all.judged));
}

TEST_P(LayerBoundTest, OneWrongIndexExceedsIt) {
  constexpr int kProblems = 600;
  const Dtype storage = GetParam();
  TestLayerKernel kernel = test_layer_kernels(storage).front();
  kernel.wrong_index = true;
  TestRandom random(31);
  Counts counts;
  for (int i = 0; i < kProblems; ++i) {
    const auto regime = static_cast<LayerRegime>(i % kLayerRegimeCount);
    const Shape shape = random_layer_shape(random, 8);
    TestLayerProblem p = random_layer(random, regime, shape, storage);
    judge(kernel, p, storage, counts);
  }
  // The half types see an error of this size in most problems, not in all.
  EXPECT_GT(counts.outside, kProblems / (storage == Dtype::kF32 ? 2 : 4));
  std::printf("%s, one wrong index: %d of %d\n", dtype_name(storage).data(),
              counts.outside, kProblems);
}

INSTANTIATE_TEST_SUITE_P(AllTypes, LayerBoundTest,
                         testing::Values(Dtype::kF32, Dtype::kF16,
                                         Dtype::kBf16),
                         [](const testing::TestParamInfo<Dtype>& dtype) {
                           return std::string(dtype_name(dtype.param));
                         });

TEST(StageErrorTest, IsTheLooserOfStoredAndNot) {
  // 1 + 2^-12 is between the f16 numbers 1 and 1 + 2^-10.
  const std::vector<double> x = {1, 1 + 0x1p-12, 70000};
  const std::vector<double> bound = {0, 0, 0};
  const std::vector<double> stored = stage_error(x, bound, Dtype::kF16);
  EXPECT_EQ(stored[0], 0);
  EXPECT_EQ(stored[1], 0x1p-12);
  EXPECT_TRUE(std::isinf(stored[2]));
  // A bound that ends between two numbers may be rounded outwards, or away.
  const std::vector<double> wide = {0x1p-11 + 0x1p-20};
  EXPECT_EQ(stage_error({1}, wide, Dtype::kF16)[0], 0x1p-10);
  const std::vector<double> narrow = {0x1p-13};
  EXPECT_EQ(stage_error({1}, narrow, Dtype::kF16)[0], 0x1p-13);
}

TEST(LayerBoundClaimsTest, ExactStagesCostNothing) {
  Shape s;
  s.H = 2;
  s.Hkv = 1;
  s.Tq = s.Tk = 4;
  s.d = s.dv = 2;
  s.D = 3;
  TestRandom random(32);
  TestLayerProblem p =
      random_layer(random, LayerRegime::kLattice, s, Dtype::kBf16);
  p.problem.causal = Causal::kTopLeft;
  p.problem.rotation = {};  // in double it rounds
  const LayerOutput oracle = plain_layer(p.get());
  const PrecisionModel model = declared_precision(control_named("naive"));
  const LayerBound bound = layer_bound(p.get(), oracle, model, Dtype::kBf16);
  for (const auto* stage : {&bound.q, &bound.k, &bound.v}) {
    for (double b : *stage) EXPECT_EQ(b, 0);
  }
  // The first position sees one key: an exact value, divided by one.
  EXPECT_LT(bound.attended[0], 1e-6);
}

TEST(LayerBoundClaimsTest, StoringTheStagesInHalfCostsMore) {
  TestRandom random(33);
  Shape s = random_layer_shape(random, 8);
  TestLayerProblem p =
      random_layer(random, LayerRegime::kNormal, s, Dtype::kF16);
  const LayerOutput oracle = plain_layer(p.get());
  const PrecisionModel model = declared_precision(control_named("naive"));
  const LayerBound kept = layer_bound(p.get(), oracle, model, Dtype::kF32);
  const LayerBound stored = layer_bound(p.get(), oracle, model, Dtype::kF16);
  EXPECT_EQ(stored.reach, kept.reach);
  for (size_t i = 0; i < kept.y.size(); ++i) {
    EXPECT_GT(stored.y[i], 10 * kept.y[i]);
  }
}

}  // namespace
}  // namespace qkvet::reference::layer_bound_test
