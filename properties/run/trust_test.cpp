// SPDX-License-Identifier: Apache-2.0
// The law that owns a failure, and the declarations that are trusted.
#include <gtest/gtest.h>

#include "properties/run/tally.h"
#include "properties/testing/fake_executor.h"

namespace qkvet::properties::trust_test {
namespace {

// The memory law owns reads outside of k, but its own calls have one thread.
void reads_past_k_in_threads(const KernelCall& call, OracleOutput&,
                             CallOutcome& outcome) {
  if (call.threads < 2) return;
  outcome.status = CallStatus::kFault;
  outcome.fault.emplace();
  outcome.fault->tensor = TensorName::kK;
}

TEST(Trust, AFailureIsOfTheLawUnderWhichItIsReplayed) {
  const RunResult result = run_fake(
      options_for({"threads_change_nothing", "reads_only_its_inputs"}, 64), {},
      reads_past_k_in_threads);
  const std::vector<Cell>& cells = result.kernels[0].cells;
  ASSERT_TRUE(cells[0].failure);
  EXPECT_EQ(cells[0].failure->law, cells[0].law);
  EXPECT_EQ(cells[0].failure->judgement.kind, FailureKind::kMemory);
  EXPECT_EQ(cells[1].verdict, Verdict::kPassed);
  // If both laws see it, the memory law owns it.
  const RunResult both = run_fake(
      options_for({"threads_change_nothing", "reads_only_its_inputs"}, 64), {},
      [](const KernelCall& call, OracleOutput& out, CallOutcome& outcome) {
        KernelCall of_threads = call;
        of_threads.threads = 2;
        reads_past_k_in_threads(of_threads, out, outcome);
      });
  EXPECT_FALSE(both.kernels[0].cells[0].failure);
  ASSERT_TRUE(both.kernels[0].cells[1].failure);
  EXPECT_EQ(both.kernels[0].cells[1].failure->law,
            both.kernels[0].cells[1].law);
  // If the memory law is not asked, the law that made the call reports it.
  const RunResult alone = run_fake(options_for({"threads_change_nothing"}, 64),
                                   {}, reads_past_k_in_threads);
  ASSERT_TRUE(alone.kernels[0].cells[0].failure);
  EXPECT_EQ(alone.kernels[0].cells[0].failure->law,
            alone.kernels[0].cells[0].law);
}

// A kernel that declares small tiles is treated no worse than one that declares
// nothing.
TEST(Trust, ADeclarationLooserThanGenericIsMistrustedByTheStrictAlone) {
  KernelUnderTest kernel = FakeExecutor::under_test();
  qkvet_precision& precision = kernel.judged.info.precision;
  precision.struct_size = sizeof precision;
  precision.declared = QKVET_KNOB_TILE;
  precision.tile = 3;
  const ResolvedPrecision resolved = resolve_precision(precision);
  kernel.judged.model = resolved.model;
  kernel.judged.looser_than_generic = resolved.looser_than_generic;
  RunOptions options = options_for({"agrees_with_oracle"}, 64);
  const auto verdict = [&] {
    return run_fake(options, {}, {}, kernel).kernels[0].cells[0].verdict;
  };
  EXPECT_EQ(verdict(), Verdict::kPassed);
  EXPECT_EQ(looser_text(kernel.judged, options.scope).rfind("tile = 3 (", 0),
            0u);
  options.strict = true;
  EXPECT_EQ(verdict(), Verdict::kMistrusted);
  options.allow_loose = true;
  EXPECT_EQ(verdict(), Verdict::kPassed);
}

// The verdict of a run with `ordinary` cases and as many long ones; in some of
// each (`vacuous`, `vacuous_long`) all elements have an uninformative bound.
Verdict verdict_of(int ordinary, int vacuous, int of_long, int vacuous_long) {
  constexpr int64_t kElements = 100, kManyElements = 100'000;
  const Case small;
  Case large;
  large.shape.Tk = 2049;
  Tally tally;
  int64_t number = 0;
  const auto add = [&](const Case& value, int cases, int empty, int64_t count) {
    for (int n = 0; n < cases; ++n) {
      Judgement judgement;
      judgement.compared = n < empty ? 1 : count;
      judgement.vacuous = n < empty ? count : 0;
      add_judgement(tally, ++number, value, judgement, 0);
    }
  };
  add(small, ordinary, vacuous, kElements);
  add(large, of_long, vacuous_long, kManyElements);
  return cell_of(tally, {}, "").verdict;
}

TEST(Trust, FewLongCasesDoNotDecideWhetherTheBoundSaysEnough) {
  EXPECT_EQ(verdict_of(9, 0, 1, 1), Verdict::kPassed);
  // Nor do they hide that it is uninformative for all others.
  EXPECT_EQ(verdict_of(9, 1, 0, 0), Verdict::kMistrusted);
  EXPECT_EQ(verdict_of(9, 1, 1, 0), Verdict::kMistrusted);
  // If a quarter or more are long, they count.
  EXPECT_EQ(verdict_of(2, 0, 1, 1), Verdict::kMistrusted);
  EXPECT_EQ(verdict_of(0, 0, 3, 1), Verdict::kMistrusted);
  EXPECT_EQ(verdict_of(0, 0, 3, 0), Verdict::kPassed);
}

// A case may be as large as all others without being long. Among a dozen cases
// it does not decide; among fewer it does, and so do two of them.
TEST(Trust, OneCaseOfADozenDoesNotDecideWhetherTheBoundSaysEnough) {
  EXPECT_EQ(verdict_of(12, 1, 0, 0), Verdict::kPassed);
  EXPECT_EQ(verdict_of(11, 1, 0, 0), Verdict::kMistrusted);
  EXPECT_EQ(verdict_of(12, 2, 0, 0), Verdict::kMistrusted);
  // If a run has two parts, one case is left out of both together.
  Judgement right, open;
  right.compared = 100;
  open.compared = 1;
  open.vacuous = 100;
  Tally tally, part;
  for (int n = 0; n < 10; ++n) add_judgement(tally, n, Case{}, right, 0);
  for (int n = 10; n < 20; ++n) add_judgement(part, n, Case{}, right, 0);
  add_judgement(tally, 20, Case{}, open, 0);
  add_judgement(part, 21, Case{}, open, 0);
  merge(tally, part);
  EXPECT_EQ(cell_of(tally, {}, "").verdict, Verdict::kPassed);
  Tally third;
  add_judgement(third, 22, Case{}, open, 0);
  merge(tally, third);
  EXPECT_EQ(cell_of(tally, {}, "").verdict, Verdict::kMistrusted);
}

// One case of the plan, and one for which the bound is uninformative.
Verdict verdict_with(bool added) {
  Judgement right, open;
  right.compared = 100;
  open.compared = 1;
  open.vacuous = 100;
  Tally tally;
  add_judgement(tally, 1, Case{}, right, 0);
  add_judgement(tally, 2, Case{}, open, 0, added);
  return cell_of(tally, {}, "").verdict;
}

TEST(Trust, AddedCasesDoNotDecideWhetherTheBoundSaysEnough) {
  EXPECT_EQ(verdict_with(/*added=*/true), Verdict::kPassed);
  EXPECT_EQ(verdict_with(/*added=*/false), Verdict::kMistrusted);
}

// A case that no kernel can be judged by is no reason for a kernel's refusals.
TEST(Trust, WhatIsNotDeclaredIsSaidBesideCasesThatSayNothing) {
  Judgement refused, empty;
  refused.verdict = Verdict::kUnsupported;
  refused.reason = "pages (block_table) is not declared";
  refused.about = About::kDeclaration;
  empty.verdict = Verdict::kGaveUp;
  empty.reason = "the pages are the largest already";
  Tally tally, part;
  add_judgement(tally, 1, Case{}, empty, 0);
  EXPECT_EQ(cell_of(tally, {}, "").reason, empty.reason);
  add_judgement(part, 2, Case{}, refused, 0);
  add_judgement(part, 3, Case{}, empty, 0);
  merge(tally, part);
  const Cell cell = cell_of(tally, {}, "");
  EXPECT_EQ(cell.verdict, Verdict::kUnsupported);
  EXPECT_EQ(cell.reason, refused.reason);
}

// Such as a machine without the kernel's instructions. Neither singular nor
// plural of the text decides.
TEST(Trust, AnotherReasonCountsBeforeADeclaration) {
  for (const char* text :
       {"a mask is not declared", "lengths are not declared"})
    for (const bool first : {true, false}) {
      Judgement undeclared, unavailable;
      undeclared.verdict = unavailable.verdict = Verdict::kUnsupported;
      undeclared.reason = text;
      undeclared.about = About::kDeclaration;
      unavailable.reason = "the CPU has no AVX9";
      Tally tally;
      add_judgement(tally, first ? 1 : 2, Case{}, undeclared, 0);
      add_judgement(tally, first ? 2 : 1, Case{}, unavailable, 0);
      const Cell cell = cell_of(tally, {}, "");
      EXPECT_EQ(cell.reason, unavailable.reason) << text;
      EXPECT_EQ(cell.about, About::kOther);
    }
}

TEST(Sharpness, AQuarterOfAPowerOfTwoIsAClass) {
  SharpnessByStorage sum;
  Judgement judgement;
  judgement.compared = 1;
  const auto add = [&](double error_over_bound) {
    judgement.worst_ratio = error_over_bound;
    add_case(sum, Case{}, judgement);
  };
  for (const double ratio : {1.0, 0.9, 0.84, 0.5, 0.25, 1e-300, 0.0})
    add(ratio);
  const Sharpness& f32 = sum.at("f32");
  EXPECT_EQ(f32.without_error, 1);
  const std::map<int, int64_t> wanted = {
      {0, 2}, {1, 1}, {4, 1}, {8, 1}, {kMostQuarters, 1}};
  EXPECT_EQ(f32.quarters, wanted);
  merge(sum, SharpnessByStorage(sum));
  EXPECT_EQ(sum.at("f32").quarters.at(0), 4);
  EXPECT_EQ(sum.at("f32").without_error, 2);
}

// A failed case, or a law other than agreement, is no measure of a bound.
TEST(Sharpness, OnlyAgreementThatPassedTells) {
  Judgement judgement;
  judgement.compared = 1;
  const Law& agreement = *find_law("agrees_with_oracle");
  EXPECT_TRUE(tells_sharpness(agreement, judgement));
  EXPECT_FALSE(tells_sharpness(*find_law("rows_stay_in_hull"), judgement));
  judgement.compared = 0;
  EXPECT_FALSE(tells_sharpness(agreement, judgement));
  judgement.compared = 1;
  judgement.verdict = Verdict::kFailed;
  EXPECT_FALSE(tells_sharpness(agreement, judgement));
}

// The median quarter of the cases in f32 that have an error.
int median_quarter(const FakeExecutor::Answer& answer) {
  const RunResult result =
      run_fake(options_for({"agrees_with_oracle"}, 300), {}, answer);
  const Cell& cell = result.kernels[0].cells[0];
  EXPECT_EQ(cell.verdict, Verdict::kPassed);
  int64_t cases = 0, passed = 0;
  for (const auto& [storage, one] : cell.sharpness) {
    passed += one.without_error;
    for (const auto& [quarter, count] : one.quarters) {
      passed += count;
      if (storage == "f32") cases += count;
    }
  }
  EXPECT_EQ(passed, cell.checked);
  EXPECT_GT(cases, 50);
  int64_t below = 0;
  for (const auto& [quarter, count] : cell.sharpness.at("f32").quarters)
    if (2 * (below += count) >= cases) return quarter;
  return -1;
}

// One kernel rounds the answer once; the other is eight units of the last place
// further off, within its declaration.
TEST(Sharpness, WhoUsesItsArithmeticUpIsNearerToItsBound) {
  const int exact = median_quarter({});
  const int used =
      median_quarter([](const KernelCall&, OracleOutput& oracle, CallOutcome&) {
        for (double& o : oracle.o) o *= 1 + 0x1p-21;
      });
  EXPECT_GT(exact, used + 4 * 2) << "four times as far from its bound";
  EXPECT_GE(used, 0);
}

}  // namespace
}  // namespace qkvet::properties::trust_test
