// SPDX-License-Identifier: Apache-2.0
// Laws about dropout: each passes the definition, and fails the mistakes that
// it exists for.
#include <gtest/gtest.h>

#include <algorithm>

#include "properties/cases/generate.h"
#include "properties/testing/fake_check.h"
#include "properties/testing/fake_gradients.h"

namespace qkvet::properties::dropout_law_test {
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

// For kMedium: one mask for its two members of two heads.
void broadcast(const KernelCall&, OracleOutput&, CallOutcome& outcome) {
  auto& mask = outcome.dropout_mask;
  for (size_t n = 144; n < mask.size(); ++n) mask[n] = mask[n % 144];
}

TEST(DropoutLaws, OneMaskForAllHeadsIsRightWhereItIsDeclared) {
  JudgedKernel declared = FakeExecutor::under_test().judged;
  declared.info.capabilities.flags |= QKVET_FLAG_DROPOUT_BROADCAST;
  FakeExecutor shared({}, broadcast);
  for (const char* law :
       {"dropout_is_a_function_of_its_seed", "dropout_keeps_its_share"}) {
    const Judgement judgement = check(law, kMedium, shared, declared);
    EXPECT_EQ(judgement.verdict, Verdict::kPassed) << finding_of(judgement);
    EXPECT_GT(judgement.compared, 0);
  }
  EXPECT_EQ(looks(check("dropout_is_a_function_of_its_seed", kMedium, shared)),
            "head or member have no part in what is dropped");
  FakeExecutor apart;
  EXPECT_EQ(looks(check("dropout_is_a_function_of_its_seed", kMedium, apart,
                        declared)),
            "one mask for both is declared (dropout_broadcast, "
            "dropout_of_member or dropout_of_head)");
}

TEST(DropoutLaws, NoProbabilityNoDropout) {
  const std::string text = "f32,B1,H1,Tq3,Tk5,d2,dropout=0";
  fails("dropout_zero_is_no_dropout", text, {},
        [](const KernelCall& call, OracleOutput&, CallOutcome& outcome) {
          if (call.want_dropout_mask) outcome.dropout_mask[4] = std::byte{0};
        });
  fails("dropout_zero_is_no_dropout", text, {},
        [](const KernelCall& call, OracleOutput& oracle, CallOutcome&) {
          if (call.dropout) oracle.o[0] *= 1.0001;
        });
}

// A call that returns its mask may take another path.
TEST(DropoutLaws, NoProbabilityMayRoundOtherwise) {
  FakeExecutor drift(
      {}, [](const KernelCall& call, OracleOutput& oracle, CallOutcome&) {
        if (call.want_dropout_mask)
          oracle.o[0] = std::nextafter(static_cast<float>(oracle.o[0]), 9.0f);
      });
  const Judgement judgement = check("dropout_zero_is_no_dropout",
                                    "f32,B1,H1,Tq3,Tk5,d2,dropout=0", drift);
  EXPECT_EQ(judgement.verdict, Verdict::kPassed) << judgement.reason;
  EXPECT_GT(judgement.compared, 0);
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

JudgedKernel without_mask(JudgedKernel kernel) {
  kernel.info.capabilities.options &= ~QKVET_OPTION_DROPOUT_MASK;
  return kernel;
}

// A kernel that does not return its mask shows it all the same.
Judgement fails_unseen(const std::string& law, const std::string& text,
                       FakeExecutor::Question question,
                       FakeExecutor::Answer answer = {}) {
  return fails_as<FakeExecutor>(
      without_mask(FakeExecutor::under_test().judged), law, text,
      [question](KernelCall& call, Problem& problem) {
        EXPECT_FALSE(call.want_dropout_mask);
        if (question) question(call, problem);
      },
      std::move(answer));
}

TEST(DropoutLaws, AMaskThatIsReadIsHeldToTheSameShare) {
  for (const char* text : {"f32,B2,H2,Tq48,Tk48,d7,dropout=0.1",
                           "f16,B1,H2,Tq20,Tk30,d7,causal=br,dropout=0.9"})
    EXPECT_EQ(looks(fails_unseen("dropout_keeps_its_share", text,
                                 [](KernelCall& call, Problem&) {
                                   call.dropout->p = 1 - call.dropout->p;
                                 })),
              "kept with the probability of being dropped");
}

TEST(DropoutLaws, WhatDecidesAMaskThatIsRead) {
  constexpr char kCausal[] = "f32,B2,H2,Tq12,Tk12,d5,causal=tl,dropout=0.5";
  EXPECT_EQ(looks(fails_unseen(
                "dropout_is_a_function_of_its_seed", kCausal,
                [](KernelCall& call, Problem&) { call.dropout->seed = 7; })),
            "the seed is not read");
  EXPECT_EQ(looks(fails_unseen("dropout_is_a_function_of_its_seed", kCausal,
                               [](KernelCall& call, Problem&) {
                                 call.dropout->seed += call.threads;
                               })),
            "what is dropped depends on more than seed, offset and place");
}

TEST(DropoutLaws, TheOutputIsThatOfTheMaskThatIsRead) {
  constexpr char kHidden[] =
      "bf16,B2,H2,Tq3,Tk5,d2,causal=br,mask=random,sink=normal,bias=normal,"
      "qlen=2.3,dropout=0.5";
  for (const char* text : {kSmall, kHidden}) {
    fails_unseen("dropout_agrees_with_oracle", text, {},
                 [](const KernelCall&, OracleOutput& oracle, CallOutcome&) {
                   for (double& o : oracle.o) o *= 0.9 / 0.1;
                 });
    // Other weights are dropped where q is not zero.
    fails_unseen("dropout_agrees_with_oracle", text,
                 [](KernelCall& call, Problem& problem) {
                   if (problem.q[0] != 0) call.dropout->seed += 1;
                 });
  }
  fails_unseen("dropout_zero_is_no_dropout",
               "f32,B1,H1,Tq3,Tk5,d2,causal=br,dropout=0",
               [](KernelCall& call, Problem&) {
                 if (call.dropout) call.dropout->p = 0.5F;
               });
}

TEST(DropoutLaws, AMaskThatTakesTooManyCallsIsNotRead) {
  FakeExecutor right;
  const Judgement judgement =
      check("dropout_agrees_with_oracle", "f32,B1,H1,Tq1,Tk17,d1,dropout=0.5",
            right, without_mask(FakeExecutor::under_test().judged));
  EXPECT_EQ(judgement.verdict, Verdict::kGaveUp);
  EXPECT_EQ(judgement.reason,
            "the mask is not returned, and would take 17 calls to read (Tk / "
            "dv), above 16");
}

// The law runs forward() on the same fake kernel.
Judgement check_backward(
    FakeGradients& executor,
    const JudgedKernel& kernel = FakeGradients::under_test().judged) {
  return check("dropout_same_in_backward", kBackward, executor, kernel);
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

TEST(DropoutLaws, TheGradientIsThatOfTheMaskThatIsRead) {
  const JudgedKernel unseen = without_mask(FakeGradients::under_test().judged);
  FakeGradients right;
  const Judgement passed = check_backward(right, unseen);
  EXPECT_EQ(passed.verdict, Verdict::kPassed) << finding_of(passed);
  EXPECT_GT(passed.compared, 0);
  FakeGradients without;
  without.backward = plain_backward;
  EXPECT_EQ(check_backward(without, unseen).verdict, Verdict::kFailed);
}

}  // namespace
}  // namespace qkvet::properties::dropout_law_test
