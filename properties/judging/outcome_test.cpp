// SPDX-License-Identifier: Apache-2.0
// The verdict from an outcome alone: an expected refusal counts only if the
// kernel was asked.
#include "properties/judging/outcome.h"

#include <gtest/gtest.h>

#include "properties/testing/fake_check.h"
#include "properties/testing/fake_tables.h"

namespace qkvet::properties::outcome_test {
namespace {

constexpr const char* kLaw = "mismatched_widths_are_refused";
constexpr const char* kLayer = "f32,B2,H2,T3,D4,w=scaled1";

CallOutcome says_no(CallStatus status, bool asked, bool reason) {
  CallOutcome outcome;
  outcome.status = status;
  outcome.text = "biases are not declared";
  outcome.asked_kernel = asked;
  outcome.gave_reason = reason;
  return outcome;
}

PlannedCall layer(bool expects_refusal) {
  PlannedCall planned;
  planned.operation = Operation::kLayer;
  planned.expects_refusal = expects_refusal;
  return planned;
}

TEST(Outcome, AnUnaskedKernelHasRefusedNothing) {
  const auto judgement =
      judge_outcome(layer(/*expects_refusal=*/true),
                    says_no(CallStatus::kUnsupported, false, false));
  ASSERT_TRUE(judgement);
  EXPECT_EQ(judgement->verdict, Verdict::kUnsupported);
  EXPECT_EQ(judgement->reason, "biases are not declared");
  EXPECT_EQ(judgement->compared, 0);
}

// If the kernel itself refused, with or without a reason, the law judges.
TEST(Outcome, ARefusalOfTheKernelIsForTheLawToJudge) {
  for (const bool reason : {false, true}) {
    EXPECT_FALSE(judge_outcome(layer(true),
                               says_no(CallStatus::kUnsupported, true, reason)))
        << reason;
    EXPECT_FALSE(
        judge_outcome(layer(true), says_no(CallStatus::kRefused, true, reason)))
        << reason;
  }
}

TEST(Outcome, ALegalCallMayBeUnsupportedAndNotRefused) {
  for (const bool asked : {false, true}) {
    const auto unsupported = judge_outcome(
        layer(false), says_no(CallStatus::kUnsupported, asked, asked));
    ASSERT_TRUE(unsupported);
    EXPECT_EQ(unsupported->verdict, Verdict::kUnsupported);
  }
  const auto refused =
      judge_outcome(layer(false), says_no(CallStatus::kRefused, true, true));
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->verdict, Verdict::kFailed);
}

// A layer that gives every call the same outcome.
class SaysNo : public Executor {
 public:
  explicit SaysNo(CallOutcome outcome) : outcome_(std::move(outcome)) {}
  const std::vector<KernelInfo>& kernels() const override {
    return infos_.kernels();
  }
  std::vector<CallOutcome> run(int,
                               std::span<const KernelCall> calls) override {
    return {calls.size(), outcome_};
  }

 private:
  FakeTables infos_;
  CallOutcome outcome_;
};

Judgement judged(CallOutcome outcome) {
  SaysNo executor(std::move(outcome));
  const Law& law = *find_law(kLaw);
  TimeUse time;
  return check_case(law, law.constrain(*parse_case(kLayer).value),
                    FakeTables::under_test().judged, 0, executor,
                    /*with_twin=*/false, time);
}

TEST(Outcome, ALawAboutRefusalsDoesNotPassWhatWasNeverAsked) {
  const Judgement unasked =
      judged(says_no(CallStatus::kUnsupported, false, false));
  EXPECT_EQ(unasked.verdict, Verdict::kUnsupported) << finding_of(unasked);
  // The controls: with a reason it holds, without one it fails.
  const Judgement refused = judged(says_no(CallStatus::kRefused, true, true));
  EXPECT_EQ(refused.verdict, Verdict::kPassed) << finding_of(refused);
  EXPECT_GT(refused.compared, 0);
  for (const CallStatus status :
       {CallStatus::kRefused, CallStatus::kUnsupported}) {
    const Judgement silent = judged(says_no(status, true, false));
    EXPECT_EQ(silent.verdict, Verdict::kFailed);
  }
}

}  // namespace
}  // namespace qkvet::properties::outcome_test
