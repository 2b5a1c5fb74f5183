// SPDX-License-Identifier: Apache-2.0
// Rotations: the two references agree, kernels that rotate in f32 or round to
// half stay within the bound and come near it, and wrong ones do not.
#include "reference/options/rope.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reference/testing/test_options.h"
#include "reference/testing/test_ratios.h"

namespace qkvet::reference::rope_test {
namespace {

enum class Turning : uint8_t {
  kProducts,   // two products and a sum
  kFused,      // one of them in a fused multiply-add
  kToStorage,  // the same, rounded to the storage type
  kBack,       // by minus the angle
  kOneAhead    // keys are one position further
};

TestOutput run_turned(Turning how, const TestControl& kernel, TestProblem p) {
  const Shape& s = p.problem.shape;
  const Rotation turn = p.get().rotation;
  const int64_t tables = std::ssize(p.rope_cos) * 2 / turn.channels;
  if (how == Turning::kOneAhead)
    for (int64_t& position : p.k_positions) position = (position + 1) % tables;
  const double sign = how == Turning::kBack ? -1 : 1;
  const bool fused = how == Turning::kFused;
  p.q =
      turned_in_f32(turn, turn.q_positions, {s.H, s.Tq, s.d, sign, fused}, p.q);
  p.k = turned_in_f32(turn, turn.k_positions, {s.Hkv, s.Tk, s.d, sign, fused},
                      p.k);
  if (how == Turning::kToStorage) {
    for (auto* tensor : {&p.q, &p.k})
      for (double& x : *tensor) x = round_to(kernel.storage, x);
  }
  p.problem.rotation.style = RopeStyle::kNone;
  return run_control(kernel, p.get());
}

TestProblem turned_problem(TestRandom& random, int i, Dtype storage) {
  const auto regime = static_cast<Regime>(i % kRegimeCount);
  const Shape shape = with_even_width(random_shape(random, largest_extent(i)));
  TestProblem p = i % 2 == 0 ? random_problem(random, regime, shape)
                             : random_option_problem(random, regime, shape);
  store(p, storage);
  add_rotation(random, p);
  return p;
}

struct Worst {
  double all = 0;
  double several = 0;
  int exceeding = 0;
};

Worst worst_of(Turning how, const TestControl& kernel,
               const PrecisionModel& model) {
  constexpr int kProblems = 1700;
  TestRandom random(21);
  Worst worst;
  for (int i = 0; i < kProblems; ++i) {
    TestProblem p = turned_problem(random, i, kernel.storage);
    const OracleOutput oracle = plain_forward(p.get());
    const Bound bound = bound_of(p.get(), oracle, model, true);
    const Ratios r =
        ratios(oracle, bound, run_turned(how, kernel, p), p.problem.shape);
    worst.all = std::max(worst.all, r.worst());
    worst.exceeding += !(r.worst() <= 1);
    worst.several = std::max(worst.several, r.several);
  }
  return worst;
}

constexpr double kNear = 0.25;
constexpr int kSome = 100;

TEST(RopeTest, ReferencesAgree) {
  constexpr int kProblems = 3400;
  TestRandom random(20);
  double worst = 0;
  for (int i = 0; i < kProblems; ++i) {
    TestProblem p = turned_problem(random, i, Dtype::kF32);
    const double ratio =
        reference_ratio(p.get(), plain_forward(p.get()), twin_forward(p.get()));
    ASSERT_TRUE(ratio <= 1) << "problem " << i << ": " << ratio;
    worst = std::max(worst, ratio);
  }
  EXPECT_GT(worst, 0.01);  // not the same algorithm twice
}

TEST(RopeTest, KernelsInF32StayWithinTheBound) {
  const TestControl kernel = control_named("online16_fma");
  const PrecisionModel model = declared_precision(kernel);
  for (const Turning how : {Turning::kProducts, Turning::kFused}) {
    const Worst worst = worst_of(how, kernel, model);
    EXPECT_LE(worst.all, 1) << static_cast<int>(how);
    EXPECT_GT(worst.several, kNear) << static_cast<int>(how);
  }
}

TEST(RopeTest, RotatedInputsMayBeRoundedToHalfStorage) {
  for (const Dtype storage : {Dtype::kBf16, Dtype::kF16}) {
    const TestControl kernel = control_named("online16", storage);
    const PrecisionModel generic =
        for_storage(generic_precision(), storage, storage);
    const Worst worst = worst_of(Turning::kToStorage, kernel, generic);
    EXPECT_LE(worst.all, 1);
    EXPECT_GT(worst.several, kNear / 2);
    // A kernel that declares to round only outputs to half is held to it.
    const Worst strict =
        worst_of(Turning::kToStorage, kernel, declared_precision(kernel));
    EXPECT_GT(strict.exceeding, kSome);
  }
}

TEST(RopeTest, WrongRotationsExceedTheBound) {
  const TestControl kernel = control_named("online16");
  const PrecisionModel model = declared_precision(kernel);
  for (const Turning how : {Turning::kBack, Turning::kOneAhead}) {
    EXPECT_GT(worst_of(how, kernel, model).exceeding, kSome);
  }
}

TEST(RopeTest, NothingIsOffWhereNothingRounds) {
  TestRandom random(22);
  TestProblem p =
      random_problem(random, Regime::kNormal, {1, 2, 1, 3, 3, 4, 4});
  for (int n = 0; n < 2; ++n) {
    p.rope_cos.push_back(n);  // a quarter turn and none
    p.rope_sin.push_back(1 - n);
  }
  p.q_positions.assign(3, 0);
  p.k_positions.assign(3, 0);
  p.problem.rotation.style = RopeStyle::kInterleaved;
  p.problem.rotation.channels = 4;
  const RotationErrors exact = rotation_errors(
      p.get(), for_storage(generic_precision(), Dtype::kF32, Dtype::kF32));
  for (const double error : exact.q) EXPECT_EQ(error, 0);
  for (const double error : exact.k) EXPECT_EQ(error, 0);
  // f32 data does not fit into bf16: rounding it is counted.
  const RotationErrors rounded = rotation_errors(
      p.get(), for_storage(generic_precision(), Dtype::kBf16, Dtype::kBf16));
  EXPECT_GT(rounded.q[0], 0);
}

}  // namespace
}  // namespace qkvet::reference::rope_test
