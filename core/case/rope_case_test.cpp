// SPDX-License-Identifier: Apache-2.0
// Rotations in a Case: their spelling, tables and positions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/case/rope.h"
#include "core/testing/case_calls.h"

namespace qkvet::rope_case_test {
namespace {

const std::string kPlain = "f32,B2,H2,Hkv1,Tq4,Tk6,d6";

TEST(RopeText, SpellingsComeBack) {
  expect_canonical(kPlain, {",rope=half", ",rope=interleaved", ",rope=half.100",
                            ",rope=interleaved.random", ",rope=half2.100",
                            ",rope=interleaved2.random"});
  EXPECT_EQ(to_string(parsed(kPlain + ",rope=half.0")), kPlain + ",rope=half");
  expect_canonical(
      "", {"f32,B1,H2,T3,D8,rope=half.random", "f32,B2,H2,T3,D8,rope=half.7",
           "f32,B2,H2,T3,D6,rope=half2",
           "f32,B1,H1,d2,cap4,rope=interleaved,story=step.a.3"});
}

TEST(RopeText, BadOnesGetOneClearLine) {
  expect_refused(
      "",
      {{"f32,B1,H1,Tq1,Tk1,d4,rope=neox", "allowed rope=half"},
       {"f32,B1,H1,Tq1,Tk1,d4,rope=half.x", "the first position, or random"},
       {"f32,B1,H1,Tq1,Tk1,d4,rope=half.-1", "0 .. 16777216"},
       {"f32,B1,H1,Tq1,Tk1,d3,rope=half", "number must be even"},
       {"f32,B1,H1,Tq1,Tk1,d5,rope=half3", "number must be even"},
       {"f32,B1,H1,Tq1,Tk1,d4,rope=half4", "or all: rope=half"},
       {"f32,B1,H1,Tq1,Tk1,d4,rope=half0", "the number of channels"},
       {"f32,B1,H1,Tq1,Tk1,d64,rope=half.16000000", "elements, the most"},
       {"f32,B1,H1,d2,cap4,rope=half.1,story=step.a.1", "stand at 0, 1"},
       {"f32,B1,H1,Tq1,Tk1,d4,rope=half,rope=half", "given twice"}});
}

TEST(RopeData, TablesAreTurnsThatAddUp) {
  const Case c = parsed("f64,B1,H1,Tq1,Tk5,d8,rope=half.1000");
  const Inputs inputs = make_inputs(c);
  ASSERT_EQ(rope_rows(c), 1005);
  ASSERT_EQ(inputs.rope_cos.size(), 1005u * 4);
  double last = 4;
  for (size_t n = 0; n < 4; ++n) {
    EXPECT_EQ(inputs.rope_cos[n], 1);
    EXPECT_EQ(inputs.rope_sin[n], 0);
    const double angle =
        std::atan2(inputs.rope_sin[4 + n], inputs.rope_cos[4 + n]);
    EXPECT_LT(angle, last);  // slower from pair to pair
    EXPECT_GT(angle, 0);
    last = angle;
    for (const size_t p : {size_t{2}, size_t{77}, size_t{1004}}) {
      const double turned = static_cast<double>(p) * angle;
      // Each of p products rounds two products and a sum, and the angle that
      // is measured is off by the same.
      const double off = static_cast<double>(p) * 8 * 0x1p-53;
      EXPECT_NEAR(inputs.rope_cos[4 * p + n], std::cos(turned), off);
      EXPECT_NEAR(inputs.rope_sin[4 * p + n], std::sin(turned), off);
    }
  }
  // f32 storage for all types of q but f64.
  EXPECT_EQ(inputs_of("bf16,B1,H1,Tq1,Tk5,d8,rope=half").rope_cos_bytes.size(),
            5u * 4 * sizeof(float));
}

TEST(RopeData, QueriesStandAtTheEndOfTheKeys) {
  using Positions = std::vector<int64_t>;
  const Inputs plain = inputs_of(kPlain + ",rope=half.9");
  EXPECT_EQ(plain.q_positions, (Positions{11, 12, 13, 14, 11, 12, 13, 14}));
  EXPECT_EQ(plain.k_positions,
            (Positions{9, 10, 11, 12, 13, 14, 9, 10, 11, 12, 13, 14}));
  // Counted from each member's own lengths; rows that do not count have
  // position 0.
  const Inputs lengths =
      make_inputs(parsed(kPlain + ",qlen=2.4,kvlen=3.1,rope=half"));
  EXPECT_EQ(lengths.q_positions, (Positions{1, 2, 0, 0, 0, 1, 2, 3}));
  EXPECT_EQ(lengths.k_positions,
            (Positions{0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  const Inputs packed =
      inputs_of("f32,B1,H1,Tq3,Tk5,d2,cuq=0.1.3,cuk=0.3.5,rope=half");
  EXPECT_EQ(packed.q_positions, (Positions{2, 0, 1}));
  EXPECT_EQ(packed.k_positions, (Positions{0, 1, 2, 0, 1}));
}

TEST(RopeData, RandomPositionsAreRowsOfTheTables) {
  const Case c = parsed("f32,B2,H1,Tq40,Tk50,d2,rope=half.random");
  const Inputs inputs = make_inputs(c);
  for (const auto* positions : {&inputs.q_positions, &inputs.k_positions}) {
    std::vector<int64_t> sorted = *positions;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_GE(sorted.front(), 0);
    EXPECT_LT(sorted.back(), rope_rows(c));
    EXPECT_GT(std::unique(sorted.begin(), sorted.end()) - sorted.begin(), 20);
  }
  // A token of a layer has one position.
  const Inputs layer = inputs_of("f32,B2,H1,T6,D4,rope=half.random");
  EXPECT_EQ(layer.q_positions, layer.k_positions);
}

TEST(RopeData, CallsGetTablesAndThePositionsThatTheyHave) {
  const Case c = parsed(kPlain + ",rope=interleaved");
  const Inputs inputs = make_inputs(c);
  const KernelCall call = call_of(c, inputs, Operation::kForward);
  EXPECT_EQ(call.rope, RopeStyle::kInterleaved);
  EXPECT_EQ(call.rope_rows, 6);
  EXPECT_NE(call.rope_cos, nullptr);
  EXPECT_NE(call.k_positions, nullptr);
  const KernelCall step = call_of(c, inputs, Operation::kCacheStep);
  EXPECT_NE(step.rope_sin, nullptr);
  EXPECT_EQ(step.q_positions, nullptr);
  const KernelCall reset = call_of(c, inputs, Operation::kCacheReset);
  EXPECT_EQ(reset.rope, RopeStyle::kNone);
}

}  // namespace
}  // namespace qkvet::rope_case_test
