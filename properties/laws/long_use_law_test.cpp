// SPDX-License-Identifier: Apache-2.0
// Laws about thousands of equal calls and about calls that may be refused, on
// kernels that are functions.
#include <gtest/gtest.h>

#include <algorithm>

#include "properties/testing/fake_check.h"

namespace qkvet::properties::long_use_law_test {
namespace {

constexpr char kLongUse[] = "long_use_changes_nothing";
constexpr char kForm[] = "refusals_depend_on_form";
constexpr char kCase[] = "f32,B1,H2,Tq3,Tk5,d2,causal=br";

Judgement long_use(const std::function<void(RepeatedCall&)>& wears) {
  return fails(
      kLongUse, kCase, {},
      [&](const KernelCall& call, OracleOutput&, CallOutcome& outcome) {
        if (call.repeats == 0) return;
        outcome.repeated.made = call.repeats;
        wears(outcome.repeated);
      });
}

TEST(LongUse, MakesTheCaseInANewProcessAndThenThousandsOfTimes) {
  const ParsedCase parsed = parse_case(kCase);
  const Plan plan =
      find_law(kLongUse)->plan(*parsed.value, FakeExecutor::info());
  ASSERT_EQ(plan.calls.size(), 2);
  EXPECT_TRUE(plan.calls[0].new_process);
  EXPECT_EQ(plan.calls[0].repeats, 0);
  EXPECT_GT(plan.calls[1].repeats, 1001);
}

TEST(LongUse, TheFirstAnswerWithOtherBitsIsNamed) {
  const Judgement judgement = fails(
      kLongUse, kCase, {},
      [](const KernelCall& call, OracleOutput& oracle, CallOutcome& outcome) {
        if (call.repeats == 0) return;
        oracle.o[1] += 0.5;
        outcome.repeated.made = outcome.repeated.first_other = 1000;
      });
  EXPECT_EQ(judgement.finding->where, "equal call 1001, o, element 1");
  EXPECT_EQ(judgement.finding->planned, 1);
}

// A row that sees no key may hold anything, if the dialect allows it.
TEST(LongUse, RowsThatMayHoldAnythingMayChange) {
  const auto other_bits = [](const KernelCall& call, OracleOutput& oracle,
                             CallOutcome& outcome) {
    if (call.repeats == 0) return;
    oracle.lse[0] = 0.5;
    outcome.repeated.made = outcome.repeated.first_other = 1000;
  };
  JudgedKernel kernel = FakeExecutor::under_test().judged;
  const char* const text = "f32,B1,H1,Tq1,Tk1,d1,kvlen=0";
  FakeExecutor declared({}, other_bits);
  EXPECT_EQ(check(kLongUse, text, declared, kernel).verdict, Verdict::kFailed);
  kernel.info.dialect.empty_row_lse = QKVET_EMPTY_LSE_UNSPECIFIED;
  FakeExecutor unspecified({}, other_bits);
  EXPECT_EQ(check(kLongUse, text, unspecified, kernel).verdict,
            Verdict::kPassed);
}

TEST(LongUse, WhatIsLeftBehindIsNamed) {
  EXPECT_EQ(long_use([](RepeatedCall& repeated) {
              repeated.bytes = 64000;
              repeated.grown_in = 1000;
            }).finding->actual,
            "64000 bytes of memory more in the last 1000 calls");
  EXPECT_EQ(long_use([](RepeatedCall& repeated) {
              repeated.descriptors = 100;
              repeated.bytes = 64000;
              repeated.grown_in = 200;
            }).finding->actual,
            "100 open descriptors more in the last 200 calls");
  EXPECT_EQ(long_use([](RepeatedCall& repeated) {
              repeated.threads = 100;
              repeated.descriptors = 100;
              repeated.grown_in = 200;
            }).finding->actual,
            "100 threads more in the last 200 calls");
}

// Each part of the calls is within its bound.
TEST(LongUse, NondeterministicKernelsAreHeldAgainstTheirBound) {
  JudgedKernel kernel = FakeExecutor::under_test().judged;
  kernel.info.capabilities.flags |= QKVET_FLAG_NONDETERMINISTIC;
  int made = 0;
  const Judgement judgement = fails_as<FakeExecutor>(
      kernel, kLongUse, kCase, {},
      [&made](const KernelCall& call, OracleOutput& oracle,
              CallOutcome& outcome) {
        outcome.repeated.made = call.repeats;
        if (call.repeats > 0 && ++made == 3) oracle.o[0] += 1;
      });
  EXPECT_NE(judgement.finding->where.find("equal call 1501"), std::string::npos)
      << judgement.finding->where;
}

TEST(LongUse, IsSilentWhereTheFirstCallIsWrong) {
  FakeExecutor wrong({}, [](const KernelCall&, OracleOutput& oracle,
                            CallOutcome&) { oracle.o[0] += 1; });
  EXPECT_EQ(
      check(kLongUse, kCase, wrong, FakeExecutor::under_test().judged).verdict,
      Verdict::kGaveUp);
}

void refuse(CallOutcome& outcome) {
  outcome.status = CallStatus::kUnsupported;
  outcome.asked_kernel = true;
  outcome.text = "unsupported data";
}

bool has_number(const KernelCall& call) {
  const auto q =
      stored_as_doubles(call.q, call.shape.q_elements(), call.q_dtype);
  return std::any_of(q.begin(), q.end(), [](double x) { return x != 0; });
}

// Whatever the values of the case are.
TEST(RefusalsDependOnForm, SeesThatValuesDecide) {
  for (const char* const data : {"", ",q=zero,k=zero,v=one", ",q=large3"}) {
    const Judgement judgement =
        fails(kForm, std::string("f32,B1,H1,Tq2,Tk3,d2") + data, {},
              [](const KernelCall& call, OracleOutput&, CallOutcome& outcome) {
                if (has_number(call)) refuse(outcome);
              });
    EXPECT_NE(judgement.finding->actual.find("unsupported data"),
              std::string::npos);
  }
}

TEST(RefusalsDependOnForm, AcceptsThatAFormIsRefused) {
  FakeExecutor refuses({}, [](const KernelCall&, OracleOutput&,
                              CallOutcome& outcome) { refuse(outcome); });
  const Judgement judgement =
      check(kForm, kCase, refuses, FakeExecutor::under_test().judged);
  EXPECT_EQ(judgement.verdict, Verdict::kUnsupported);
  EXPECT_EQ(judgement.about, About::kKernel);
  EXPECT_EQ(judgement.reason, "unsupported data");
}

}  // namespace
}  // namespace qkvet::properties::long_use_law_test
