// SPDX-License-Identifier: Apache-2.0
// What is made once for a case, whoever asks for it.
#include "properties/checking/case_work.h"

#include <gtest/gtest.h>

#include "properties/testing/fake_executor.h"

namespace qkvet::properties::case_work_test {
namespace {

int plans_made = 0;
int fits_made = 0;

Case counted_fit(Case value) {
  ++fits_made;
  return value;
}

Plan counted_plan(const Case&, const KernelInfo& kernel) {
  ++plans_made;
  Plan plan;
  PlannedCall call;
  call.want_lse = wants_lse(kernel);
  plan.calls.push_back(call);
  return plan;
}

Judgement lse_as_planned(const JudgeInput& input) {
  Judgement judgement;
  const CallView& call = input.calls[0];
  EXPECT_EQ(call.planned->want_lse, wants_lse(input.kernel));
  EXPECT_EQ(call.outcome->lse.empty(), !call.planned->want_lse);
  judgement.compared = 1;
  return judgement;
}

TEST(CaseWork, FitsOnceAndPlansOncePerKernel) {
  Law law = *find_law("agrees_with_oracle");
  law.constrain = counted_fit;
  law.plan = counted_plan;
  law.judge = lse_as_planned;
  law.domain.votes = false;
  JudgedKernel kernels[] = {FakeExecutor::under_test().judged,
                            FakeExecutor::under_test().judged};
  kernels[1].info.capabilities.options &= ~uint64_t{QKVET_OPTION_LSE};
  TimeUse time;
  CaseWork work(law, *parse_case("f32,B1,H1,Tq2,Tk3,d2").value,
                /*with_twin=*/false, time);
  FakeExecutor executor;
  plans_made = fits_made = 0;
  int judged = 0;
  for (const JudgedKernel& kernel : kernels) {
    ASSERT_FALSE(work.settled(kernel));
    const std::vector<KernelCall> calls = work.calls_for(kernel);
    const std::vector<CallOutcome> outcomes = executor.run(0, calls);
    EXPECT_EQ(work.judge(kernel, outcomes).verdict, Verdict::kPassed);
    EXPECT_EQ(plans_made, ++judged);
    EXPECT_EQ(fits_made, 1);
  }
}

// Two calls, of which the first is not supported.
TEST(CaseWork, AKernelThatDiesHasFailedWhateverItRefusedBefore) {
  const JudgedKernel kernel = FakeExecutor::under_test().judged;
  TimeUse time;
  CaseWork work(*find_law("prefill_equals_decode"),
                *parse_case("f32,B1,H1,Tq2,Tk3,d2,causal=tl").value,
                /*with_twin=*/false, time);
  ASSERT_FALSE(work.settled(kernel));
  const std::vector<KernelCall> calls = work.calls_for(kernel);
  ASSERT_GT(calls.size(), 1u);
  std::vector<CallOutcome> outcomes = FakeExecutor().run(0, calls);
  outcomes[0].status = CallStatus::kUnsupported;
  EXPECT_EQ(work.judge(kernel, outcomes).verdict, Verdict::kUnsupported);
  for (const auto& [status, kind] :
       {std::pair{CallStatus::kCrash, FailureKind::kCrash},
        {CallStatus::kHang, FailureKind::kHang}}) {
    outcomes[1].status = status;
    EXPECT_EQ(work.judge(kernel, outcomes).verdict, Verdict::kFailed);
    EXPECT_EQ(work.judge(kernel, outcomes).kind, kind);
  }
}

}  // namespace
}  // namespace qkvet::properties::case_work_test
