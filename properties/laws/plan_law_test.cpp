// SPDX-License-Identifier: Apache-2.0
// Laws about plans: right kernels pass all of them, and each law finds a
// mistake of its own. The test of all faults (cli/hunt/kill_test.cpp) checks
// that every fault of impl/faulty/plans.cpp is killed by the laws that it
// names.
#include <gtest/gtest.h>

#include "properties/cases/generate.h"
#include "properties/testing/fake_check.h"
#include "properties/testing/family_kernel.h"

namespace qkvet::properties::plan_law_test {
namespace {

constexpr char kLengths[] = "f32,B2,H1,Tq3,Tk5,d4,qlen=3.1,kvlen=5.2";

std::vector<const Law*> laws_of_plans() {
  std::vector<const Law*> laws;
  for (const Law* law : all_laws())
    if (law->domain.plans) laws.push_back(law);
  return laws;
}

TEST(PlanLaws, AKernelThatHasNothingElsePassesThem) {
  const auto [open, kernel] =
      family_kernel("qkvet_serving.so",
                    [](const KernelInfo& info) { return info.only_plans; });
  RunOptions options;
  options.laws = laws_of_plans();
  ASSERT_EQ(options.laws.size(), 5u);
  options.laws.push_back(find_law("agrees_with_oracle"));
  options.cases_per_law = 60;
  options.scope.dtypes = declared_dtypes({kernel});
  const RunResult result = run_plan({kernel}, open, options);
  ASSERT_EQ(result.kernels.size(), 1u) << result.error;
  for (const Cell& cell : result.kernels[0].cells) {
    EXPECT_EQ(cell.verdict, Verdict::kPassed) << cell.law->id << cell.reason;
    EXPECT_GT(cell.checked, 50) << cell.law->id;
  }
}

TEST(PlanLaws, OfAKernelWithoutPlansNothingIsAsked) {
  KernelUnderTest kernel = FakeExecutor::under_test();
  kernel.judged.info.has_plan = false;
  RunOptions options;
  options.laws = laws_of_plans();
  options.cases = 20;
  const RunResult result = run_fake(options, {}, {}, kernel);
  for (const Cell& cell : result.kernels.at(0).cells) {
    EXPECT_EQ(cell.verdict, Verdict::kUnsupported) << cell.law->id;
    EXPECT_EQ(cell.reason, "not declared: plans");
  }
}

// The lengths of keys stay those of the plan that was made.
TEST(PlanLaws, AnUpdateThatKeepsLengthsIsSeen) {
  const Judgement judgement = fails(
      "updated_plan_equals_new_plan", kLengths,
      [kept = std::vector<int64_t>()](KernelCall& call, Problem& p) mutable {
        if (p.kv_len == nullptr) return;
        if (call.plan_use == PlanUse::kMake)
          kept.assign(p.kv_len, p.kv_len + call.shape.B);
        p.kv_len = kept.data();
      });
  EXPECT_EQ(judgement.finding->looks,
            "something is left of the larger batch that was planned before");
  EXPECT_EQ(judgement.finding->planned, 2);
}

// Bits are only compared if the kernel claims them.
TEST(PlanLaws, OtherBitsAreALieWhereTheyAreClaimed) {
  const auto last_bit = [](const KernelCall& call, OracleOutput& oracle,
                           CallOutcome&) {
    if (call.plan_use == PlanUse::kUpdate) oracle.o[0] *= 1 + 0x1p-22;
  };
  fails("updated_plan_equals_new_plan", kLengths, {}, last_bit);
  FakeExecutor fake({}, last_bit);
  JudgedKernel unclaimed = FakeExecutor::under_test().judged;
  unclaimed.info.plan_options = 0;
  EXPECT_EQ(
      check("updated_plan_equals_new_plan", kLengths, fake, unclaimed).verdict,
      Verdict::kPassed);
}

TEST(PlanLaws, AWriteBehindTheBatchIsSeen) {
  const auto writes = [](const KernelCall& call, OracleOutput&,
                         CallOutcome& outcome) {
    if (call.plan_use != PlanUse::kUpdate) return;
    outcome.overwritten = TensorName::kO;
    outcome.overwritten_index = 17;
  };
  const Judgement judgement =
      fails("rows_beyond_a_planned_batch_stay", kLengths, {}, writes);
  EXPECT_EQ(judgement.finding->where, "o[b=1,h=0,i=1,c=1]");
}

// Plan 0 is run as if it were the one that was made last.
TEST(PlanLaws, AnotherPlanThatReachesARunIsSeen) {
  const auto shares = [last = 0](const KernelCall& call, OracleOutput& oracle,
                                 CallOutcome&) mutable {
    if (call.plan_use == PlanUse::kMake) last = call.plan_slot;
    if (call.plan_slot != last) oracle.o[0] += 1;
  };
  fails("plans_are_separate", kLengths, {}, shares);
}

TEST(PlanLaws, QueriesOfTheRunBeforeAreSeen) {
  const auto queries_stay = [kept = std::vector<double>(),
                             at = std::vector<double>()](KernelCall& call,
                                                         Problem& p) mutable {
    if (call.plan_use == PlanUse::kMake)
      kept.assign(p.q, p.q + p.shape.q_elements());
    at = kept;
    p.q = at.data();
  };
  const Judgement judgement =
      fails("runs_of_a_plan_are_calls", "f32,B1,H1,Tq2,Tk5,d4", queries_stay);
  EXPECT_EQ(judgement.finding->looks,
            "other numbers at the same addresses are not seen");
}

TEST(PlanLaws, WhatAPlanTakesAndShouldRefuseIsSeen) {
  constexpr char kLaw[] = "plans_refuse_what_they_were_not_made_for";
  const auto accepts = [](auto wrong) {
    return
        [wrong](const KernelCall& call, OracleOutput&, CallOutcome& outcome) {
          if (outcome.status == CallStatus::kRefused && wrong(call))
            outcome.status = CallStatus::kDone;
        };
  };
  EXPECT_EQ(fails(kLaw, kLengths, {}, accepts([](const KernelCall& call) {
                    return call.scale.has_value();
                  }))
                .finding->where,
            "run() with another scale than plan()");
  EXPECT_EQ(fails(kLaw, kLengths, {}, accepts([](const KernelCall& call) {
                    return call.plan_use == PlanUse::kUpdate &&
                           call.shape.B == 3;
                  }))
                .finding->where,
            "update() with a member more than plan()");
  EXPECT_EQ(fails(kLaw, kLengths, {}, accepts([](const KernelCall& call) {
                    return call.mistake == Mistake::kLengthBeyond;
                  }))
                .finding->where,
            "update() with a length for which there are no rows");
  const auto writes = [](const KernelCall&, OracleOutput&,
                         CallOutcome& outcome) {
    if (outcome.status == CallStatus::kRefused)
      outcome.overwritten = TensorName::kLse;
  };
  EXPECT_EQ(fails(kLaw, kLengths, {}, writes).finding->actual,
            "refused, and outputs written");
}

// A kernel that is wrong with a new plan is the business of other laws.
TEST(PlanLaws, AWrongKernelIsNotBlamedForItsPlans) {
  for (const Law* law : laws_of_plans()) {
    FakeExecutor wrong(
        {}, [](const KernelCall&, OracleOutput& oracle, CallOutcome&) {
          if (!oracle.o.empty()) oracle.o[0] += 1;
        });
    const Verdict verdict = check(law->id, kLengths, wrong).verdict;
    EXPECT_EQ(verdict,
              std::string_view(law->id) == "rows_beyond_a_planned_batch_stay"
                  ? Verdict::kPassed
                  : Verdict::kGaveUp)
        << law->id;
  }
}

}  // namespace
}  // namespace qkvet::properties::plan_law_test
