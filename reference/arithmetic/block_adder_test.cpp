// SPDX-License-Identifier: Apache-2.0
// The cost of block adders by itself, without a rounding of P or of the output.
// Adders of real devices stay within it and come near it; coarser ones exceed
// it, and adders that no f16 or bf16 device has also exceed the doubts.
#include <gtest/gtest.h>

#include "reference/testing/test_problems.h"
#include "reference/testing/test_ratios.h"

namespace qkvet::reference::block_adder_test {
namespace {

// Adders of devices, and seeded variants: blocks of 4 without an extra bit, and
// 13 bits after the point, as in products of fp8.
struct Adder {
  const char* control;
  const char* seeded = "none";
};
constexpr Adder kBlocks8 = {"blocks8"};
constexpr Adder kBlocks16 = {"blocks16"};
constexpr Adder kOldest = {"blocks8", "old_blocks"};
constexpr Adder kShortSums = {"blocks8", "short_blocks"};

PrecisionModel blocks_without_tiles() {
  qkvet_precision declared{};
  declared.struct_size = sizeof declared;
  declared.preset = QKVET_PRECISION_TENSOR_CORE;
  declared.declared = QKVET_KNOB_TILE | QKVET_KNOB_P_DTYPE;
  return for_storage(resolve_precision(declared).model, Dtype::kF16,
                     Dtype::kF16);
}

// One large term, and many just below two units of it: the part that is cut off
// is nearly a unit every time, and always of one sign.
TestProblem positive_problem(uint64_t seed, bool flat, double unit) {
  TestRandom random(seed);
  Shape shape;
  shape.Tk = 96;
  shape.d = 96;
  shape.dv = 4;
  TestProblem p = random_problem(random, Regime::kNormal, shape);
  const auto small = [&] {
    return round_to(Dtype::kF16, (1.8 + 0.19 * random.uniform()) * unit);
  };
  for (double& q : p.q) q = small();
  p.q[0] = 1024;
  std::fill(p.k.begin(), p.k.end(), 1.0);
  for (double& v : p.v) v = small();
  std::fill_n(p.v.begin(), shape.dv, 1024.0);
  if (flat) std::fill(p.q.begin(), p.q.end(), 0.0);
  return p;
}

// The worst of o where all weights are 1, else of lse.
double worst(const Adder& adder, const PrecisionModel& model, bool flat,
             double unit = 0x1p-14) {
  const TestControl kernel = control_named(adder.control, Dtype::kF16);
  double largest = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    TestProblem p = positive_problem(seed, flat, unit);
    const OracleOutput oracle = plain_forward(p.get());
    const BoundFacts facts(p.get(), oracle);
    const TestOutput got = run_control(kernel, p.get(), adder.seeded);
    const Ratios all =
        ratios(oracle, compute_bound(facts, model, true), got, p.get().shape);
    largest = std::max(largest, flat ? all.o : all.lse);
  }
  return largest;
}

TEST(BlockAdderTest, AddersOfDevicesStayWithinTheirCostAndComeNearIt) {
  const PrecisionModel model = blocks_without_tiles();
  for (const Adder& kernel : {kBlocks8, kBlocks16}) {
    const double values = worst(kernel, model, true);
    const double scores = worst(kernel, model, false);
    std::printf("%s: o %.3f lse %.3f\n", kernel.control, values, scores);
    EXPECT_LE(values, 1);
    EXPECT_LE(scores, 1);
    EXPECT_GT(values, kernel.control == kBlocks8.control ? 0.5 : 0.2);
  }
}

TEST(BlockAdderTest, CoarserAddersExceedItAndOnlyTheOldestIsDoubted) {
  const PrecisionModel model = blocks_without_tiles();
  EXPECT_LE(worst(kOldest, doubted(model), true), 1);
  EXPECT_LE(worst(kOldest, doubted(model), false), 1);
  constexpr double kItsUnit = 0x1p-6;
  EXPECT_GT(worst(kShortSums, model, true, kItsUnit), 1);
  EXPECT_GT(worst(kShortSums, doubted(model), true, kItsUnit), 1);
}

// A bound for rounding to nearest does not hold where sums are cut off.
TEST(BlockAdderTest, TruncatedSumsExceedTheBoundOfRoundedOnes) {
  PrecisionModel rounded = blocks_without_tiles();
  rounded.block_u = 0;
  EXPECT_GT(worst(kOldest, rounded, true), 1);
}

TEST(BlockAdderTest, IntegersAreExactAndASingleTermIs) {
  PrecisionModel model = blocks_without_tiles();
  EXPECT_EQ(block_cost(model, 1, 4096), 0);
  EXPECT_EQ(block_cost(model, 2, 2), 2.5 * 0x1p-23);
  // Half a unit for 15 further terms, two for each of two blocks.
  EXPECT_EQ(block_cost(model, 16, 16), (15 * 0.5 + 2 * 2) * 0x1p-23);
  EXPECT_EQ(block_cost(model, 16, 16, 3), (15 * 0.5 + 2 * 4) * 0x1p-23);
  EXPECT_EQ(block_cost(generic_precision(), 16, 16), 0);
  TestProblem p = positive_problem(1, true, 0x1p-14);
  for (size_t i = 0; i < p.v.size(); ++i) p.v[i] = i % 3 == 0 ? 1 : 0;
  const OracleOutput oracle = plain_forward(p.get());
  const BoundFacts facts(p.get(), oracle);
  const Bound bound = compute_bound(facts, model, false);
  // The quotient alone: 4 u, and what two orders of it cost.
  EXPECT_LT(bound.o[0], 4.1 * 0x1p-24 * oracle.o[0]);
  const TestOutput got =
      run_control(control_named(kBlocks8.control, Dtype::kF16), p.get());
  EXPECT_LE(ratios(oracle, bound, got, p.get().shape).o, 1);
}

}  // namespace
}  // namespace qkvet::reference::block_adder_test
