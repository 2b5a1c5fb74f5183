// SPDX-License-Identifier: Apache-2.0
// Kernels of half storage: correct ones stay within the bound of their
// declaration and of the generic model, wrong ones do not.
#include <gtest/gtest.h>

#include "core/base/at_night.h"
#include "core/base/half.h"
#include "reference/testing/test_problems.h"
#include "reference/testing/test_ratios.h"

namespace qkvet::reference::bound_half_test {
namespace {

TestProblem stored_problem(TestRandom& random, Regime regime,
                           const Shape& shape, Dtype storage) {
  TestProblem p = random_problem(random, regime, shape);
  store(p, storage);
  return p;
}

PrecisionModel generic_for(Dtype storage) {
  return for_storage(generic_precision(), storage, storage);
}

class BoundHalfTest : public testing::TestWithParam<size_t> {};

TEST_P(BoundHalfTest, StaysWithinTheBoundAndComesNearIt) {
  const TestControl kernel = half_controls()[GetParam()];
  const auto draw = [&](TestRandom& random, Regime regime, const Shape& shape) {
    return TestTrial{stored_problem(random, regime, shape, kernel.storage)};
  };
  const Ratios all = expect_within_and_near(
      kernel, taken(1190, 3), cut_off_alone(kernel) ? 0.15 : 0.3, draw);
  EXPECT_TRUE(all.near_beside_o()) << kernel.name();
}

INSTANTIATE_TEST_SUITE_P(AllKernels, BoundHalfTest,
                         testing::Range(size_t{0}, half_controls().size()),
                         [](const testing::TestParamInfo<size_t>& kernel) {
                           return half_controls()[kernel.param].name();
                         });

TestProblem unmasked(Regime regime, int64_t Tk) {
  TestRandom random(5);
  Shape shape;
  shape.Tk = Tk;
  shape.d = 4;
  shape.dv = 3;
  TestProblem p = stored_problem(random, regime, shape, Dtype::kF16);
  p.problem.causal = Causal::kNone;
  return p;
}

PrecisionModel flash_half(Dtype storage) {
  qkvet_precision declared{};
  declared.struct_size = sizeof declared;
  declared.preset = QKVET_PRECISION_FLASH_HALF;
  return for_storage(resolve_precision(declared).model, storage, storage);
}

TEST(BoundHalfClaimsTest, CountingStaysExact) {
  constexpr int64_t kLong = 5000;
  TestProblem p = unmasked(Regime::kCount, kLong);
  const double o = plain_forward(p.get()).o[0];
  for (const Dtype half : {Dtype::kBf16, Dtype::kF16}) {
    PrecisionModel model = flash_half(half);
    const double division = model.norm_roundings * model.u * o;
    EXPECT_NEAR(bound_of(p, model).o[0], division, 1e-3 * division);
    model.sum_of_rounded_p = true;
    EXPECT_NEAR(bound_of(p, model).o[0], division, 1e-3 * division);
    // 1/n is no half number.
    EXPECT_GT(bound_of(p, generic_for(half)).o[0], model.p_u * o);
  }
}

TEST(BoundHalfClaimsTest, ASingleKeyHasNoRoundingOfP) {
  TestProblem p = unmasked(Regime::kNormal, 1);
  for (const Dtype half : {Dtype::kBf16, Dtype::kF16}) {
    for (const PrecisionModel& model : {flash_half(half), generic_for(half)}) {
      const double bound = bound_of(p, model).o[0];
      EXPECT_LT(bound, 0x1p-16 * std::fabs(p.v[0]));
      EXPECT_GT(bound, 0);
    }
  }
}

TEST(BoundHalfClaimsTest, EveryStageIsWithinGeneric) {
  TestProblem p = unmasked(Regime::kNormal, 9);
  const Bound all = bound_of(p, generic_for(Dtype::kF16));
  const Bound unrounded = bound_of(p, generic_precision());
  PrecisionModel model = flash_half(Dtype::kF16);
  const double exact_lse = bound_of(p, model).lse[0];
  for (const bool normalised : {false, true}) {
    model.norm_first = model.p_normalised = normalised;
    model.sum_of_rounded_p = !normalised;
    const Bound one = bound_of(p, model);
    for (size_t i = 0; i < one.o.size(); ++i) {
      EXPECT_LT(one.o[i], all.o[i]);
      EXPECT_LT(unrounded.o[i], one.o[i]);
    }
    EXPECT_EQ(one.lse[0] > exact_lse, model.sum_of_rounded_p);
  }
}

TEST(BoundHalfClaimsTest, WhatHalfCannotHoldIsNotJudged) {
  TestProblem p = unmasked(Regime::kNormal, 3);
  PrecisionModel model = flash_half(Dtype::kF16);
  model.lazy = 12;  // e^12 is beyond 65504
  EXPECT_TRUE(std::isinf(bound_of(p, model).o[0]));
  EXPECT_TRUE(std::isinf(bound_of(p, model).lse[0]));
  EXPECT_FALSE(std::isinf(bound_of(p, flash_half(Dtype::kBf16)).o[0]));
  for (double& v : p.v) v = 65500;
  model.lazy = 0;
  EXPECT_TRUE(std::isinf(bound_of(p, model).o[0]));
  model.output_largest = std::numeric_limits<float>::max();
  EXPECT_FALSE(std::isinf(bound_of(p, model).o[0]));
}

// Problems with an output beyond the bound of `model`.
int count_exceeding(const TestControl& kernel, const PrecisionModel& model,
                    const std::string& seeded, int problems) {
  TestRandom random(9);
  int exceeding = 0;
  for (int i = 0; i < problems; ++i) {
    const auto regime = static_cast<Regime>(i % kRegimeCount);
    const Shape shape = random_shape(random, 24);
    TestProblem p = stored_problem(random, regime, shape, kernel.storage);
    const OracleOutput oracle = plain_forward(p.get());
    const BoundFacts facts(p.get(), oracle);
    const Bound bound = compute_bound(facts, model, false);
    const TestOutput got = run_control(kernel, p.get(), seeded);
    exceeding += !accepted(oracle.o, bound.o, got.o, kernel.storage);
  }
  return exceeding;
}

constexpr int kFaultProblems = 680;

TEST(BoundHalfFaultsTest, WrongKernelsExceedTheirDeclaration) {
  constexpr const char* kFaults[] = {"truncated_p", "rounded_tile",
                                     "rounded_total", "lost_key", "scale"};
  for (const Dtype half : {Dtype::kBf16, Dtype::kF16}) {
    const TestControl kernel = control_named("half_tile4", half);
    const PrecisionModel declared = declared_precision(kernel);
    EXPECT_EQ(count_exceeding(kernel, declared, "none", kFaultProblems), 0);
    for (const char* fault : kFaults) {
      const int seen = count_exceeding(kernel, declared, fault, kFaultProblems);
      EXPECT_GT(seen, 0) << dtype_name(half) << " " << fault;
      std::printf("%s, %s: %d of %d\n", dtype_name(half).data(), fault, seen,
                  kFaultProblems);
    }
  }
}

TEST(BoundHalfFaultsTest, RoundedPHasToBeDeclaredInF32) {
  // All it stores is f32.
  const auto in_f32 = [](const qkvet_precision& declared) {
    return for_storage(resolve_precision(declared).model, Dtype::kF32,
                       Dtype::kF32);
  };
  for (const Dtype half : {Dtype::kBf16, Dtype::kF16}) {
    const TestControl kernel = control_named("online3", half);
    const auto count = [&](const PrecisionModel& model) {
      return count_exceeding(kernel, model, "rounded_p", kFaultProblems);
    };
    const int seen = count(generic_for(Dtype::kF32));
    EXPECT_GT(seen, kFaultProblems / 2);
    qkvet_precision declared = *kernel.kernel->precision;
    EXPECT_GT(count(in_f32(declared)), kFaultProblems / 2);
    declared.declared |= QKVET_KNOB_P_DTYPE;
    declared.p_dtype = dtype_to_abi(half);
    EXPECT_EQ(count(in_f32(declared)), 0);
    std::printf("P in %s, f32 storage: %d of %d beyond generic\n",
                dtype_name(half).data(), seen, kFaultProblems);
  }
}

}  // namespace
}  // namespace qkvet::reference::bound_half_test
