// SPDX-License-Identifier: Apache-2.0
// Laws about dropout: each passes the definition, and fails what it exists to
// fail.
#include <gtest/gtest.h>

#include <algorithm>

#include "properties/fake_check.h"
#include "properties/fake_gradients.h"
#include "properties/generate.h"

namespace qkvet {
namespace {

constexpr char kLarge[] = "f32,B2,H2,Tq48,Tk48,d2,dropout=0.1";
constexpr char kMedium[] = "f32,B2,H2,Tq12,Tk12,d2,dropout=0.5";
constexpr char kSmall[] = "f32,B1,H2,Tq3,Tk5,d2,mask=random,dropout=0.1";
constexpr char kBackward[] =
    "f32,B1,H2,Hkv1,Tq3,Tk4,d2,dv3,bias=small,sink=one,dropout=0.5,backward";

std::string looks(const Judgement& judgement) {
  return judgement.finding ? judgement.finding->looks : "no finding";
}

std::byte flipped(std::byte one) { return one ^ std::byte{1}; }

TEST(DropoutLaws, TheShareThatIsKept) {
  EXPECT_EQ(looks(fails("dropout_keeps_its_share", kLarge,
                        [](KernelCall& call, Problem&) {
                          call.dropout->p = 1 - call.dropout->p;
                        })),
            "kept with the probability of being dropped");
  // Half of all weights, but whole rows of them, or whole keys.
  for (const bool rows : {false, true})
    fails("dropout_keeps_its_share", "f32,B1,H1,Tq48,Tk48,d2,dropout=0.5", {},
          [rows](const KernelCall&, OracleOutput&, CallOutcome& outcome) {
            for (size_t n = 0; n < outcome.dropout_mask.size(); ++n)
              outcome.dropout_mask[n] =
                  std::byte{uint8_t((rows ? n / 48 : n % 48) % 2)};
          });
}

// A generator of eight bits is right.
TEST(DropoutLaws, EightBitsAreEnough) {
  FakeExecutor coarse([](KernelCall& call, Problem&) {
    call.dropout->p = static_cast<float>(int(call.dropout->p * 256)) / 256;
  });
  EXPECT_EQ(check("dropout_keeps_its_share", kLarge, coarse).verdict,
            Verdict::kPassed);
}

TEST(DropoutLaws, WhatDecidesTheMask) {
  EXPECT_EQ(
      looks(fails("dropout_is_a_function_of_its_seed", kMedium,
                  [](KernelCall& call, Problem&) { call.dropout->seed = 7; })),
      "the seed is not read");
  EXPECT_EQ(looks(fails(
                "dropout_is_a_function_of_its_seed", kMedium,
                [](KernelCall& call, Problem&) { call.dropout->offset = 7; })),
            "the offset is not read");
  EXPECT_EQ(looks(fails("dropout_is_a_function_of_its_seed", kMedium,
                        [](KernelCall& call, Problem&) {
                          call.dropout->seed += call.threads;
                        })),
            "what is dropped depends on more than seed, offset and place");
  EXPECT_EQ(
      looks(fails("dropout_is_a_function_of_its_seed", kMedium, {},
                  [](const KernelCall&, OracleOutput&, CallOutcome& outcome) {
                    auto& mask = outcome.dropout_mask;
                    std::copy_n(mask.begin(), 144, mask.begin() + 144);
                  })),
      "head or member have no part in what is dropped");
}

TEST(DropoutLaws, NoProbabilityNoDropout) {
  const std::string text = "f32,B1,H1,Tq3,Tk5,d2,dropout=0";
  fails("dropout_zero_is_no_dropout", text, {},
        [](const KernelCall& call, OracleOutput&, CallOutcome& outcome) {
          if (call.want_dropout_mask) outcome.dropout_mask[4] = std::byte{0};
        });
  fails("dropout_zero_is_no_dropout", text, {},
        [](const KernelCall& call, OracleOutput& oracle, CallOutcome&) {
          if (call.dropout) oracle.o[0] *= 1.000001;
        });
}

TEST(DropoutLaws, TheOutputIsThatOfTheMask) {
  fails("dropout_agrees_with_oracle", kSmall, {},
        [](const KernelCall&, OracleOutput& oracle, CallOutcome&) {
          for (double& o : oracle.o) o *= 0.9 / 0.1;
        });
  fails("dropout_agrees_with_oracle", kSmall, {},
        [](const KernelCall&, OracleOutput&, CallOutcome& outcome) {
          for (std::byte& one : outcome.dropout_mask) one = flipped(one);
        });
  fails("dropout_agrees_with_oracle", kSmall, {},
        [](const KernelCall&, OracleOutput& oracle, CallOutcome&) {
          oracle.lse[0] -= 0.1;
        });
  const Judgement judgement =
      fails("dropout_agrees_with_oracle", kSmall, {},
            [](const KernelCall&, OracleOutput&, CallOutcome& outcome) {
              outcome.dropout_mask[3] = std::byte{2};
            });
  EXPECT_EQ(judgement.finding->where, "dropout_mask[b=0,h=0,i=0,j=3]");
  EXPECT_EQ(judgement.finding->actual, "2");
}

Judgement check_backward(FakeGradients& executor) {
  TimeUse time;
  return check_case(*find_law("dropout_same_in_backward"),
                    *parse_case(kBackward).value,
                    FakeGradients::under_test().judged, 0, executor,
                    /*with_twin=*/true, time);
}

TEST(DropoutLaws, TheGradientIsThatOfTheSameMask) {
  FakeGradients right;
  const Judgement passed = check_backward(right);
  EXPECT_EQ(passed.verdict, Verdict::kPassed) << passed.reason;
  EXPECT_GT(passed.compared, 24);  // more than the mask
  FakeGradients other_mask(
      {}, [](const KernelCall&, GradientOutput&, CallOutcome& outcome) {
        outcome.dropout_mask[5] = flipped(outcome.dropout_mask[5]);
      });
  const Judgement masks = check_backward(other_mask);
  EXPECT_EQ(masks.verdict, Verdict::kFailed);
  EXPECT_EQ(looks(masks), "backward() drops other weights than forward() did");
  // The mask is right, and the gradient that of another.
  FakeGradients without;
  without.backward = plain_backward;
  EXPECT_EQ(check_backward(without).verdict, Verdict::kFailed);
  FakeGradients off({}, [](const KernelCall&, GradientOutput& gradient,
                           CallOutcome&) { gradient.k[1] *= 1.001; });
  const Judgement one = check_backward(off);
  ASSERT_EQ(one.verdict, Verdict::kFailed);
  EXPECT_EQ(one.finding->where.substr(0, 2), "dk");
}

}  // namespace
}  // namespace qkvet
