// SPDX-License-Identifier: Apache-2.0
// Data that is made once for a case, for all its users.
#include "properties/checking/case_work.h"

#include <gtest/gtest.h>

#include "properties/testing/fake_executor.h"
#include "properties/testing/fake_gradients.h"
#include "properties/testing/fake_layer_gradients.h"
#include "reference/seeded/seeded.h"
#include "reference/seeded/seeded_gradient.h"
#include "reference/seeded/seeded_layer.h"

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
  law.own_plan = counted_plan;
  law.own_judge = lse_as_planned;
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

// Two calls; the first is not supported.
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

// A reference with one mistake, compared with its twin.
References strict_diagonal() {
  return References([](const Problem& problem) {
    return seeded_forward(SeededFault::kPlainStrictDiagonal, problem);
  });
}
References no_delta() {
  References wrong;
  wrong.backward = [](const GradientProblem& problem) {
    return seeded_backward(SeededGradientFault::kPlainDeltaMissing, problem);
  };
  return wrong;
}
References no_layer_bias() {
  References wrong;
  wrong.layer = [](const LayerProblem& problem) {
    return seeded_layer(SeededLayerFault::kPlainBiasIgnored, problem);
  };
  return wrong;
}

template <class Fake>
Judgement judged_by(const char* law, const char* text,
                    const References& references, bool with_twin) {
  const ParsedCase parsed = parse_case(text);
  EXPECT_TRUE(parsed.value) << parsed.error;
  const JudgedKernel kernel = Fake::under_test().judged;
  TimeUse time;
  CaseWork work(*find_law(law), *parsed.value, with_twin, time, references);
  EXPECT_FALSE(work.settled(kernel));
  return work.judge(kernel, Fake().run(0, work.calls_for(kernel)));
}

template <class Fake>
void expect_doubt(const char* law, const char* text, const References& wrong) {
  SCOPED_TRACE(text);
  const Judgement right = judged_by<Fake>(law, text, References(), true);
  EXPECT_EQ(right.verdict, Verdict::kPassed) << right.reason;
  EXPECT_GT(right.compared, 0);
  const Judgement doubted = judged_by<Fake>(law, text, wrong, true);
  EXPECT_EQ(doubted.verdict, Verdict::kGaveUp);
  EXPECT_TRUE(doubted.reason.starts_with("oracle and twin are "))
      << doubted.reason;
  const Judgement alone = judged_by<Fake>(law, text, wrong, false);
  EXPECT_EQ(alone.reason.find("oracle and twin"), std::string::npos)
      << alone.reason;
}

// In f64 the twin is the truth, and the definition is compared with it.
TEST(CaseWork, AReferenceThatItsTwinContradictsJudgesNothing) {
  for (const char* text : {"f32,B1,H1,Tq3,Tk3,d2,causal=tl,seed=1",
                           "f64,B1,H1,Tq3,Tk3,d2,causal=tl,seed=1"}) {
    const bool f64 = text[1] == '6';
    if (!f64)
      expect_doubt<FakeExecutor>("agrees_with_oracle", text, strict_diagonal());
    expect_doubt<FakeGradients>("backward_agrees_with_oracle",
                                (std::string(text) + ",backward").c_str(),
                                no_delta());
  }
  expect_doubt<FakeLayerGradients>(
      "layer_backward_agrees_with_oracle",
      "f32,B2,H2,T3,D8,biases=qkvo,backward,seed=3", no_layer_bias());
}

}  // namespace
}  // namespace qkvet::properties::case_work_test
