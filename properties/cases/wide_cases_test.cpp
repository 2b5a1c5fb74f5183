// SPDX-License-Identifier: Apache-2.0
// Extents of many bits get cases in every plan, and get them early.
#include "properties/cases/wide_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "core/base/at_night.h"
#include "properties/cases/data_cases.h"
#include "properties/run/runner.h"
#include "properties/testing/fake_executor.h"

namespace qkvet::properties::wide_cases_test {
namespace {

Scope scope_of(const KernelUnderTest& kernel) {
  Scope scope;
  keep_scope_to({kernel}, scope);
  return scope;
}

PairPlan plan_of(const KernelUnderTest& kernel, const Scope& scope,
                 uint64_t seed) {
  return {{find_law("agrees_with_oracle")},
          seed,
          scope,
          {&kernel.judged.info},
          {},
          1000,
          int64_t{1} << 30};
}

std::vector<PairCase> all_of(const WideCases& turns) {
  std::vector<PairCase> all;
  for (const std::vector<PairCase>& turn : turns)
    all.insert(all.end(), turn.begin(), turn.end());
  return all;
}

TEST(WideCases, BringAboutEveryWidth) {
  const KernelUnderTest kernel = FakeExecutor::under_test();
  const Scope scope = scope_of(kernel);
  for (const uint64_t seed : {1, 2, 3}) {
    std::map<std::string, int64_t> beyond;
    const std::vector<PairCase> cases =
        all_of(wide_cases(plan_of(kernel, scope, seed)));
    for (const PairCase& one : cases) {
      const Shape& s = one.value.shape;
      EXPECT_TRUE(one.kernels[0]);
      for (const int64_t bits : {8, 12, 15, 16}) {
        const int64_t most = int64_t{1} << bits;
        const std::string name = std::to_string(bits);
        beyond["keys " + name] += s.Tk > most;
        beyond["rows " + name] += s.Tq > most;
        beyond["members " + name] += s.B > most;
        beyond["heads " + name] += s.Hkv > most;
      }
    }
    for (const auto& [name, count] : beyond) EXPECT_GE(count, 1) << name;
  }
}

// Numbers that count keys are as wide as these, and each key counts.
TEST(WideCases, BringAboutWideNumbersOfOptions) {
  const KernelUnderTest kernel = FakeExecutor::under_test();
  const Scope scope = scope_of(kernel);
  for (const uint64_t seed : {1, 2, 3}) {
    const WideCases turns = wide_cases(plan_of(kernel, scope, seed));
    int64_t lengths = 0, window = 0, pages = 0;
    for (const PairCase& one : turns[0]) {
      const Case& value = one.value;
      for (const int64_t keys : value.kv_len) lengths = std::max(lengths, keys);
      if (value.window) window = std::max(window, value.window->left);
      if (value.paging.size == 1) pages = std::max(pages, value.shape.Tk);
    }
    EXPECT_GT(lengths, 256);
    EXPECT_GE(window, 256);
    EXPECT_GT(pages, 256);
    for (const PairCase& one : turns[1]) {
      for (const int64_t keys : one.value.kv_len)
        lengths = std::max(lengths, keys);
      if (one.value.window) window = std::max(window, one.value.window->left);
    }
    EXPECT_GT(lengths, int64_t{1} << 16);
    EXPECT_GE(window, int64_t{1} << 16);
  }
  // The control: a kernel that does not declare them gets none.
  KernelUnderTest bare = kernel;
  bare.judged.info.capabilities.options &=
      ~(QKVET_OPTION_LENGTHS | QKVET_OPTION_WINDOW | QKVET_OPTION_PAGED);
  const Scope without = scope_of(bare);
  for (const std::vector<PairCase>& turn :
       wide_cases(plan_of(bare, without, 1)))
    for (const PairCase& one : turn) {
      EXPECT_TRUE(one.value.kv_len.empty());
      EXPECT_FALSE(one.value.window.has_value());
    }
}

// Cases are left out if the plan has no room for them.
TEST(WideCases, KeepToTheirShare) {
  const KernelUnderTest kernel = FakeExecutor::under_test();
  const Scope scope = scope_of(kernel);
  PairPlan plan = plan_of(kernel, scope, 1);
  plan.most_cost = int64_t{1} << 20;
  int64_t cost = 0;
  const std::vector<PairCase> few = all_of(wide_cases(plan));
  for (const PairCase& one : few) cost += cost_of(one.value);
  EXPECT_FALSE(few.empty());
  EXPECT_LE(cost, plan.most_cost);
  Scope small = scope;
  small.largest = SizeClass::kSmall;
  EXPECT_TRUE(all_of(wide_cases(plan_of(kernel, small, 1))).empty());
}

// ---- When they are run -----------------------------------------------------

// The widest extents of a run's calls: keys, rows, members and heads.
using Widest = std::array<int64_t, 4>;

// The widest extents of each round, until that many rounds are done.
std::vector<Widest> widest_by_round(RunOptions options, size_t rounds) {
  Widest now{};
  std::vector<Widest> by_round;
  options.round_done = [&](int64_t, int64_t, int64_t) {
    by_round.push_back(now);
  };
  options.stop = [&] { return by_round.size() >= rounds; };
  const RunResult result =
      run_fake(options, [&now](const KernelCall& call, Problem&) {
        const Shape& s = call.shape;
        const Widest own = {s.Tk, s.Tq, s.B, s.Hkv};
        for (size_t n = 0; n < now.size(); ++n)
          now[n] = std::max(now[n], own[n]);
      });
  EXPECT_FALSE(some_failed(result));
  return by_round;
}

// A long plan, as for a user's own kernel.
RunOptions long_plan() {
  RunOptions options =
      options_for({"weights_sum_to_one", "agrees_with_oracle"}, kDefaultCases);
  options.covers_pairs = options.fail_fast = true;
  return options;
}

TEST(WideCases, CheapOnesAreAskedAfterTheFirstRoundAndAllWidthsByTheSecond) {
  for (const uint64_t seed : sampled(std::vector<uint64_t>{1, 2, 3}, 3)) {
    RunOptions options = long_plan();
    options.seed = seed;
    const std::vector<Widest> seen = widest_by_round(options, 2);
    ASSERT_EQ(seen.size(), 2u);
    EXPECT_GT(seen[0][0], int64_t{1} << 16);
    for (size_t axis = 1; axis < seen[0].size(); ++axis) {
      EXPECT_GT(seen[0][axis], int64_t{1} << 12);
      EXPECT_LT(seen[0][axis], int64_t{1} << 15);
    }
    for (const int64_t extent : seen[1]) EXPECT_GT(extent, int64_t{1} << 16);
  }
}

// The control: the plan itself does not bring them about.
TEST(WideCases, WithoutThemTwoRoundsAreNarrow) {
  RunOptions options = long_plan();
  options.covers_pairs = false;
  const std::vector<Widest> seen = widest_by_round(options, 2);
  ASSERT_EQ(seen.size(), 2u);
  for (const int64_t extent : seen[1]) EXPECT_LT(extent, int64_t{1} << 13);
}

// Two laws have 8 cases in their first round, and 16 in the second. The numbers
// of wide cases follow the plan's.
TEST(WideCases, AFaultThatTheyAloneShowEndsTheRunEarly) {
  struct Wrong {
    const char* name;
    bool (*is_asked)(const Shape&);
    int64_t most_cases;
  };
  const std::vector<Wrong> wrong = {
      {"members beyond 2^6", [](const Shape& s) { return s.B > 64; }, 8},
      {"heads beyond 2^7", [](const Shape& s) { return s.Hkv > 128; }, 8},
      {"keys beyond 2^15", [](const Shape& s) { return s.Tk > 32768; }, 8},
      {"rows beyond 2^16", [](const Shape& s) { return s.Tq > 65536; }, 24}};
  for (const Wrong& one : sampled(wrong, 2)) {
    const RunResult result = run_fake(
        long_plan(), {},
        [&one](const KernelCall& call, OracleOutput& oracle, CallOutcome&) {
          if (!one.is_asked(call.shape)) return;
          for (double& o : oracle.o) o += 1;
        });
    EXPECT_TRUE(some_failed(result)) << one.name;
    EXPECT_LE(result.planned_cases, one.most_cases) << one.name;
    const Cell& agreement = result.kernels[0].cells[1];
    ASSERT_TRUE(agreement.failure.has_value()) << one.name;
    EXPECT_GT(agreement.failure->number, kDefaultCases) << one.name;
  }
}

// The cases of the plan keep their numbers, and each wide case is run once,
// however many rounds there are.
TEST(WideCases, AreOnTopOfThePlan) {
  constexpr int64_t kCases = 480;
  for (const bool fail_fast : {false, true}) {
    RunOptions options =
        options_for({"weights_sum_to_one", "agrees_with_oracle"}, kCases);
    options.fail_fast = fail_fast;
    const RunResult without = run_fake(options);
    options.covers_pairs = true;
    std::map<int64_t, int> members;
    const RunResult with = run_fake(
        options,
        [&](const KernelCall& call, Problem&) { ++members[call.shape.B]; });
    EXPECT_EQ(without.added_cases, 0);
    EXPECT_EQ(with.planned_cases, kCases);
    EXPECT_EQ(without.planned_cases, kCases);
    EXPECT_GT(with.added_cases, 0);
    EXPECT_EQ(members[4097], 1);
    // The cases of another law in the plan are the same with and without them.
    EXPECT_EQ(with.kernels[0].cells[0].worst_ratio,
              without.kernels[0].cells[0].worst_ratio);
  }
}

// Each kind of data in one row and in several, of gradients alone.
TEST(DataCases, BringEveryKindToOneRowAndToSeveral) {
  const KernelUnderTest kernel = FakeExecutor::under_test();
  const Scope scope = scope_of(kernel);
  PairPlan plan = plan_of(kernel, scope, 1);
  plan.laws = {find_law("backward_agrees_with_oracle")};
  std::map<RecipeKind, std::array<int, 2>> rows;
  for (const PairCase& one : data_cases(plan)) {
    EXPECT_TRUE(one.value.backward);
    ++rows[one.value.k.kind][one.value.shape.Tq == 1 ? 0 : 1];
  }
  for (const DataPreset& preset : data_presets()) {
    EXPECT_GT(rows[preset.k][0], 0) << preset.name;
    EXPECT_GT(rows[preset.k][1], 0) << preset.name;
  }
  plan.laws = {find_law("backward_is_linear_in_d_o")};
  EXPECT_TRUE(data_cases(plan).empty());
}

}  // namespace
}  // namespace qkvet::properties::wide_cases_test
