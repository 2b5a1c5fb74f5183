// SPDX-License-Identifier: Apache-2.0
// A kernel gets the same cases alone and with others.
#include "properties/run/own_plan.h"

#include <gtest/gtest.h>

#include <atomic>

#include "core/capability/capability.h"
#include "properties/cases/generate.h"
#include "properties/testing/fake_executor.h"

namespace qkvet::properties::own_plan_test {
namespace {

// The library of a test: each of its kernels refuses undeclared calls, as the
// door does.
class Library : public Executor {
 public:
  Library(const std::vector<KernelUnderTest>& kernels,
          FakeExecutor::Question question)
      : computes_(std::move(question)) {
    for (const KernelUnderTest& kernel : kernels)
      infos_.push_back(kernel.judged.info);
  }
  const std::vector<KernelInfo>& kernels() const override { return infos_; }
  std::vector<CallOutcome> run(int kernel,
                               std::span<const KernelCall> calls) override {
    std::vector<CallOutcome> out;
    for (const KernelCall& call : calls) {
      CallOutcome refused;
      refused.status = CallStatus::kUnsupported;
      refused.undeclared = !capability_allows(
          infos_[static_cast<size_t>(kernel)], call, &refused.text);
      out.push_back(refused.undeclared ? refused
                                       : computes_.run(0, {&call, 1})[0]);
    }
    return out;
  }

 private:
  FakeExecutor computes_;
  std::vector<KernelInfo> infos_;
};

KernelUnderTest named(const char* name, std::vector<StorageTypes> stored) {
  KernelUnderTest kernel = FakeExecutor::under_test();
  kernel.judged.info.name = name;
  qkvet_capabilities& can = kernel.judged.info.capabilities;
  for (const StorageTypes& types : stored)
    can.dtypes[can.dtype_count++] = {
        dtype_to_abi(types.q), dtype_to_abi(types.kv), dtype_to_abi(types.o)};
  return kernel;
}

KernelUnderTest rich() {
  return named("fake/rich", {Dtype::kBf16, Dtype::kF32, Dtype::kF16});
}

// A kernel as it is right after a template: without further declarations.
KernelUnderTest poor(const char* name = "fake/poor") {
  KernelUnderTest kernel = named(name, {Dtype::kF32});
  qkvet_capabilities& can = kernel.judged.info.capabilities;
  can.options = QKVET_OPTION_CAUSAL_BOTTOM_RIGHT | QKVET_OPTION_DEFAULT_SCALE |
                QKVET_OPTION_CROSS_LENGTHS;
  can.layouts = QKVET_LAYOUT_BHTD;
  return kernel;
}

RunResult run_all(std::vector<KernelUnderTest> kernels, RunOptions options,
                  const FakeExecutor::Question& question = {}) {
  for (size_t k = 0; k < kernels.size(); ++k)
    kernels[k].index = static_cast<int>(k);
  options.scope.dtypes = declared_dtypes(kernels);
  return run_plan(
      kernels,
      [&](size_t) {
        return Opened{std::make_unique<Library>(kernels, question), ""};
      },
      options);
}

RunOptions some_laws(int64_t cases) {
  return options_for(
      {"permuted_keys_change_nothing", "weights_sum_to_one",
       "page_size_changes_nothing", "rows_stay_in_hull", "agrees_with_oracle"},
      cases);
}

void expect_same(const KernelResult& one, const KernelResult& other) {
  EXPECT_EQ(one.drawn, other.drawn);
  EXPECT_EQ(one.never_drawn, other.never_drawn);
  EXPECT_EQ(one.hollow, other.hollow);
  EXPECT_EQ(one.pairs.met, other.pairs.met);
  EXPECT_EQ(one.pairs.triples, other.pairs.triples);
  ASSERT_EQ(one.cells.size(), other.cells.size());
  for (size_t i = 0; i < one.cells.size(); ++i) {
    const Cell &a = one.cells[i], &b = other.cells[i];
    SCOPED_TRACE(a.law->id);
    EXPECT_EQ(a.verdict, b.verdict);
    EXPECT_EQ(a.reason, b.reason);
    EXPECT_EQ(a.planned, b.planned);
    EXPECT_EQ(a.checked, b.checked);
    EXPECT_EQ(a.unsupported, b.unsupported);
    EXPECT_EQ(a.not_applicable, b.not_applicable);
    EXPECT_EQ(a.elements.compared, b.elements.compared);
    EXPECT_EQ(a.worst_ratio, b.worst_ratio);
    ASSERT_EQ(a.failure.has_value(), b.failure.has_value());
    if (!a.failure) continue;
    EXPECT_EQ(a.failure->number, b.failure->number);
    EXPECT_EQ(to_string(a.failure->found), to_string(b.failure->found));
    EXPECT_EQ(to_string(a.failure->smallest), to_string(b.failure->smallest));
  }
}

// Wrong where few cases of a rich plan are and some of a poor one.
void wrong_for_some_keys(KernelCall& call, Problem& problem) {
  if (call.shape.Tk % 13 == 5) problem.scale *= 1.01;
}

void expect_same_beside(const RunOptions& options,
                        const FakeExecutor::Question& question) {
  const RunResult alone = run_all({poor()}, options, question);
  EXPECT_EQ(some_failed(alone), question != nullptr);
  const RunResult first = run_all({poor(), rich()}, options, question);
  expect_same(alone.kernels[0], first.kernels[0]);
  const RunResult last = run_all({rich(), poor()}, options, question);
  expect_same(alone.kernels[0], last.kernels[1]);
}

TEST(OwnPlan, AKernelIsJudgedBesideOthersAsAlone) {
  expect_same_beside(some_laws(100), {});
  expect_same_beside(some_laws(200), wrong_for_some_keys);
}

TEST(OwnPlan, AndSoItIsInEveryKindOfPlan) {
  RunOptions options = some_laws(40);
  options.shards = 2;
  expect_same_beside(options, {});
  options.shards = 1;
  options.fail_fast = true;
  expect_same_beside(options, {});
  options.fail_fast = false;
  options.covers_pairs = true;
  expect_same_beside(options, {});
}

// The plan follows from its own declaration: it does not lack storage and
// options of other kernels.
TEST(OwnPlan, NotDeclaredIsSaidOfWhatItDoesNotDeclare) {
  const RunResult result = run_all({rich(), poor()}, some_laws(100));
  for (const Cell& cell : result.kernels[0].cells)
    EXPECT_EQ(cell.verdict, Verdict::kPassed) << cell.reason;
  std::vector<std::string> reasons;
  for (const Cell& cell : result.kernels[1].cells) {
    if (cell.verdict == Verdict::kPassed) {
      EXPECT_GE(cell.checked, cell.planned * 3 / 4) << cell.law->id;
      continue;
    }
    EXPECT_EQ(cell.verdict, Verdict::kUnsupported) << cell.law->id;
    reasons.push_back(cell.law->id + (": " + cell.reason));
  }
  EXPECT_EQ(reasons, std::vector<std::string>{
                         "page_size_changes_nothing: not declared: pages"});
}

// The short plan: cases that several kernels can take are made once, and each
// kernel gets others instead of those that it cannot.
TEST(OwnPlan, InTheShortPlanEachKernelHasItsNumber) {
  RunOptions options = some_laws(0);
  options.cases_per_law = 24;
  const RunResult result = run_all({rich(), poor()}, options);
  EXPECT_GT(result.replaced_cases, 0);
  for (const KernelResult& kernel : result.kernels)
    for (const Cell& cell : kernel.cells) {
      if (cell.unsupported == 0) continue;
      EXPECT_GE(cell.checked + cell.not_applicable, cell.planned)
          << kernel.kernel.judged.info.name << " " << cell.law->id;
    }
  EXPECT_GE(result.kernels[1].cells[4].checked, 20);
}

std::atomic<int> oracles{0};
OracleOutput counting(const Problem& problem) {
  ++oracles;
  return plain_forward(problem);
}

TEST(OwnPlan, KernelsOfOneDeclarationShareTheirCases) {
  RunOptions options = some_laws(60);
  options.oracle = counting;
  const auto count = [&](const std::vector<KernelUnderTest>& kernels) {
    oracles = 0;
    run_all(kernels, options);
    return oracles.load();
  };
  const int one = count({poor()});
  EXPECT_GT(one, 0);
  EXPECT_EQ(count({poor(), poor("fake/other")}), one);
  // The control: another declaration has cases of its own.
  EXPECT_GT(count({poor(), rich()}), one);
}

// Agreement, which puts a softcap into all of its cases but those of one seed.
uint64_t seed_without_softcap = 0;
Law mostly_with_softcap() {
  Law law = *find_law("agrees_with_oracle");
  law.id = "mostly_with_softcap";
  law.constrain = [](Case value) {
    value.softcap = value.seed == seed_without_softcap ? 0 : 2;
    return value;
  };
  return law;
}

// A law that can be checked, but without any drawn case that fits the
// declaration, is open and not undeclared.
TEST(OwnPlan, WhatIsDrawnAndNeverFitsIsOpen) {
  const Law law = mostly_with_softcap();
  RunOptions options;
  options.cases = 2;
  const Scope own = own_scope(poor(), options.scope);
  const auto verdict = [&] {
    return run_all({poor()}, options).kernels[0].cells[0];
  };
  // Only the second number draws a case that fits. With another law, the plan
  // of the first one has the odd numbers.
  seed_without_softcap = planned_case(law, options.seed, 2, own).seed;
  options.laws = {&law, find_law("weights_sum_to_one")};
  const Cell open = verdict();
  EXPECT_EQ(open.verdict, Verdict::kGaveUp);
  EXPECT_TRUE(
      open.reason.ends_with(" cases were drawn, and none is as declared: "
                            "a softcap is not declared"))
      << open.reason;
  // The controls: alone it has all numbers; with a softcap in each case it is
  // not declared.
  options.laws = {&law};
  EXPECT_EQ(verdict().verdict, Verdict::kPassed);
  options.laws = {&law, find_law("weights_sum_to_one")};
  seed_without_softcap = 0;
  EXPECT_EQ(verdict().verdict, Verdict::kUnsupported);
}

// A pinned extent does not reduce the number of cases of laws that need another
// extent.
TEST(OwnPlan, CasesThatAPinExcludesAreNoneOfItsNumber) {
  RunOptions options =
      options_for({"permuted_keys_change_nothing", "agrees_with_oracle"}, 40);
  std::string error;
  options.scope.pins = parse_pins("Tk=1", &error);
  const std::vector<Cell> cells = run_all({rich()}, options).kernels[0].cells;
  EXPECT_EQ(cells[0].unsupported, 20);
  EXPECT_EQ(cells[0].planned, 0);
  EXPECT_EQ(cells[1].planned, 20);
}

}  // namespace
}  // namespace qkvet::properties::own_plan_test
