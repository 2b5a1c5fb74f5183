// SPDX-License-Identifier: Apache-2.0
// The bound of f64 storage about the truth of the twin: correct arithmetic in
// double stays within it and comes near it, anything coarser does not.
#include <gtest/gtest.h>

#include <cmath>

#include "reference/agreement/agreement.h"
#include "reference/attention/plain.h"
#include "reference/testing/test_options.h"

namespace qkvet::reference::bound_f64_test {
namespace {

// Hooks that compute in double, and others that do not quite.
using InDouble = PlainHooks;

// Good to 2^-44 where it is small.
struct CoarseExp : PlainHooks {
  static double exponential(double x) {
    return std::exp(x) * (x < -0.5 ? 1 + 0x1p-44 : 1);
  }
};

struct ExpInFloat : PlainHooks {
  static double exponential(double x) {
    return static_cast<double>(std::exp(static_cast<float>(x)));
  }
};

struct NormalisedInFloat : PlainHooks {
  static double normalise(double w, double sum) {
    return static_cast<double>(static_cast<float>(w) / static_cast<float>(sum));
  }
};

struct ScaledInFloat : PlainHooks {
  static double scale(const Problem& problem) {
    return problem.scale * (1 + 0x1p-26);
  }
};

struct FarScale : PlainHooks {
  static double scale(const Problem& problem) {
    return problem.scale * (1 + 0x1p-16);
  }
};

PrecisionModel generic_f64() {
  return for_storage(generic_precision(), Dtype::kF64, Dtype::kF64);
}

// plain_forward as a kernel would declare it.
PrecisionModel plain_f64() {
  qkvet_precision p = {};
  p.struct_size = sizeof p;
  p.preset = QKVET_PRECISION_CPU_F32;
  p.declared = QKVET_KNOB_DOT_SUM | QKVET_KNOB_NORM;
  p.dot_sum = QKVET_SUM_LANES;
  p.dot_lanes = 1;
  p.norm_roundings = 1;
  p.norm_first = 1;
  return for_storage(resolve_precision(p).model, Dtype::kF64, Dtype::kF64);
}

// Digits that f32 does not have.
void add_digits(TestRandom& random, std::vector<double>& x) {
  for (double& value : x) value *= 1 + 0x1p-26 * random.normal();
}

TestProblem f64_problem(TestRandom& random, int i) {
  const auto regime = static_cast<Regime>(i % kRegimeCount);
  const Shape shape = random_shape(random, i % 5 == 0 ? 40 : 10);
  TestProblem p = i % 2 == 0 ? random_problem(random, regime, shape)
                             : random_option_problem(random, regime, shape);
  // Grids and counts are exact as they are.
  if (regime == Regime::kLattice || regime == Regime::kCount) return p;
  for (auto* x : {&p.q, &p.k, &p.v, &p.bias, &p.slopes, &p.sink}) {
    add_digits(random, *x);
  }
  return p;
}

double ratio_of(const Problem& problem, const OracleOutput& got,
                const PrecisionModel& model) {
  const OracleOutput truth = twin_forward(problem);
  const BoundFacts facts(problem, truth);
  const Bound bound = compute_bound(facts, model, true);
  return std::max({worst_ratio(got.o, truth.o, bound.o),
                   worst_ratio(got.lse, truth.lse, bound.lse),
                   worst_ratio(got.weights, truth.weights, bound.weights)});
}

TEST(BoundF64Test, DoubleStaysWithinItAndComesNearIt) {
  constexpr int kProblems = 3400;
  constexpr double kNear = 0.2;
  TestRandom random(53);
  double declared = 0;
  double generic = 0;
  for (int i = 0; i < kProblems; ++i) {
    TestProblem p = f64_problem(random, i);
    const OracleOutput got = plain_forward(p.get());
    const double own = ratio_of(p.get(), got, plain_f64());
    const double any = ratio_of(p.get(), got, generic_f64());
    ASSERT_TRUE(own <= 1) << "problem " << i << ", ratio " << own;
    ASSERT_TRUE(any <= 1) << "problem " << i << ", ratio " << any;
    declared = std::max(declared, own);
    generic = std::max(generic, any);
  }
  EXPECT_GT(declared, kNear);
  std::printf("f64: declared %.3f, generic %.3f\n", declared, generic);
}

template <class Hooks>
int exceeding(int problems) {
  TestRandom random(54);
  int count = 0;
  for (int i = 0; i < problems; ++i) {
    TestProblem p = f64_problem(random, i);
    const OracleOutput got = plain_forward_with<Hooks>(p.get());
    count += !(ratio_of(p.get(), got, generic_f64()) <= 1);
  }
  return count;
}

// Scores, exponentials, their sum and quotients in float, as in a library that
// converts them before a softmax.
struct SoftmaxInFloat : ExpInFloat {
  static double normalise(double w, double sum) {
    return NormalisedInFloat::normalise(w, sum);
  }
};

TEST(BoundF64Test, ASoftmaxInF32IsWithinWhatItDeclares) {
  constexpr int kProblems = 340;
  qkvet_precision p = {};
  p.struct_size = sizeof p;
  p.preset = QKVET_PRECISION_CPU_F32;
  p.declared = QKVET_KNOB_NORM | QKVET_KNOB_SOFTMAX_DTYPE;
  p.norm_roundings = 1;
  p.norm_first = 1;
  p.softmax_dtype = dtype_to_abi(Dtype::kF32);
  const PrecisionModel model =
      for_storage(resolve_precision(p).model, Dtype::kF64, Dtype::kF64);
  TestRandom random(56);
  int scaled_apart = 0;
  for (int i = 0; i < kProblems; ++i) {
    TestProblem problem = f64_problem(random, i);
    const OracleOutput got = plain_forward_with<SoftmaxInFloat>(problem.get());
    const double ratio = ratio_of(problem.get(), got, model);
    ASSERT_TRUE(ratio <= 1) << "problem " << i << ", ratio " << ratio;
    // A scale that is a hundred times as far off as the rounding is seen.
    const OracleOutput far = plain_forward_with<FarScale>(problem.get());
    scaled_apart += !(ratio_of(problem.get(), far, model) <= 1);
  }
  EXPECT_GT(scaled_apart, kProblems / 8);
}

TEST(BoundF64Test, AnythingCoarserExceedsIt) {
  constexpr int kProblems = 340;
  EXPECT_EQ(exceeding<InDouble>(kProblems), 0);
  EXPECT_GT(exceeding<CoarseExp>(kProblems), kProblems / 4);
  EXPECT_GT(exceeding<ExpInFloat>(kProblems), kProblems / 2);
  EXPECT_GT(exceeding<NormalisedInFloat>(kProblems), kProblems / 2);
  EXPECT_GT(exceeding<ScaledInFloat>(kProblems), kProblems / 4);
}

// Sizes that f32 does not have are judged, and what is flushed at the end of
// f32 is seen.
TEST(BoundF64Test, ReachesWhereF32Ends) {
  for (const double size : {0x1p-900, 0x1p-140, 0x1p200, 0x1p900}) {
    TestRandom random(55);
    Shape shape;
    shape.Tq = 3;
    shape.Tk = 5;
    shape.d = 4;
    shape.dv = 2;
    TestProblem p = random_problem(random, Regime::kNormal, shape);
    for (double& v : p.v) v *= size;
    const OracleOutput truth = twin_forward(p.get());
    const Bound bound =
        compute_bound(BoundFacts(p.get(), truth), generic_f64(), false);
    for (size_t n = 0; n < truth.o.size(); ++n) {
      EXPECT_LT(bound.o[n], 0x1p-40 * size);
      EXPECT_GT(bound.o[n], 0);
    }
    EXPECT_TRUE(ratio_of(p.get(), plain_forward(p.get()), generic_f64()) <= 1);
    if (size > 1) continue;
    OracleOutput flushed = plain_forward(p.get());
    for (double& o : flushed.o) o = std::fabs(o) < 0x1p-126 ? 0 : o;
    EXPECT_FALSE(ratio_of(p.get(), flushed, generic_f64()) <= 1);
  }
}

}  // namespace
}  // namespace qkvet::reference::bound_f64_test
