// SPDX-License-Identifier: Apache-2.0
// qkvet check --faults: the conditions of the built-in faults, verdicts on
// data, and hunts with a known outcome: a kernel without a fault must be called
// a survivor, a wrong condition a false alarm.
#include "cli/hunt/fault_hunt.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/base/program_run.h"
#include "cli/hunt/fault_report.h"
#include "cli/kernels/kernels.h"
#include "properties/conditions/condition.h"

namespace qkvet::cli::fault_hunt_test {
namespace {

TEST(FaultConditions, AllCanBeReadAndNearlyAllSaySomething) {
  const SelectedKernels faults = select_kernels({{"faulty/*"}});
  ASSERT_EQ(faults.error, "");
  int64_t always = 0;
  std::set<std::string> shown_by_least;
  for (const KernelUnderTest& kernel : faults.kernels) {
    const KernelInfo& info = kernel.judged.info;
    const ParsedCondition parsed = parse_condition(info.fault->when);
    ASSERT_TRUE(parsed.value) << info.name << ": " << parsed.error;
    // A case does not contain the concurrent or consecutive calls that some
    // faults need, the values that they refuse, the states that a law empties,
    // the rows that it leaves out, or the effects of the calls of earlier
    // cases.
    const auto& laws = info.fault->killed_by;
    const bool of_the_law = std::ranges::all_of(laws, [](const auto& law) {
      return law.find("calls_at_once") != std::string::npos ||
             law == "merge_of_empty_states_is_empty" ||
             law.find("long_use") != std::string::npos ||
             law.find("refusals_depend_on_form") != std::string::npos ||
             law.find("calls_before_change_nothing") != std::string::npos ||
             law == "rows_left_out_of_a_merge_stay";
    });
    always += parsed.value->is_always() && !of_the_law;
    Case plain;
    plain.scale = 1.0f;
    if (parsed.value->is_always() || !parsed.value->holds(Situation(plain)))
      continue;
    shown_by_least.insert(info.name);
  }
  // One in twenty.
  EXPECT_LT(20 * always, static_cast<int64_t>(faults.kernels.size()));
  // One key, one query, one head, no option: nearly every fault needs more.
  EXPECT_EQ(
      shown_by_least,
      (std::set<std::string>{
          "faulty/tail_tile_unmasked", "faulty/part_of_old_scratch",
          "faulty/shared_projection", "faulty/keys_aligned_as_queries",
          "faulty/flushed_before_merge", "faulty/shared_tile_read_early",
          "faulty/threads_leave_before_loading",
          "faulty/scratch_tail_of_larger_call",
          "faulty/backward_last_keys_missing", "faulty/backward_leaks_memory",
          "faulty/backward_lse_exponentiated_alone",
          "faulty/backward_writes_whole_lanes", "faulty/byte_offset_dropped"}));
}

const Law& law(const char* id) { return *find_law(id); }

HuntedFault hunted(bool triggered, std::vector<FaultPair> pairs) {
  return {"faulty/synthetic", "Tk > 1", triggered, 10, 0.5, std::move(pairs)};
}
FaultPair pair_of(const char* id, int64_t kill, double seconds = 0.25) {
  FaultPair pair;
  pair.law = &law(id);
  pair.named = true;
  pair.checked = 5;
  if (kill > 0) pair.kill = {kill, "B1,H1,Tq1,Tk2,d1"};
  pair.seconds = seconds;
  return pair;
}
ExitCode exit_of(const HuntedFault& fault, bool named = false,
                 std::span<const NearEquivalent> known = {}) {
  return sum_up({{fault}, 0, ""}, named, known).exit;
}

TEST(FaultVerdicts, TheLowestCaseIsFirstAndOfEqualOnesTheFirstLaw) {
  const HuntedFault fault =
      hunted(true, {pair_of("weights_sum_to_one", 9),
                    pair_of("every_key_counts_once", 4, 0.125),
                    pair_of("agrees_with_oracle", 4)});
  const FaultVerdict verdict = verdict_on(fault, {});
  EXPECT_EQ(verdict.fate, Fate::kKilled);
  EXPECT_EQ(verdict.first, &fault.pairs[1]);
  EXPECT_EQ(verdict.killers, 3);
  EXPECT_TRUE(verdict.killed_without_agreement);
  const FaultSummary summary = sum_up({{fault}, 0, ""}, false, {});
  EXPECT_EQ(summary.exit, kConforms);
  EXPECT_EQ(summary.median, 0.125);
  EXPECT_TRUE(summary.agreement_alone.empty());
}

TEST(FaultVerdicts, WhatOnlyAgreementKillsIsNamed) {
  const FaultSummary summary =
      sum_up({{hunted(true, {pair_of("agrees_with_oracle", 4),
                             pair_of("weights_sum_to_one", 0)})},
              0,
              ""},
             false, {});
  EXPECT_EQ(summary.agreement_alone,
            std::vector<std::string>{"faulty/synthetic"});
}

TEST(FaultVerdicts, ASurvivorInItsTriggerFailsTheRun) {
  const HuntedFault lives = hunted(true, {pair_of("agrees_with_oracle", 0)});
  EXPECT_EQ(verdict_on(lives, {}).fate, Fate::kSurvived);
  EXPECT_EQ(exit_of(lives), kLawFailed);
  const NearEquivalent known[] = {{"faulty/synthetic", "it is right"}};
  EXPECT_EQ(verdict_on(lives, known).fate, Fate::kNearEquivalent);
  EXPECT_EQ(exit_of(lives, false, known), kConforms);
  const NearEquivalent other[] = {{"faulty/other", "it is right"}};
  EXPECT_EQ(exit_of(lives, false, other), kLawFailed);
}

TEST(FaultVerdicts, WhatNeverTriggeredWasNotChecked) {
  const HuntedFault idle = hunted(false, {pair_of("agrees_with_oracle", 0)});
  EXPECT_EQ(verdict_on(idle, {}).fate, Fate::kNeverTriggered);
  EXPECT_EQ(exit_of(idle), kNothingChecked);
}

TEST(FaultVerdicts, AKillOutsideOfTheTriggerFailsTheRun) {
  HuntedFault fault = hunted(true, {pair_of("agrees_with_oracle", 4)});
  EXPECT_EQ(exit_of(fault), kConforms);
  fault.pairs[0].outside = fault.pairs[0].kill;
  fault.pairs[0].outsides = 1;
  EXPECT_EQ(verdict_on(fault, {}).outside.size(), 1u);
  EXPECT_EQ(exit_of(fault), kLawFailed);
}

TEST(FaultVerdicts, ANamedLawThatIsSilentFailsTheNamedFormAlone) {
  const HuntedFault fault = hunted(true, {pair_of("agrees_with_oracle", 4),
                                          pair_of("weights_sum_to_one", 0)});
  EXPECT_EQ(verdict_on(fault, {}).silent.size(), 1u);
  EXPECT_EQ(exit_of(fault, /*named=*/false), kConforms);
  EXPECT_EQ(exit_of(fault, /*named=*/true), kLawFailed);
}

// A kernel that declares a fault with this condition.
Hunt hunt_with(const char* kernel, const std::string& when,
               bool every_case = false,
               const char* killer = "agrees_with_oracle") {
  SelectedKernels selected = select_kernels({{kernel}, {}, false});
  EXPECT_EQ(selected.error, "");
  FaultInfo fault;
  fault.when = when;
  fault.killed_by = {killer};
  selected.kernels[0].judged.info.fault = fault;
  HuntOptions options;
  options.laws = {&law("weights_sum_to_one"), &law("agrees_with_oracle"),
                  &law("cache_length_grows")};
  options.cases = 40;
  options.every_case = every_case;
  return hunt_faults(selected.kernels,
                     executor_factory(selected, /*in_process=*/false), options);
}

TEST(FaultHunt, AKernelWithoutAFaultSurvives) {
  const FaultSummary lives =
      sum_up(hunt_with("controls/plain_hooks", "Tk > 1"), false, {});
  EXPECT_EQ(lives.survived, 1);
  EXPECT_EQ(lives.exit, kLawFailed);
  const FaultSummary idle =
      sum_up(hunt_with("controls/plain_hooks", "Tk > 100000"), false, {});
  EXPECT_EQ(idle.never_triggered, 1);
  EXPECT_EQ(idle.exit, kNothingChecked);
}

TEST(FaultHunt, AWrongConditionIsAFalseAlarm) {
  const FaultSummary right =
      sum_up(hunt_with("faulty/no_scale", "!scale.is_one"), false, {});
  EXPECT_EQ(right.killed, 1);
  EXPECT_EQ(right.outside, 0);
  EXPECT_EQ(right.exit, kConforms);
  const FaultSummary wrong =
      sum_up(hunt_with("faulty/no_scale", "Tk > 100000"), false, {});
  EXPECT_EQ(wrong.killed, 1);
  EXPECT_GT(wrong.outside, 0);
  EXPECT_EQ(wrong.exit, kLawFailed);
}

// A condition that fits by chance at the first kill is refuted when laws go on.
TEST(FaultHunt, EveryCaseIsHeldAgainstTheCondition) {
  const Hunt first = hunt_with("faulty/no_scale", "");
  const auto& pairs = first.faults[0].pairs;
  const auto killer =
      std::find_if(pairs.begin(), pairs.end(),
                   [](const FaultPair& pair) { return pair.kill.has_value(); });
  ASSERT_NE(killer, pairs.end());
  const Case found = *parse_case(killer->kill->found).value;
  const std::string too_narrow = "Tk == " + std::to_string(found.shape.Tk) +
                                 " && Tq == " + std::to_string(found.shape.Tq);
  const Hunt all = hunt_with("faulty/no_scale", too_narrow, true);
  EXPECT_GT(sum_up(all, false, {}).outside, 0);
  const Hunt right = hunt_with("faulty/no_scale", "!scale.is_one", true);
  EXPECT_EQ(sum_up(right, false, {}).outside, 0);
  EXPECT_EQ(right.faults[0].cases, 80);
  EXPECT_LT(first.faults[0].cases, 80);
}

TEST(FaultHunt, AConditionThatCannotBeReadIsSaid) {
  const Hunt hunt = hunt_with("faulty/no_scale", "Tk >");
  EXPECT_EQ(hunt.error,
            "faulty/no_scale: condition \"Tk >\", character 5: expected a "
            "name, a number, !, - or (");
}

TEST(FaultHunt, NamedLawsThatItCannotBeAskedAreSilent) {
  const Hunt hunt =
      hunt_with("faulty/no_scale", "", false, "cache_length_grows");
  const FaultSummary summary = sum_up(hunt, /*named=*/true, {});
  EXPECT_EQ(summary.killed, 1);
  ASSERT_EQ(summary.silent, 1);
  EXPECT_EQ(summary.verdicts[0].silent[0]->undeclared,
            missing_subject(Subject::kCache));
  EXPECT_EQ(summary.exit, kLawFailed);
  EXPECT_EQ(hunt_with("faulty/no_scale", "", false, "no_such_law").error,
            "faulty/no_scale: says that \"no_such_law\" kills it, which is no "
            "law; `qkvet explain laws` shows all");
}

TEST(FaultsCommand, SaysWhatKillsAndWritesIt) {
  const Ran ran = run_qkvet(
      "check --faults --kernel 'faulty/no_scale' --kernel "
      "'faulty/cache_position_collision' --cases 20 --json faults.jsonl");
  EXPECT_EQ(ran.exit, 0) << ran.out << ran.error;
  EXPECT_EQ(ran.error, "");
  EXPECT_TRUE(has(ran.out, "2 of 2 faults killed; median"));
  std::istringstream lines(read_text(scratch() / "faults.jsonl"));
  std::string line;
  std::vector<nlohmann::json> all;
  while (std::getline(lines, line)) all.push_back(nlohmann::json::parse(line));
  ASSERT_GT(all.size(), 20u);
  EXPECT_EQ(all.front()["schema"], 1);
  EXPECT_EQ(all.back()["killed"], 2);
  EXPECT_EQ(std::count_if(all.begin(), all.end(),
                          [](const nlohmann::json& one) {
                            return one["type"] == "fault" &&
                                   one["fate"] == "killed";
                          }),
            2);
}

TEST(FaultsCommand, RefusesInOneLine) {
  const struct {
    const char *arguments, *part;
  } rows[] = {{"--kernel scalar/plain", "scalar/plain: declares no fault"},
              {"--kernel 'faulty/nothing'", "faulty/nothing"},
              {"--law xyzzy", "no law is named \"xyzzy\"; `qkvet explain"},
              {"--law weight_sums_to_one",
               "\"weight_sums_to_one\"; perhaps weights_sum_to_one; `"},
              {"--budget soon", "--budget soon: allowed is a time"},
              {"--seed x", "--seed x: allowed 0"},
              {"--kernel faulty/no_scale --json /nowhere/x", "/nowhere/x"},
              {"--cases 5 --budget 5s", "--budget"},
              {"--cases 0", "--cases"}};
  for (const auto& [arguments, part] : rows)
    expect_wrong_use(run_qkvet(std::string("check --faults ") + arguments),
                     part);
}

}  // namespace
}  // namespace qkvet::cli::fault_hunt_test
