// SPDX-License-Identifier: Apache-2.0
// Laws about merges on kernels of the program: right kernels pass all of them
// and come near to their bound. The test of all faults
// (cli/hunt/kill_test.cpp) checks that every fault of impl/faulty/merges.cpp
// is killed by the laws that it names.
#include <gtest/gtest.h>

#include "properties/cases/generate.h"
#include "properties/conventions/domain.h"
#include "properties/run/runner.h"
#include "properties/testing/family_kernel.h"

namespace qkvet::properties::merge_law_test {
namespace {

std::vector<const Law*> laws_of_merges() {
  std::vector<const Law*> laws;
  for (const Law* law : all_laws())
    if (law->domain.subject == Subject::kMerge) laws.push_back(law);
  return laws;
}

TEST(MergeLaws, ARightMergePassesThemAndComesNearToItsBound) {
  const auto [open, kernel] = family_kernel(
      "qkvet_scalar.so", [](const KernelInfo& info) { return info.has_merge; });
  RunOptions options;
  options.laws = laws_of_merges();
  options.cases_per_law = 60;
  options.scope.dtypes = declared_dtypes({kernel});
  keep_scope_to({kernel}, options.scope);
  const RunResult result = run_plan({kernel}, open, options);
  ASSERT_EQ(result.kernels.size(), 1u) << result.error;
  ASSERT_EQ(result.kernels[0].cells.size(), options.laws.size());
  for (const Cell& cell : result.kernels[0].cells) {
    EXPECT_EQ(cell.verdict, Verdict::kPassed) << cell.law->id << cell.reason;
    EXPECT_GT(cell.checked, cell.law->domain.lasts ? 0 : 50) << cell.law->id;
  }
  EXPECT_GT(result.kernels[0].cells.back().worst_ratio, 0.5);
}

// Any layout is drawn, unless all kernels require this one.
TEST(MergeLaws, LseHeadsFirstAloneIsDrawnWhereItIsDeclared) {
  KernelUnderTest only, other;
  for (KernelUnderTest* kernel : {&only, &other}) {
    kernel->judged.info.has_merge = true;
    kernel->judged.info.merge_options =
        QKVET_MERGE_RAGGED | QKVET_MERGE_LSE_HEADS_FIRST;
  }
  only.judged.info.merge_options |= QKVET_MERGE_LSE_HEADS_FIRST_ONLY;
  const auto others = [](const std::vector<KernelUnderTest>& kernels) {
    Scope scope;
    keep_scope_to(kernels, scope);
    int count = 0;
    for (const Law* law : laws_of_merges())
      for (int64_t number = 1; number <= 50; ++number)
        count += planned_case(*law, 1, number, scope).layout != Layout::kBthd;
    return count;
  };
  EXPECT_EQ(others({only}), 0);
  EXPECT_GT(others({other}), 0);
  EXPECT_GT(others({only, other}), 0);
}

// The case that a law needs is a merge that can be spelled.
TEST(MergeLaws, EveryDrawnCaseIsOneAndMeetsItsLaw) {
  for (const Law* law : laws_of_merges())
    for (int64_t number = 1; number <= 50; ++number) {
      const Case value = planned_case(*law, 1, number, Scope{});
      EXPECT_EQ(value.subject(), Subject::kMerge);
      EXPECT_EQ(invalid_reason(value), "") << law->id;
      const ParsedCase parsed = parse_case(to_string(value));
      ASSERT_TRUE(parsed.value) << to_string(value) << parsed.error;
      EXPECT_EQ(*parsed.value, value);
      EXPECT_EQ(constrained(*law, value), value) << to_string(value);
    }
}

// Simpler cases are simpler merges, and shrinking ends.
TEST(MergeLaws, SimplerCasesAreMerges) {
  const Law& law = *find_law("ragged_rows_equal_padded_rows");
  const Case value = planned_case(law, 1, 1, Scope{});
  const std::vector<Case> simpler = simpler_cases(law, value);
  EXPECT_GT(simpler.size(), 3u);
  for (const Case& one : simpler) {
    EXPECT_EQ(one.subject(), Subject::kMerge);
    EXPECT_FALSE(one.kv_len.empty());
    EXPECT_NE(one, value);
  }
}

}  // namespace
}  // namespace qkvet::properties::merge_law_test
