// SPDX-License-Identifier: Apache-2.0
// Pairs that a plan's cases did not have get cases of their own.
#include "properties/cases/pair_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/capability/option_table.h"
#include "properties/run/runner.h"
#include "properties/testing/fake_executor.h"

namespace qkvet::properties::pair_cases_test {
namespace {

RunOptions plan_of(int64_t cases, bool covers, uint64_t seed = 1) {
  RunOptions options = options_for(
      {"rows_stay_in_hull", "weights_sum_to_one", "agrees_with_oracle"}, cases);
  options.covers_pairs = covers;
  options.seed = seed;
  return options;
}

const MetPairs& pairs_of(const RunResult& result) {
  return result.kernels[0].pairs;
}

// The number of a setting by its name; options come first.
size_t number_of(const std::string& name) {
  size_t number = 0;
  while (setting_rows()[number].name != name) ++number;
  return number;
}

const OptionRow* option_of(const std::string& name) {
  const size_t number = number_of(name);
  return number < option_rows().size() ? &option_rows()[number] : nullptr;
}

TEST(PairCases, WhatIsMissingIsMetAndNoOtherCaseMoves) {
  const RunResult before = run_fake(plan_of(240, false));
  const RunResult after = run_fake(plan_of(240, true));
  EXPECT_FALSE(some_failed(after));
  EXPECT_EQ(before.added_cases, 0);
  EXPECT_EQ(after.planned_cases, before.planned_cases);
  EXPECT_GT(after.added_cases, 0);
  EXPECT_LE(after.added_cases, 240 / 8 + 240 / 32);
  EXPECT_GT(pairs_of(after).seen(), pairs_of(before).seen() + 100);
  EXPECT_EQ(pairs_of(after).added,
            pairs_of(after).seen() - pairs_of(before).seen());
  // A call cannot return a dropout mask without dropout.
  EXPECT_FALSE(pairs_of(after).cannot().empty());
}

// The control: a kernel that is wrong where two options meet, and only there.
TEST(PairCases, TwoOptionsThatAreWrongTogetherAreFound) {
  const auto never = pairs_of(run_fake(plan_of(240, false))).never();
  const RunResult right = run_fake(plan_of(240, true));
  const auto not_met = pairs_of(right).never();
  const auto apart = pairs_of(right).cannot();
  const auto holds = [](const auto& pairs, const auto& pair) {
    return std::find(pairs.begin(), pairs.end(), pair) != pairs.end();
  };
  int missed = 0, found = 0;
  for (const auto& pair : never) {
    if (holds(not_met, pair) || holds(apart, pair)) continue;
    const auto& first = pair.first;
    const auto& second = pair.second;
    const OptionRow* const one = option_of(first);
    const OptionRow* const other = option_of(second);
    if (one == nullptr || other == nullptr || missed == 6) continue;
    const auto wrong = [&](const KernelCall& call, OracleOutput& oracle,
                           CallOutcome&) {
      if (!one->in(call) || !other->in(call)) return;
      // Among large values 10 more would be none of their errors.
      for (double& o : oracle.o) o = std::nan("");
    };
    const bool finds = some_failed(run_fake(plan_of(240, true), {}, wrong));
    missed += !some_failed(run_fake(plan_of(240, false), {}, wrong));
    EXPECT_TRUE(finds) << first << " with " << second;
    found += finds;
  }
  EXPECT_EQ(missed, 6);
  EXPECT_EQ(found, missed);
}

// After the cases for pairs, and few of them.
TEST(TripleCases, MeetWhatTheirShareAllows) {
  const RunResult result = run_fake(plan_of(480, true));
  const MetPairs& met = pairs_of(result);
  EXPECT_FALSE(some_failed(result));
  EXPECT_LE(result.added_cases, 480 / 8 + 480 / 32);
  EXPECT_GT(result.added_cases, 480 / 32);
  ASSERT_TRUE(met.triples);
  EXPECT_GT(met.added_triples, 0);
  EXPECT_LE(*met.triples, met.possible_triples());
}

// Triples of options come first. The control: if all are met, none are made.
TEST(TripleCases, AreMadeOfWhatIsMissing) {
  const KernelUnderTest kernel = FakeExecutor::under_test();
  Scope scope;
  keep_scope_to({kernel}, scope);
  PairPlan plan{{find_law("agrees_with_oracle")},
                1,
                scope,
                {&kernel.judged.info},
                {PairTable{}},
                6,
                int64_t{1} << 40};
  for (SettingSet& row : plan.met[0]) row.set();
  const std::vector<PairCase> made = cases_for_triples(plan, {TripleSet{}});
  EXPECT_EQ(made.size(), 6u);
  TripleSet had(place_of_triple(0, 0, kMostSettings));
  for (const PairCase& one : made) {
    EXPECT_TRUE(one.kernels[0]);
    const Inputs inputs = make_inputs(one.value);
    KernelCall call = call_of(one.value, inputs, Operation::kForward);
    call.want_lse = call.want_weights = true;
    SettingSet options = settings_of(one.value, call);
    for (size_t n = option_rows().size(); n < options.size(); ++n)
      options[n] = false;
    int fresh = 0;
    for_triples(options, [&](size_t place) {
      fresh += !had[place];
      had[place] = true;
    });
    EXPECT_GT(fresh, 0) << to_string(one.value);
  }
  const std::vector<PairCase> again = cases_for_triples(plan, {TripleSet{}});
  for (size_t n = 0; n < made.size(); ++n)
    EXPECT_EQ(made[n].value, again[n].value);
  plan.seed = 2;
  EXPECT_NE(cases_for_triples(plan, {TripleSet{}})[0].value, made[0].value);
  const TripleSet all(place_of_triple(0, 0, kMostSettings), true);
  EXPECT_TRUE(cases_for_triples(plan, {all}).empty());
}

TEST(PairCases, AreTheSameForAnyNumberOfThreads) {
  RunOptions options = plan_of(240, true);
  const RunResult one = run_fake(options);
  options.jobs = 3;
  const RunResult three = run_fake(options);
  EXPECT_EQ(one.added_cases, three.added_cases);
  EXPECT_EQ(pairs_of(one).settings, pairs_of(three).settings);
  EXPECT_EQ(pairs_of(one).met, pairs_of(three).met);
  EXPECT_EQ(pairs_of(one).apart, pairs_of(three).apart);
  EXPECT_EQ(pairs_of(one).triples, pairs_of(three).triples);
  for (size_t n = 0; n < one.kernels[0].cells.size(); ++n)
    EXPECT_EQ(one.kernels[0].cells[n].checked,
              three.kernels[0].cells[n].checked);
}

// If no row sees a key, no number can be wrong, so such a case meets no pair.
TEST(PairCases, NothingMeetsWhereNothingIsComputed) {
  PairTable computed{};
  const auto note = [&](const KernelCall& call, OracleOutput& oracle,
                        CallOutcome&) {
    if (std::none_of(oracle.lse.begin(), oracle.lse.end(),
                     [](double lse) { return std::isfinite(lse); }))
      return;
    SettingSet has;
    for (size_t n = 0; n < option_rows().size(); ++n)
      has[n] = option_rows()[n].in(call);
    for (size_t n = 0; n < option_rows().size(); ++n)
      if (has[n]) computed[n] |= has;
  };
  const MetPairs met = pairs_of(run_fake(plan_of(240, true), {}, note));
  int pairs = 0;
  for (size_t a = 0; a < met.settings.size(); ++a)
    for (size_t b = 0; b < a; ++b) {
      if (!met.met[a][b]) continue;
      const size_t one = number_of(met.settings[a]);
      const size_t other = number_of(met.settings[b]);
      if (std::max(one, other) >= option_rows().size()) continue;
      ++pairs;
      EXPECT_TRUE(computed[one][other])
          << met.settings[a] << " with " << met.settings[b];
      EXPECT_NE(met.settings[a], "empty extents");
      EXPECT_NE(met.settings[b], "empty extents");
    }
  EXPECT_GT(pairs, 200);
}

// The builder also finds every pair that some draw has.
TEST(PairCases, WhatALargePlanMeetsCanBeBuilt) {
  const KernelUnderTest kernel = FakeExecutor::under_test();
  RunOptions options = plan_of(4000, false, 7);
  options.scope.largest = SizeClass::kMedium;
  const RunResult large = run_fake(options);
  Scope scope = options.scope;
  keep_scope_to({kernel}, scope);
  const PairPlan plan{options.laws,  1,    scope, {&kernel.judged.info},
                      {PairTable{}}, 1000, 0};
  const PairCases built = cases_for_pairs(plan);
  ASSERT_EQ(built.can.size(), 1u);
  std::vector<std::string> lost;
  const MetPairs& met = pairs_of(large);
  for (size_t a = 0; a < met.settings.size(); ++a)
    for (size_t b = a + 1; b < met.settings.size(); ++b)
      if (met.met[a][b] &&
          !built.can[0][number_of(met.settings[a])][number_of(met.settings[b])])
        lost.push_back(met.settings[a] + " with " + met.settings[b]);
  EXPECT_TRUE(lost.empty()) << lost.size() << ", the first: " << lost[0];
}

// Pins hold for these cases as for others.
TEST(PairCases, KeepWhatIsPinned) {
  RunOptions options = plan_of(240, true);
  std::string error;
  options.scope.pins = parse_pins("d=12", &error);
  const RunResult result = run_fake(
      options, [](KernelCall& call, Problem&) { EXPECT_EQ(call.shape.d, 12); });
  EXPECT_FALSE(some_failed(result));
}

}  // namespace
}  // namespace qkvet::properties::pair_cases_test
