// SPDX-License-Identifier: Apache-2.0
#include "properties/run/runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "properties/cases/generate.h"
#include "properties/testing/fake_executor.h"
#include "properties/testing/fake_tables.h"

namespace qkvet::properties::runner_test {
namespace {

void wrong_scale(KernelCall& call, Problem& problem) {
  if (!call.scale) problem.scale = 1;
}

TEST(Runner, AGoodKernelPassesEveryLaw) {
  RunOptions options;
  options.laws = {all_laws().begin(), all_laws().end()};
  const auto laws = static_cast<int64_t>(
      std::count_if(all_laws().begin(), all_laws().end(), [](const Law* law) {
        return law->domain.subject == Subject::kAttention;
      }));
#ifdef QKVET_SANITIZED
  constexpr int64_t kPerLaw = 16;
#else
  constexpr int64_t kPerLaw = 100;
#endif
  options.cases = kPerLaw * laws;
  const RunResult result = run_fake(options, {}, {});
  ASSERT_EQ(result.kernels.size(), 1u);
  for (const Cell& cell : result.kernels[0].cells) {
    EXPECT_EQ(cell.verdict, Verdict::kPassed) << cell.reason;
    // Some cases have only rows without a key.
    EXPECT_GT(cell.checked, cell.law->domain.lasts ? 0 : kPerLaw * 3 / 4);
    EXPECT_FALSE(cell.failure);
  }
  EXPECT_EQ(result.planned_cases, options.cases);
  EXPECT_GT(result.time.total(), 0);
}

TEST(Runner, LawsOfThousandsOfCallsAreAskedAFewCasesBesideThePlan) {
  RunOptions options =
      options_for({"long_use_changes_nothing", "agrees_with_oracle"}, 64);
  int groups = 0;
  const RunResult right = run_fake(
      options, {},
      [&groups](const KernelCall& call, OracleOutput&, CallOutcome& outcome) {
        outcome.repeated.made = call.repeats;
        groups += call.repeats > 0;
      });
  const std::vector<Cell>& cells = right.kernels[0].cells;
  EXPECT_EQ(cells[0].verdict, Verdict::kPassed) << cells[0].reason;
  EXPECT_EQ(cells[0].checked, 2);
  EXPECT_EQ(groups, 2);
  EXPECT_EQ(right.planned_cases, 64);
  EXPECT_GT(cells[1].checked, 60);
  const auto& drawn = right.kernels[0].drawn;
  EXPECT_EQ(std::count(drawn.begin(), drawn.end(), "equal calls in a row 2500"),
            1);
  const auto wears = [](const KernelCall& call, OracleOutput& oracle,
                        CallOutcome& outcome) {
    if (call.repeats == 0) return;
    oracle.o[0] += 1;
    outcome.repeated.made = outcome.repeated.first_other = 1000;
  };
  for (const bool fail_fast : {false, true}) {
    options.fail_fast = fail_fast;
    EXPECT_TRUE(run_fake(options, {}, wears).kernels[0].cells[0].failure);
  }
  // One shard has them, whatever its share of the plan.
  options.shards = 64;
  EXPECT_TRUE(run_fake(options, {}, wears).kernels[0].cells[0].failure);
  options.shard = 2;
  EXPECT_FALSE(run_fake(options, {}, wears).kernels[0].cells[0].failure);
}

// One refusal in hundreds of cases, by values that the law about refusals has
// not met itself.
TEST(Runner, CasesThatAKernelRefusedAreAskedAgainWithOtherValues) {
  RunOptions options = options_for(
      {"agrees_with_oracle", "weights_sum_to_one", "refusals_depend_on_form"},
      300);
  bool refused = false;
  std::vector<double> values;
  const auto refuses = [&](const KernelCall& call, OracleOutput&,
                           CallOutcome& outcome) {
    if (call.layout != Layout::kBhtd || call.kv_len != nullptr) return;
    const auto q =
        stored_as_doubles(call.q, call.shape.q_elements(), call.q_dtype);
    if (!refused && q.size() > 4) {
      refused = true;  // only the first such call
      values = q;
    }
    if (!refused || q != values) return;
    outcome.status = CallStatus::kUnsupported;
    outcome.asked_kernel = true;
    outcome.text = "not these";
  };
  const RunResult result = run_fake(options, {}, refuses);
  EXPECT_EQ(result.kernels[0].cells[0].refused, 1);
  ASSERT_TRUE(result.kernels[0].cells[2].failure);
  EXPECT_GT(result.kernels[0].cells[2].failure->number, 300);
}

TEST(Runner, AFailureIsFoundRepeatedAndShrunk) {
  const RunResult result = run_fake(
      options_for({"scale_is_one_over_sqrt_d", "agrees_with_oracle"}, 200),
      wrong_scale, {});
  for (const Cell& cell : result.kernels[0].cells) {
    ASSERT_TRUE(cell.failure);
    EXPECT_EQ(cell.verdict, Verdict::kFailed);
    EXPECT_EQ(cell.failure->repeats_failed, 10);
    // d = 2 and two keys are needed, all else is 1.
    EXPECT_LE(sum_of_extents(cell.failure->smallest.shape), 10)
        << to_string(cell.failure->smallest);
    EXPECT_EQ(cell.failure->smallest.shape.d, 2);
    EXPECT_FALSE(cell.failure->judgement.picture.empty());
  }
}

TEST(Runner, AnUnsteadyFailureIsReportedAndNotShrunk) {
  std::atomic<int> calls{0};
  const RunResult result =
      run_fake(options_for({"agrees_with_oracle"}, 64), {},
               [&calls](const KernelCall&, OracleOutput& oracle, CallOutcome&) {
                 if (calls++ % 3 == 0 && !oracle.o.empty()) oracle.o[0] = 1e9;
               });
  const Cell& cell = result.kernels[0].cells[0];
  ASSERT_TRUE(cell.failure);
  EXPECT_GT(cell.failure->repeats_failed, 0);
  EXPECT_LT(cell.failure->repeats_failed, cell.failure->repeats);
  EXPECT_EQ(cell.failure->smallest, cell.failure->found);
  EXPECT_EQ(cell.verdict, Verdict::kFailed);
}

// Each of its calls costs a process, and all of them have the same result.
TEST(Runner, AKernelThatDiesInEveryCallIsAskedNoFurther) {
  for (const bool fail_fast : {false, true}) {
    RunOptions options = options_for(
        {"agrees_with_oracle", "weights_sum_to_one", "rows_stay_in_hull",
         "same_call_same_bits", "every_key_counts_once"},
        3000);
    options.fail_fast = fail_fast;
    options.jobs = 2;
    const RunResult result =
        run_fake(options, {},
                 [](const KernelCall&, OracleOutput&, CallOutcome& outcome) {
                   outcome.status = CallStatus::kCrash;
                   outcome.text = "SIGSEGV at address 0x10";
                 });
    const int died = fail_fast ? 1 : 3;
    int failed = 0, checked = 0;
    for (const Cell& cell : result.kernels[0].cells) {
      checked += static_cast<int>(cell.checked);
      failed += cell.failure.has_value();
      if (cell.failure) continue;
      EXPECT_EQ(cell.verdict, Verdict::kGaveUp);
      EXPECT_EQ(cell.reason,
                fail_fast
                    ? "not asked: the kernel died in its first case"
                    : "not asked: the kernel died in all of its first 3 cases");
    }
    EXPECT_EQ(failed, died);
    EXPECT_EQ(checked, died);
  }
}

// The same error in every call, as from a callable with another signature, is a
// single failure instead of one for each law.
TEST(Runner, AKernelThatReturnsErrorsAloneFailsOnce) {
  for (const bool fail_fast : {false, true}) {
    RunOptions options = options_for(
        {"agrees_with_oracle", "weights_sum_to_one", "rows_stay_in_hull",
         "same_call_same_bits", "every_key_counts_once"},
        3000);
    options.fail_fast = fail_fast;
    const RunResult result =
        run_fake(options, {},
                 [](const KernelCall&, OracleOutput&, CallOutcome& outcome) {
                   outcome.status = CallStatus::kRefused;
                   outcome.text = "raised TypeError";
                 });
    int failed = 0;
    for (const Cell& cell : result.kernels[0].cells) {
      failed += cell.failure.has_value();
      if (cell.failure) continue;
      EXPECT_EQ(cell.verdict, Verdict::kGaveUp);
      EXPECT_EQ(cell.reason,
                fail_fast ? "not asked: the kernel gave no result in its first "
                            "case"
                          : "not asked: the kernel gave no result in all of "
                            "its first 3 cases");
    }
    EXPECT_EQ(failed, 1);
  }
}

// A kernel that has answered once is run to the end, whatever it does later.
TEST(Runner, AKernelThatDiesNowAndThenIsAskedToTheEnd) {
  const RunResult result = run_fake(
      options_for({"agrees_with_oracle", "weights_sum_to_one"}, 300), {},
      [](const KernelCall& call, OracleOutput&, CallOutcome& outcome) {
        if (call.causal == Causal::kNone) return;
        outcome.status = CallStatus::kCrash;
        outcome.text = "SIGSEGV at address 0x10";
      });
  for (const Cell& cell : result.kernels[0].cells) {
    EXPECT_TRUE(cell.failure);
    EXPECT_GT(cell.checked, 20);
  }
}

TEST(Runner, NothingSupportedIsNotPassed) {
  const RunResult result =
      run_fake(options_for({"agrees_with_oracle"}, 64), {},
               [](const KernelCall&, OracleOutput&, CallOutcome& outcome) {
                 outcome.status = CallStatus::kUnsupported;
                 outcome.text = "odd widths only";
               });
  const Cell& cell = result.kernels[0].cells[0];
  EXPECT_EQ(cell.verdict, Verdict::kUnsupported);
  EXPECT_EQ(cell.reason, "odd widths only");
  EXPECT_EQ(cell.checked, 0);
}

// Laws that can be checked share all cases.
TEST(Runner, WhatIsNotDeclaredIsNotAsked) {
  KernelUnderTest kernel = FakeExecutor::under_test();
  kernel.judged.info.capabilities.options &= ~uint64_t{
      QKVET_OPTION_PAGED | QKVET_OPTION_PAGED_CSR | QKVET_OPTION_APPEND};
  const RunResult result =
      run_fake(options_for({"weights_sum_to_one", "page_size_changes_nothing",
                            "agrees_with_oracle", "append_equals_given"},
                           200),
               {}, {}, kernel);
  const std::vector<Cell>& cells = result.kernels[0].cells;
  for (const size_t asked : {0, 2}) {
    EXPECT_EQ(cells[asked].verdict, Verdict::kPassed);
    EXPECT_GT(cells[asked].checked, 90);
  }
  for (const size_t left_out : {1, 3}) {
    EXPECT_EQ(cells[left_out].verdict, Verdict::kUnsupported);
    EXPECT_EQ(cells[left_out].checked, 0);
  }
  EXPECT_EQ(cells[1].reason, "not declared: pages");
  EXPECT_EQ(cells[3].reason, "not declared: new tokens");
}

// A scale that is `by` of itself off.
FakeExecutor::Question scale_off(double by) {
  return [by](KernelCall&, Problem& problem) { problem.scale *= 1 + by; };
}

KernelUnderTest on_a_device(int32_t preset) {
  KernelUnderTest kernel = FakeExecutor::under_test();
  qkvet_precision declared = {};
  declared.struct_size = sizeof declared;
  declared.preset = preset;
  kernel.judged.model = resolve_precision(declared).model;
  return kernel;
}

// How far off a scale makes agreement fail with this preset, in steps of half.
Cell cell_at(double by, const KernelUnderTest& kernel) {
  RunOptions options = options_for({"agrees_with_oracle"}, 200);
  options.planned = [](int64_t number) {
    return *parse_case(
                "f32,B1,H1,Tq2,Tk4,d8,scale=0.5,k=onehot,v=normal,seed=" +
                std::to_string(number))
                .value;
  };
  return run_fake(options, scale_off(by), {}, kernel).kernels[0].cells[0];
}

TEST(Runner, BeyondAnUnmeasuredBoundThereIsAWarningAndBeyondItsDoubtsAFailure) {
  const KernelUnderTest cores = on_a_device(QKVET_PRECISION_TENSOR_CORE);
  ASSERT_TRUE(cores.judged.model.unmeasured);
  double by = 0x1p-4;
  Cell cell = cell_at(by, cores);
  EXPECT_EQ(cell.verdict, Verdict::kFailed);
  while (cell.verdict == Verdict::kFailed && by > 0x1p-30) {
    by /= 1.25;
    cell = cell_at(by, cores);
  }
  EXPECT_EQ(cell.verdict, Verdict::kPassed);
  EXPECT_GT(cell.warned, 0);
  EXPECT_GT(cell.worst_ratio, 1);
  EXPECT_NE(cell.warning.find("not measured"), std::string::npos);
  EXPECT_NE(cell.warning.find("allowed"), std::string::npos);
  // There is no warning within the bound itself.
  cell = cell_at(by / 64, cores);
  EXPECT_EQ(cell.verdict, Verdict::kPassed);
  EXPECT_EQ(cell.warned, 0);
  EXPECT_EQ(cell.warning, "");
  // The same where all was measured: no warning in between.
  for (by = 0x1p-10; by > 0x1p-30; by /= 1.25) {
    cell = cell_at(by, FakeExecutor::under_test());
    EXPECT_EQ(cell.warned, 0);
    EXPECT_EQ(cell.verdict == Verdict::kFailed, cell.worst_ratio > 1);
  }
}

// A law without a bound is either broken or not.
TEST(Runner, BrokenLawsFailUnderAnUnmeasuredPrecision) {
  const auto leak = [](const KernelCall&, OracleOutput& oracle, CallOutcome&) {
    for (double& weight : oracle.weights)
      if (weight == 0) weight = 1e-30;
  };
  const RunResult result =
      run_fake(options_for({"future_weights_are_zero"}, 64), {}, leak,
               on_a_device(QKVET_PRECISION_TENSOR_CORE));
  EXPECT_EQ(result.kernels[0].cells[0].verdict, Verdict::kFailed);
}

// f32 inside of f64 storage is looser than generic only for f64.
TEST(Runner, F32ArithmeticInF64StorageIsLooserThanGeneric) {
  KernelUnderTest kernel = FakeExecutor::under_test();
  qkvet_capabilities& can = kernel.judged.info.capabilities;
  const qkvet_dtype f64 = dtype_to_abi(Dtype::kF64);
  can.dtypes[0] = {f64, f64, f64};
  can.dtype_count = 1;
  can.options = QKVET_OPTION_SCALE | QKVET_OPTION_DEFAULT_SCALE;
  RunOptions options = options_for({"agrees_with_oracle"}, 64);
  keep_scope_to({kernel}, options.scope);
  options.scope.dtypes = declared_dtypes({kernel});
  ASSERT_EQ(options.scope.dtypes, std::vector<StorageTypes>{Dtype::kF64});
  EXPECT_EQ(run_fake(options, {}, {}, kernel).kernels[0].cells[0].verdict,
            Verdict::kPassed);
  kernel.judged.model.u = 0x1p-24;
  kernel.judged.model.literal = QKVET_KNOB_ACCUMULATOR_U;
  EXPECT_EQ(run_fake(options, {}, {}, kernel).kernels[0].cells[0].verdict,
            Verdict::kPassed);
  EXPECT_NE(looser_text(kernel.judged, options.scope), "");
  options.strict = true;
  EXPECT_EQ(run_fake(options, {}, {}, kernel).kernels[0].cells[0].verdict,
            Verdict::kMistrusted);
}

TEST(Runner, F64IsJudgedAloneAndInAttentionOnly) {
  const auto reason = [](const char* text) {
    return not_judged_reason(*parse_case(text).value);
  };
  EXPECT_EQ(reason("f64,B1,H1,Tq1,Tk2,d1"), "");
  Case mixed = *parse_case("f64,B1,H1,Tq1,Tk2,d1").value;
  mixed.o_dtype = Dtype::kF32;
  EXPECT_NE(not_judged_reason(mixed).find("f64 beside other"),
            std::string::npos);
  Case layer = *parse_case("f64,B1,H1,Tq1,Tk1,d1").value;
  layer.shape.D = 1;
  EXPECT_NE(not_judged_reason(layer).find("layers in f64"), std::string::npos);
}

// If no case could fail, because the bound is so wide, there is no verdict.
TEST(Runner, AVacuousRunIsMistrusted) {
  KernelUnderTest kernel = FakeExecutor::under_test();
  kernel.judged.model.u = 0.01;
  const RunResult result =
      run_fake(options_for({"agrees_with_oracle"}, 64), {}, {}, kernel);
  EXPECT_EQ(result.kernels[0].cells[0].verdict, Verdict::kMistrusted);
}

TEST(Runner, ATimeBudgetBuysWholeRounds) {
  RunOptions options = options_for({"agrees_with_oracle"}, 1);
  options.budget = 0.01;
  const RunResult result = run_fake(options, {}, {});
  EXPECT_GE(result.rounds, 1);
  EXPECT_EQ(result.planned_cases % result.rounds, 0);
  EXPECT_GE(result.planned_cases, 64);
}

// The result is what was checked until then, and it is not a complete run.
TEST(Runner, AStopEndsTheRunWithWhatWasChecked) {
  RunOptions options = options_for({"agrees_with_oracle"}, 6400);
  std::atomic<int> asked{0};
  options.stop = [&asked] { return ++asked > 10; };
  const RunResult result = run_fake(options, {}, {});
  EXPECT_TRUE(result.interrupted);
  EXPECT_GT(result.kernels[0].cells[0].checked, 0);
  EXPECT_LT(result.planned_cases, 1000);
  EXPECT_GE(result.planned_cases, result.kernels[0].cells[0].checked);
  options.stop = [] { return false; };
  options.cases = 64;
  EXPECT_FALSE(run_fake(options, {}, {}).interrupted);
}

// Which cases of the plan a shard has made.
constexpr int64_t kShardLaws = 3;
std::vector<int64_t> numbers_of_shard(int64_t shard, int64_t shards,
                                      int64_t cases) {
  RunOptions options = options_for(
      {"agrees_with_oracle", "rows_stay_in_hull", "weights_sum_to_one"}, cases);
  options.shard = shard;
  options.shards = shards;
  std::vector<int64_t> numbers;
  options.planned = [&](int64_t number) {
    numbers.push_back(number);
    const Law& law =
        *options.laws[static_cast<size_t>((number - 1) % kShardLaws)];
    return planned_case(law, options.seed, number, options.scope);
  };
  run_fake(options, {}, {});
  return numbers;
}

TEST(Runner, ShardsTogetherHaveEveryCaseOnce) {
  constexpr int64_t kCases = 301;  // no multiple of anything
  for (const int64_t shards : {1, 2, 3, 7, 64}) {
    std::vector<int64_t> all;
    for (int64_t shard = 1; shard <= shards; ++shard) {
      const auto mine = numbers_of_shard(shard, shards, kCases);
      all.insert(all.end(), mine.begin(), mine.end());
      // Laws have equal numbers of cases, up to one.
      std::vector<int64_t> of_law(kShardLaws);
      for (const int64_t number : mine)
        ++of_law[static_cast<size_t>((number - 1) % kShardLaws)];
      EXPECT_LE(*std::max_element(of_law.begin(), of_law.end()) -
                    *std::min_element(of_law.begin(), of_law.end()),
                1)
          << shard << "/" << shards;
    }
    std::sort(all.begin(), all.end());
    ASSERT_EQ(std::ssize(all), kCases) << shards;
    for (int64_t n = 0; n < kCases; ++n)
      EXPECT_EQ(all[static_cast<size_t>(n)], n + 1) << shards;
  }
}

TEST(Runner, CasesAreCountedByHowNearTheyCameToTheirBound) {
  const RunResult right =
      run_fake(options_for({"agrees_with_oracle"}, 64), {}, {});
  const Cell& cell = right.kernels[0].cells[0];
  int64_t cases = 0;
  for (const auto& [power, count] : cell.ratios) {
    EXPECT_LE(std::ldexp(1.0, power), cell.worst_ratio);
    cases += count;
  }
  EXPECT_LE(cases, cell.checked);
  const RunResult wrong =
      run_fake(options_for({"agrees_with_oracle"}, 64), wrong_scale, {});
  EXPECT_GT(wrong.kernels[0].cells[0].ratios.rbegin()->first, 4);
}

// A cache and a layer in one kernel are two parts of one run.
RunOptions of_two_subjects() {
  return options_for({"cache_agrees_with_history", "cache_length_grows",
                      "layer_agrees_with_oracle"},
                     0);
}
RunResult run_two_subjects(const RunOptions& options) {
  return run_plan(
      {FakeTables::under_test()},
      [](size_t) {
        return Opened{std::make_unique<FakeTables>(), ""};
      },
      options);
}

TEST(Runner, ProgressIsThatOfTheWholeRun) {
  RunOptions options = of_two_subjects();
  options.cases = 48;  // for each of the two
  std::vector<RunProgress> seen;
  options.progress = [&seen](const RunProgress& now) { seen.push_back(now); };
  run_two_subjects(options);
  ASSERT_GE(seen.size(), 4u);
  int64_t done = 0;
  for (const RunProgress& now : seen) {
    EXPECT_EQ(now.planned, 96);
    EXPECT_GT(now.done, done);
    done = now.done;
    EXPECT_EQ(now.failures, 0);
    EXPECT_FALSE(now.shrinking);
  }
  EXPECT_EQ(done, 96);
}

// A part that passes does not run to its end before another fails.
TEST(Runner, TheFirstFailureIsNotBehindThePlanOfAnotherPart) {
  RunOptions options = of_two_subjects();
  options.cases = 4000;
  options.fail_fast = true;
  Spoil spoil;
  spoil.layer_answer = [](const LayerProblem&, LayerOutput& output) {
    for (double& y : output.y) y = std::nan("");
  };
  const RunResult result = run_plan(
      {FakeTables::under_test()},
      [&](size_t) {
        return Opened{std::make_unique<FakeTables>(spoil), ""};
      },
      options);
  ASSERT_EQ(result.kernels[0].cells.size(), 3u);
  for (const Cell& cell : result.kernels[0].cells) {
    const bool is_layer = cell.law->domain.subject == Subject::kLayer;
    EXPECT_EQ(cell.verdict, is_layer ? Verdict::kFailed : Verdict::kPassed);
    EXPECT_LE(cell.checked, 16);
  }
  // The first part fails in its first round: the other has had none.
  Spoil first;
  first.question = [](Problem& p) { p.scale *= 2; };
  const RunResult early = run_plan(
      {FakeTables::under_test()},
      [&](size_t) {
        return Opened{std::make_unique<FakeTables>(first), ""};
      },
      options);
  ASSERT_EQ(early.kernels[0].cells.size(), 3u);
  int failed = 0;
  for (const Cell& cell : early.kernels[0].cells) {
    failed += cell.verdict == Verdict::kFailed;
    if (cell.law->domain.subject == Subject::kLayer) {
      EXPECT_EQ(cell.checked, 0);
      EXPECT_NE(cell.verdict, Verdict::kPassed);
    }
  }
  EXPECT_GT(failed, 0);
  // The control: without a failure everything is run.
  options.cases = 40;
  for (const Cell& cell : run_two_subjects(options).kernels[0].cells)
    EXPECT_GE(cell.checked,
              cell.law->domain.subject == Subject::kLayer ? 30 : 15);
}

TEST(Runner, EveryLawGetsTheSameNumberOfCases) {
  RunOptions options = of_two_subjects();
  options.cases_per_law = 20;
  EXPECT_EQ(most_cases(options), 40);
  int64_t planned = 0;
  options.progress = [&planned](const RunProgress& now) {
    planned = now.planned;
  };
  const RunResult result = run_two_subjects(options);
  EXPECT_EQ(planned, 60);
  EXPECT_EQ(result.planned_cases, 40);
  ASSERT_EQ(result.kernels[0].cells.size(), 3u);
  for (const Cell& cell : result.kernels[0].cells)
    EXPECT_EQ(cell.checked + cell.unsupported + cell.not_applicable, 20)
        << cell.law->id;
  options.cases_per_law = 0;
  options.cases = 20;
  EXPECT_EQ(most_cases(options), 20);
  const RunResult of_both = run_two_subjects(options);
  for (const Cell& cell : of_both.kernels[0].cells)
    EXPECT_EQ(cell.checked + cell.unsupported + cell.not_applicable,
              cell.law->domain.subject == Subject::kLayer ? 20 : 10)
        << cell.law->id;
}

TEST(Runner, ALibraryThatCannotBeOpenedIsAnError) {
  const RunResult result = run_plan(
      {FakeExecutor::under_test()},
      [](size_t) {
        return Opened{nullptr, "x.so: no such file"};
      },
      options_for({"agrees_with_oracle"}, 1));
  EXPECT_EQ(result.error, "x.so: no such file");
}

// The dialect that would explain the failures of a kernel.
std::string dialect_of(FakeExecutor::Question question) {
  RunOptions options = options_for({"agrees_with_oracle"}, 256);
  options.scope.largest = SizeClass::kSmall;
  const RunResult result = run_fake(options, std::move(question), {});
  const Cell& cell = result.kernels[0].cells[0];
  EXPECT_TRUE(cell.failure);
  return cell.failure ? cell.failure->dialect : "";
}

TEST(Runner, SaysUnderWhichDialectAKernelWouldConform) {
  // Right for one declared alignment and wrong for the other: the failure is
  // that of a kernel with a single alignment.
  EXPECT_NE(dialect_of([](KernelCall&, Problem& problem) {
              if (problem.causal == Causal::kTopLeft)
                problem.causal = Causal::kBottomRight;
            }).find("from the bottom right"),
            std::string::npos);
  EXPECT_NE(dialect_of([](KernelCall&, Problem& problem) {
              if (problem.causal == Causal::kBottomRight)
                problem.causal = Causal::kTopLeft;
            }).find("from the top left"),
            std::string::npos);
  EXPECT_NE(dialect_of([](KernelCall&, Problem& problem) {
              if (!problem.scale_given) problem.scale = 1;
            }).find("a scale of 1"),
            std::string::npos);
}

// Controls: a wrong answer that no convention explains, and one that only looks
// like another alignment in small cases.
TEST(Runner, SaysNothingWhereNoDialectExplainsIt) {
  EXPECT_EQ(
      dialect_of([](KernelCall&, Problem& problem) { problem.scale *= 1.05; }),
      "");
  EXPECT_EQ(dialect_of([](KernelCall&, Problem& problem) {
              problem.causal = Causal::kNone;
            }),
            "");
}

}  // namespace
}  // namespace qkvet::properties::runner_test
