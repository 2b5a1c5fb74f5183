// SPDX-License-Identifier: Apache-2.0
// Failures of kernels that keep state between calls, and similar failures:
// which of them earlier calls decide, and which the order of threads decides.
#include "diagnosis/where/earlier_calls.h"

#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "diagnosis/diagnose.h"
#include "diagnosis/evidence/nearby.h"
#include "diagnosis/test_faults.h"
#include "properties/testing/fake_executor.h"

namespace qkvet::diagnosis::earlier_calls_test {
namespace {

using Answer = FakeExecutor::Answer;

// Each executor is a process with a state of its own.
ExecutorFactory opening(const std::function<Answer()>& make) {
  return [make](size_t) {
    return Opened{std::make_unique<FakeExecutor>(nullptr, make()), ""};
  };
}

void spoil(OracleOutput& out) {
  for (double& o : out.o) o = 2 * o + 1;
}

// A graph is found by extents alone, and has the layout of its first call.
Answer graph_of_other_layout() {
  using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t>;
  auto graphs = std::make_shared<std::map<Key, Layout>>();
  return [graphs](const KernelCall& call, OracleOutput& out, CallOutcome&) {
    if (call.new_process) graphs->clear();
    const Shape& s = call.shape;
    const auto place =
        graphs->try_emplace({s.B, s.H, s.Tq, s.Tk, s.d}, call.layout).first;
    if (place->second != call.layout) spoil(out);
  };
}

// The widest call so far decides: a scratch that was not cleared.
Answer scratch_of_longer_call() {
  auto longest = std::make_shared<int64_t>(0);
  return [longest](const KernelCall& call, OracleOutput& out, CallOutcome&) {
    if (call.new_process) *longest = 0;
    if (call.shape.Tk < *longest) spoil(out);
    *longest = std::max(*longest, call.shape.Tk);
  };
}

Reported found_of(const std::function<Answer()>& make,
                  const std::vector<const char*>& laws) {
  return report_on(FakeExecutor::under_test(), opening(make), laws,
                   /*cases=*/600, Catalogue());
}

void expect_no_word_of_the_case(const Diagnosis& diagnosis) {
  EXPECT_EQ(diagnosis.where.text(), "");
  EXPECT_EQ(diagnosis.instead.text(), "");
  EXPECT_EQ(diagnosis.instead.stage_sentence(), "");
  EXPECT_EQ(diagnosis.hidden, "");
}

TEST(EarlierCalls, TheCallsThatDecideAreFoundAndReplayed) {
  for (const auto& make : {graph_of_other_layout, scratch_of_longer_call}) {
    const Reported found = found_of(make, {"agrees_with_oracle"});
    ASSERT_EQ(found.causes.size(), 1u);
    const CauseOfFailures& cause = found.causes[0];
    const Diagnosis& diagnosis = cause.diagnosis;
    EXPECT_EQ(diagnosis.name(), "earlier_call");
    EXPECT_EQ(diagnosis.earlier.part, EarlierCalls::Part::kTheseOnes);
    ASSERT_EQ(diagnosis.earlier.before.size(), 1u);
    EXPECT_NE(diagnosis.causes[0].cause.find("An earlier call decides"),
              std::string::npos);
    expect_no_word_of_the_case(diagnosis);
    // In a process that has made no call, with and without it.
    const KernelUnderTest kernel = FakeExecutor::under_test();
    const Opened executor = opening(make)(0);
    TimeUse time;
    Witness witness(kernel.judged, 0, *executor.executor, time, 100);
    const Failure& best = *cause.best;
    EXPECT_FALSE(witness.ask_after({}, *best.law, best.smallest)->failed());
    EXPECT_TRUE(
        witness.ask_after(diagnosis.earlier.before, *best.law, best.smallest)
            ->failed());
  }
}

// The two calls of the law have different layouts.
TEST(EarlierCalls, OneMayBeACallOfTheLawItself) {
  const Reported found =
      found_of(graph_of_other_layout, {"layout_changes_nothing"});
  ASSERT_EQ(found.causes.size(), 1u);
  EXPECT_EQ(found.causes[0].diagnosis.earlier.part, EarlierCalls::Part::kOfLaw);
  expect_no_word_of_the_case(found.causes[0].diagnosis);
}

// The first row is never written. A law that compares two calls holds if both
// begin with the same memory, and yet both are wrong.
TEST(EarlierCalls, CallsThatAreWrongByThemselvesDoNotDecide) {
  const auto unwritten = [] {
    auto left = std::make_shared<double>(1);
    return [left](const KernelCall& call, OracleOutput& out, CallOutcome&) {
      if (call.new_process) *left = 1;
      if (!out.o.empty()) out.o[0] = *left += 1;
    };
  };
  const Reported found = found_of(unwritten, {"permuted_keys_change_nothing"});
  ASSERT_FALSE(found.causes.empty());
  for (const CauseOfFailures& cause : found.causes)
    EXPECT_FALSE(cause.diagnosis.earlier.decide())
        << cause.diagnosis.earlier.text();
}

// Scratch keeps the numbers of a longer call. If numbers other than 0 are wrong
// in any process, the earlier call is not the only mistake.
TEST(EarlierCalls, AreNotSureOfAKernelThatIsWrongWithoutThem) {
  for (const bool is_wrong : {true, false}) {
    FakeExecutor executor(
        nullptr,
        [is_wrong, scratch = scratch_of_longer_call()](
            const KernelCall& call, OracleOutput& out, CallOutcome& outcome) {
          if (is_wrong)
            for (double& o : out.o) o *= 2;
          scratch(call, out, outcome);
        });
    Failure failure;
    failure.law = find_law("agrees_with_oracle");
    failure.smallest = failure.found =
        *parse_case("f32,B1,H1,Tq1,Tk2,d1,q=zero,k=zero,v=zero").value;
    failure.judgement.verdict = Verdict::kFailed;
    const KernelUnderTest kernel = FakeExecutor::under_test();
    TimeUse time;
    const auto causes =
        diagnose_all({&failure}, kernel, executor, Catalogue(), time);
    ASSERT_EQ(causes.size(), 1u);
    EXPECT_EQ(causes[0].diagnosis.name(), "earlier_call");
    EXPECT_EQ(causes[0].diagnosis.certainty,
              is_wrong ? Certainty::kLikely : Certainty::kSure);
    EXPECT_EQ(causes[0].diagnosis.where.text().empty(), !is_wrong);
  }
}

// A failure by a chance that no call decides: the report is only that the case
// passes alone.
TEST(EarlierCalls, WhereNoneIsFoundNoneIsSaidToDecide) {
  const Reported found = found_of(
      [] {
        return [](const KernelCall& call, OracleOutput& out, CallOutcome&) {
          if (!call.new_process && !call.same_place) spoil(out);
        };
      },
      {"agrees_with_oracle"});
  ASSERT_EQ(found.causes.size(), 1u);
  const Diagnosis& diagnosis = found.causes[0].diagnosis;
  EXPECT_FALSE(diagnosis.earlier.decide());
  EXPECT_TRUE(diagnosis.earlier.before.empty());
  EXPECT_EQ(diagnosis.name(), "unknown");
  EXPECT_EQ(
      diagnosis.hidden.rfind("The case alone passes, in a new process", 0), 0u)
      << diagnosis.hidden;
}

TEST(EarlierCalls, WhatFailsByItselfIsLeftAlone) {
  const auto always = [] {
    return [](const KernelCall& call, OracleOutput& out, CallOutcome&) {
      if (call.shape.Tk > 2) spoil(out);
    };
  };
  const Reported found =
      found_of(always, {"agrees_with_oracle", "permuted_keys_change_nothing"});
  ASSERT_EQ(found.causes.size(), 1u);
  EXPECT_FALSE(found.causes[0].diagnosis.earlier.decide());
  EXPECT_NE(found.causes[0].diagnosis.where.text(), "");
}

std::string hidden_of(const Answer& answer) {
  KernelUnderTest kernel = FakeExecutor::under_test();
  kernel.judged.info.orders_threads = true;
  FakeExecutor executor(nullptr, answer);
  TimeUse time;
  Witness witness(kernel.judged, 0, executor, time, 100);
  return hidden_among_neighbours(*find_law("agrees_with_oracle"),
                                 *parse_case("f32,B1,H1,Tq3,Tk5,d2").value,
                                 witness, /*has_sentence=*/true);
}

TEST(EarlierCalls, OnlyTheOrderOfThreadsIsARace) {
  const Answer racing = [](const KernelCall& call, OracleOutput& out,
                           CallOutcome&) {
    if (call.threads > 1) spoil(out);
  };
  EXPECT_NE(hidden_of(racing).find("order in which GPU threads run"),
            std::string::npos);
  const Answer dying = [](const KernelCall&, OracleOutput&,
                          CallOutcome& outcome) {
    outcome.status = CallStatus::kCrash;
    outcome.text = "SIGSEGV at address 0x10";
  };
  EXPECT_EQ(hidden_of(dying), "");
  int calls = 0;
  const Answer keeping = [&calls](const KernelCall& call, OracleOutput& out,
                                  CallOutcome&) {
    if (call.new_process) calls = 0;
    if (calls++ > 0) spoil(out);
  };
  EXPECT_EQ(hidden_of(keeping), "");
}

}  // namespace
}  // namespace qkvet::diagnosis::earlier_calls_test
