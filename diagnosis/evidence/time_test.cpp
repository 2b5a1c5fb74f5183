// SPDX-License-Identifier: Apache-2.0
// The time limits of a diagnosis count the kernel's own time and not the
// machine's; and reports on kernels that do not fail every time.
#include <gtest/gtest.h>

#include "diagnosis/evidence/evidence.h"
#include "diagnosis/test_faults.h"
#include "properties/testing/fake_executor.h"

namespace qkvet::diagnosis::time_test {
namespace {

// The oracle with another scale, or with twice the values if there are eight
// keys, and the time of a call.
class TakesTime : public FakeExecutor {
 public:
  TakesTime(double cpu, double clock, TimeUse* time, bool in_long = false)
      : FakeExecutor(
            [this, cpu, clock, time, in_long](KernelCall&, Problem& p) {
              if (!in_long) p.scale *= 2;
              if (in_long && p.shape.Tk >= 8) double_values(p);
              ++calls;
              cpu_ += cpu;
              if (time != nullptr) time->kernel += clock;
            }) {}
  double cpu_seconds() const override { return cpu_; }
  int calls = 0;

 private:
  void double_values(Problem& p) {
    const Shape& s = p.shape;
    values_.assign(p.v, p.v + s.B * s.Hkv * s.Tk * s.dv);
    for (double& value : values_) value *= 2;
    p.v = values_.data();
  }

  double cpu_ = 0;
  std::vector<double> values_;
};

// If the calls of a kernel take long, every part makes a few of them and
// reports that it stopped: one second of CPU time per call, or ten seconds on
// the clock for a kernel that sleeps. Load on the machine changes nothing:
// instant calls and calls of a twentieth of a second on the clock get the same
// treatment.
TEST(Time, WhatTakesTooLongIsAskedNoFurther) {
  struct {
    double cpu, clock;
    bool is_too_slow;
  } const rows[] = {
      {0, 0, false}, {0, 0.05, false}, {1, 0, true}, {0, 10, true}};
  const KernelUnderTest kernel = FakeExecutor::under_test();
  const std::vector<Failure> failures =
      failures_for_test(kernel, opening<TakesTime>(0, 0, nullptr),
                        {find_law("agrees_with_oracle")}, 3000);
  ASSERT_FALSE(failures.empty());
  int all_calls = 0;
  for (const auto& row : rows) {
    SCOPED_TRACE(testing::Message() << row.cpu << " " << row.clock);
    TimeUse time;
    TakesTime executor(row.cpu, row.clock, &time);
    const Diagnosis diagnosis =
        diagnose(failures[0], kernel, executor, known_faults_for_test(), time);
    EXPECT_EQ(diagnosis.left_out.empty(), !row.is_too_slow);
    EXPECT_EQ(diagnosis.instead.left_out == "calls take too long",
              row.is_too_slow);
    if (all_calls == 0) all_calls = executor.calls;
    EXPECT_EQ(executor.calls == all_calls, !row.is_too_slow);
    EXPECT_EQ(executor.calls < 60, row.is_too_slow) << executor.calls;
    // Under a limit by the clock alone this would be a slow one.
    if (row.clock == 0.05) {
      EXPECT_GT(row.clock * executor.calls, 2 * kMostSecondsOfPart);
    }
  }
}

// Most of the time is reserved for fresh cases: even if slow calls use it up
// early, there is some left to check the sentence. Thirty cases alone give no
// sentence. The few calls that another scale leaves right may not be met so
// soon.
TEST(Time, TimeIsKeptForFreshCases) {
  for (const double seconds : {0.022, 0.1}) {
    const KernelUnderTest kernel = FakeExecutor::under_test();
    const auto open = opening<TakesTime>(0, 0, nullptr, /*in_long=*/true);
    const std::vector<Failure> failures =
        failures_for_test(kernel, open, {find_law("agrees_with_oracle")}, 3000);
    ASSERT_FALSE(failures.empty());
    TimeUse time;
    TakesTime executor(seconds, 0, &time, /*in_long=*/true);
    const FailsWhere where =
        look_where_it_fails(failures[0], {kernel, executor, time});
    EXPECT_EQ(where.is_known(), seconds < 0.1) << where.text();
    EXPECT_EQ(where.fresh.all >= 100, seconds < 0.1) << where.text();
    EXPECT_LE(seconds * (executor.calls - 1), 1.5 * kMostSecondsOfPart);
  }
}

// A kernel that fails nearly every time gets a sentence, if one is true of it;
// one that passes every other call gets none. A replayed case was not repeated.
TEST(Time, WhatFailsNearlyEveryTimeHasASentence) {
  const struct {
    int passes, repeats, failed;  // period of passing calls; repeats of the
                                  // found case
  } rows[] = {{53, 10, 9}, {2, 10, 5}, {53, 0, 0}};
  for (const auto& row : rows) {
    const int passes = row.passes;
    const KernelUnderTest kernel = FakeExecutor::under_test();
    const auto calls = std::make_shared<int>(0);
    const FakeExecutor::Question question = [calls, passes](KernelCall&,
                                                            Problem& p) {
      if (++*calls % passes != 0) p.scale *= 2;
    };
    FakeExecutor executor(question);
    std::vector<Failure> failures =
        failures_for_test(kernel, opening<FakeExecutor>(question),
                          {find_law("agrees_with_oracle")}, 300);
    ASSERT_FALSE(failures.empty());
    failures[0].repeats = row.repeats;
    failures[0].repeats_failed = row.failed;
    TimeUse time;
    const Diagnosis diagnosis =
        diagnose(failures[0], kernel, executor, known_faults_for_test(), time);
    EXPECT_EQ(diagnosis.where.is_known(), passes > 2) << diagnosis.where.text();
    if (row.repeats > 0) {
      EXPECT_EQ(diagnosis.certainty, Certainty::kUnknown);
    }
  }
}

}  // namespace
}  // namespace qkvet::diagnosis::time_test
