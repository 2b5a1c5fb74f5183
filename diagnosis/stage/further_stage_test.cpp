// SPDX-License-Identifier: Apache-2.0
// Stages that other probes leave open: made-up kernels and caches, each with a
// similar one that must get no stage.
#include "diagnosis/stage/further_stage.h"

#include <gtest/gtest.h>

#include <cmath>

#include "diagnosis/fake_faults.h"
#include "diagnosis/test_faults.h"
#include "properties/testing/fake_tables.h"

namespace qkvet::diagnosis::further_stage_test {
namespace {

using instead_test::each_o;

Stage stage_of(const FakeExecutor::Question& question,
               const FakeExecutor::Answer& answer) {
  const KernelUnderTest kernel = FakeExecutor::under_test();
  const std::vector<Failure> failures =
      instead_test::failures_of("agrees_with_oracle", question, answer);
  if (failures.empty()) return Stage::kUnknown;
  FakeExecutor executor(question, answer);
  TimeUse time;
  int calls = 0;
  const Stage stage = look_further_for_stage(failures[0], {}, {},
                                             {kernel, executor, time}, &calls);
  EXPECT_LE(calls, kMostStageCalls);
  return stage;
}

// Adds something to the result of V = 0; twice that result is still 0.
TEST(FurtherStage, WhatNoValuesMakeIsOfTheProductWithV) {
  EXPECT_EQ(stage_of({}, each_o([](double o) { return o + 0.5; })),
            Stage::kValues);
  EXPECT_EQ(stage_of({}, each_o([](double o) { return 2 * o; })),
            Stage::kUnknown);
}

// Every element of a head moves to the next row, and with `channels` also to
// the next channel: a query that is read elsewhere keeps the channel.
FakeExecutor::Answer moved(int64_t channels) {
  return [channels](const KernelCall& call, OracleOutput& out, CallOutcome&) {
    const Shape& s = call.shape;
    const std::vector<double> right = out.o;
    for (int64_t n = 0; n < s.o_elements(); ++n) {
      const int64_t c = n % s.dv, i = n / s.dv % s.Tq, head = n / s.dv / s.Tq;
      out.o[static_cast<size_t>(n)] = right[static_cast<size_t>(
          (head * s.Tq + (i + 1) % s.Tq) * s.dv + (c + channels) % s.dv)];
    }
  };
}

TEST(FurtherStage, AnotherRowAndChannelAreOfTheOutput) {
  EXPECT_EQ(stage_of({}, moved(1)), Stage::kOutput);
  EXPECT_EQ(stage_of({}, moved(0)), Stage::kUnknown);
}

// Right with a sink; the same where any option helps.
TEST(FurtherStage, WhatASinkMendsIsTheSoftmax) {
  for (const bool is_of_sinks : {true, false})
    EXPECT_EQ(stage_of({},
                       [is_of_sinks](const KernelCall& call, OracleOutput& out,
                                     CallOutcome&) {
                         if (call.sink != nullptr ||
                             (!is_of_sinks && call.bias != nullptr))
                           return;
                         for (double& o : out.o) o = std::nan("");
                         for (double& lse : out.lse) lse = std::nan("");
                       }),
              is_of_sinks ? Stage::kSoftmax : Stage::kUnknown);
}

// Mistakes at scores of hundreds only: NaN, or rows of other weights with sum
// 1.
TEST(FurtherStage, WhatOverflowsIsTheSoftmax) {
  constexpr double kMost = 60;
  const auto overflows = [](const KernelCall&, OracleOutput& out,
                            CallOutcome&) {
    const auto rows = out.lse.size();
    for (size_t n = 0; n < out.o.size(); ++n)
      if (std::fabs(out.lse[n / (out.o.size() / rows)]) > kMost)
        out.o[n] = std::nan("");
  };
  const auto halves_large_queries = [](KernelCall&, Problem& p) {
    constexpr double kLarge = 16;
    for (int64_t n = 0; n < p.shape.q_elements(); ++n)
      if (std::fabs(p.q[n]) > kLarge) {
        p.scale /= 2;
        return;
      }
  };
  EXPECT_EQ(stage_of({}, overflows), Stage::kSoftmax);
  EXPECT_EQ(stage_of(halves_large_queries, {}), Stage::kUnknown);
}

// Wrongly capped scores, and a mistake in lse alone.
TEST(FurtherStage, WhatLseComesOfIsTheStageOfAWrongOBesideIt) {
  Failure failure;
  failure.law = find_law("agrees_with_oracle");
  const KernelUnderTest kernel = FakeExecutor::under_test();
  FakeExecutor executor;
  TimeUse time;
  for (const Stage of_lse : {Stage::kScores, Stage::kLse}) {
    Instead instead;
    instead.outputs.resize(2);
    instead.outputs[1].output = TensorName::kLse;
    instead.outputs[1].text = "the result of capped scores times 1.01";
    instead.outputs[1].stage = of_lse;
    int calls = 0;
    EXPECT_EQ(look_further_for_stage(failure, {}, instead,
                                     {kernel, executor, time}, &calls),
              of_lse == Stage::kScores ? Stage::kScores : Stage::kUnknown);
  }
}

// A cache that ends in a command that appends tokens: after a fork; as soon as
// a sequence has more than a few; the same, but only with queries; or whenever
// tokens are read, by queries or by read_back().
enum class DiesOf : uint8_t { kForks, kTokens, kQueries, kReading };

class DyingTables : public Executor {
 public:
  explicit DyingTables(DiesOf of) : tables_(Spoil()), of_(of) {}

  const std::vector<KernelInfo>& kernels() const override {
    return tables_.kernels();
  }
  std::vector<CallOutcome> run(int kernel,
                               std::span<const KernelCall> calls) override {
    std::vector<CallOutcome> outcomes = tables_.run(kernel, calls);
    bool has_forked = false, is_dead = false;
    for (size_t n = 0; n < calls.size(); ++n) {
      if (calls[n].operation == Operation::kCacheCreate)
        has_forked = is_dead = false;
      if (is_dead) {
        outcomes[n] = {};
        outcomes[n].status = CallStatus::kNotRun;
        continue;
      }
      const bool is_step = calls[n].operation == Operation::kCacheStep;
      if ((is_step && dies(calls[n], outcomes[n], has_forked)) ||
          (of_ == DiesOf::kReading &&
           calls[n].operation == Operation::kCacheReadBack)) {
        outcomes[n] = {};
        outcomes[n].status = CallStatus::kCrash;
        is_dead = true;
      }
      has_forked |= calls[n].operation == Operation::kCacheFork;
    }
    return outcomes;
  }

 private:
  bool dies(const KernelCall& call, const CallOutcome& outcome,
            bool has_forked) const {
    constexpr int64_t kFew = 3;
    if (of_ == DiesOf::kForks) return has_forked;
    if (of_ == DiesOf::kReading) return call.shape.Tq > 0;
    if (of_ == DiesOf::kQueries && call.shape.Tq == 0) return false;
    return std::any_of(outcome.lengths.begin(), outcome.lengths.end(),
                       [](int64_t one) { return one > kFew; });
  }

  FakeTables tables_;
  DiesOf of_;
};

TEST(FurtherStage, WhatEndsAStoryIsItsStage) {
  const struct {
    DiesOf of;
    Stage stage;
  } rows[] = {{DiesOf::kForks, Stage::kMoved},
              {DiesOf::kTokens, Stage::kWritten},
              {DiesOf::kReading, Stage::kWritten},
              {DiesOf::kQueries, Stage::kUnknown}};
  for (const auto& row : rows) {
    const KernelUnderTest kernel = FakeTables::under_test();
    const std::vector<Failure> failures =
        failures_for_test(kernel, opening<DyingTables>(row.of),
                          {find_law("cache_agrees_with_history")}, 4000);
    ASSERT_FALSE(failures.empty());
    DyingTables executor(row.of);
    TimeUse time;
    int calls = 0;
    EXPECT_STREQ(stage_name(look_further_for_stage(
                     failures[0], {}, {}, {kernel, executor, time}, &calls)),
                 stage_name(row.stage))
        << to_string(failures[0].smallest);
  }
}

}  // namespace
}  // namespace qkvet::diagnosis::further_stage_test
