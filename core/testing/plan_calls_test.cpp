// SPDX-License-Identifier: Apache-2.0
// Plans through the door: testdata/scripted_plugin.cpp returns the lengths of
// its plan, which identify the plan that was run.
#include <gtest/gtest.h>

#include <deque>

#include "core/testing/bad_plugin_calls.h"
#include "core/testing/case_calls.h"
#include "qkvet/plan.h"

namespace qkvet::plan_calls_test {
namespace {

// Calls of one kernel, one after the other.
class PlanCalls {
 public:
  PlanCalls& add(PlanUse use, const std::string& text, int slot = 0) {
    KernelCall call = cases_.emplace_back(text).call;
    call.plan_use = use;
    call.plan_slot = slot;
    calls_.push_back(call);
    return *this;
  }
  std::vector<CallOutcome> run(Executor& executor, const std::string& kernel) {
    return executor.run(number_of(executor, kernel, "plans"), calls_);
  }

 private:
  std::deque<CaseCall> cases_;
  std::vector<KernelCall> calls_;
};

constexpr char kFull[] = "f32,B2,H1,Tq2,Tk9,d1,qlen=2.2,kvlen=9.9";
constexpr char kSmall[] = "f32,B2,H1,Tq2,Tk9,d1,qlen=1.0,kvlen=4.7";

// The first element of every member.
std::vector<float> firsts(const CallOutcome& outcome) {
  EXPECT_EQ(outcome.status, CallStatus::kDone) << outcome.text;
  const std::vector<float> all = floats(outcome.o);
  if (all.size() != 4) return {};
  return {all[0], all[2]};
}

class Plans : public BothWays {
 protected:
  const std::unique_ptr<Executor> executor_ = open("scripted");
};
INSTANTIATE_TEST_SUITE_P(Ways, Plans, testing::Bool(), way_name);

TEST_P(Plans, AKernelOfPlansAloneAnswersCalls) {
  const KernelInfo& info = executor_->kernels().at(
      static_cast<size_t>(number_of(*executor_, "right", "plans")));
  EXPECT_TRUE(info.has_plan && info.only_plans && info.has_forward);
  EXPECT_EQ(info.plan_options, QKVET_PLAN_UPDATE_INVARIANT);
  PlanCalls calls;
  calls.add(PlanUse::kNone, kFull).add(PlanUse::kNone, kSmall);
  const auto outcomes = calls.run(*executor_, "right");
  EXPECT_EQ(firsts(outcomes.at(0)), (std::vector<float>{9, 9}));
  EXPECT_EQ(firsts(outcomes.at(1)).at(0), 4);
  EXPECT_FALSE(outcomes[1].unwritten);
}

TEST_P(Plans, APlanStaysUntilTheNextInItsPlace) {
  PlanCalls calls;
  calls.add(PlanUse::kMake, kFull)
      .add(PlanUse::kMake, kSmall, 1)
      .add(PlanUse::kRun, kFull)
      .add(PlanUse::kRun, kSmall, 1)
      .add(PlanUse::kUpdate, kSmall)
      .add(PlanUse::kRun, kSmall)
      .add(PlanUse::kMake, kFull)
      .add(PlanUse::kRun, kFull, 1);
  const auto outcomes = calls.run(*executor_, "right");
  EXPECT_EQ(firsts(outcomes.at(0)), (std::vector<float>{9, 9}));
  EXPECT_EQ(firsts(outcomes.at(2)), (std::vector<float>{9, 9}));
  for (const size_t small : {size_t{1}, size_t{3}, size_t{4}, size_t{5}}) {
    EXPECT_EQ(firsts(outcomes.at(small)).at(0), 4) << small;
    EXPECT_FALSE(outcomes[small].overwritten) << small;
    EXPECT_FALSE(outcomes[small].unwritten) << small;
  }
  // Making number 0 has destroyed number 1.
  EXPECT_EQ(outcomes.at(7).status, CallStatus::kNotRun);
}

TEST_P(Plans, WritesBehindABatchAreSeen) {
  PlanCalls calls;
  calls.add(PlanUse::kMake, kFull).add(PlanUse::kUpdate, kSmall);
  const auto outcomes = calls.run(*executor_, "pads");
  EXPECT_FALSE(outcomes.at(0).overwritten);
  EXPECT_EQ(outcomes.at(1).overwritten, TensorName::kO);
  EXPECT_EQ(outcomes.at(1).overwritten_index, 1);
  PlanCalls late;
  late.add(PlanUse::kMake, kSmall);
  const CallOutcome refused = late.run(*executor_, "late").at(0);
  expect_outcome(refused, CallStatus::kRefused,
                 "run() returned INVALID_ARGUMENT: too late");
  EXPECT_EQ(refused.overwritten, TensorName::kO);
}

// The content of a plan's tables is gone when it is run.
TEST_P(Plans, AnAddressThatIsKeptHoldsNothing) {
  PlanCalls calls;
  calls.add(PlanUse::kMake, kFull);
  EXPECT_EQ(firsts(calls.run(*executor_, "keeps_address").at(0)),
            (std::vector<float>{-1, -1}));
}

TEST_P(Plans, WhatPlanSaysIsTheAnswer) {
  for (const PlanUse use : {PlanUse::kNone, PlanUse::kMake}) {
    PlanCalls calls;
    calls.add(use, kFull);
    EXPECT_EQ(calls.run(*executor_, "refuses").at(0).text,
              "plan() returned INVALID_ARGUMENT: not today");
    EXPECT_EQ(calls.run(*executor_, "nothing").at(0).text,
              "plan() returned OK and no plan");
  }
}

TEST(PlanCalls, ATableThatIsNotWholeIsRefused) {
  const Opened opened = open_in_process({plugin("scripted"), "no_run"});
  EXPECT_EQ(opened.executor, nullptr);
  EXPECT_NE(opened.error.find("its table of plans has no run()"),
            std::string::npos)
      << opened.error;
  // Another opener must still succeed.
  EXPECT_NE(in_process("scripted"), nullptr);
}

TEST(PlanCalls, OfAKernelWithoutPlansNothingIsAsked) {
  const auto executor = in_process("scripted");
  const BadInputs inputs;
  KernelCall call = inputs.call;
  call.plan_use = PlanUse::kMake;
  const CallOutcome outcome = run_call(*executor, "rows", call, "options");
  expect_outcome(outcome, CallStatus::kUnsupported, "no plan is declared");
  EXPECT_FALSE(outcome.asked_kernel);
}

}  // namespace
}  // namespace qkvet::plan_calls_test
