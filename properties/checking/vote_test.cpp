// SPDX-License-Identifier: Apache-2.0
// The vote finds a sabotaged oracle, and only that.
#include "properties/checking/vote.h"

#include <gtest/gtest.h>

#include <cmath>

#include "properties/testing/fake_executor.h"
#include "reference/seeded/seeded.h"

namespace qkvet::properties::vote_test {
namespace {

OracleOutput sabotaged(const Problem& problem) {
  return seeded_forward(SeededFault::kPlainHeadModulo, problem);
}

KernelUnderTest kernel_named(const char* name, size_t library) {
  KernelUnderTest kernel = FakeExecutor::under_test();
  kernel.judged.info.name = name;
  kernel.library = library;
  return kernel;
}

// Two right kernels of different families; the second one may be corrupted.
RunResult run_two(Oracle oracle, const char* second,
                  FakeExecutor::Answer spoil = {}) {
  RunOptions options;
  options.laws = {find_law("agrees_with_oracle")};
  options.cases = 256;
  options.oracle = oracle;
  return run_plan(
      {kernel_named("one/right", 0), kernel_named(second, 1)},
      [&spoil](size_t library) {
        return Opened{std::make_unique<FakeExecutor>(
                          FakeExecutor::Question{},
                          library == 1 ? spoil : FakeExecutor::Answer{}),
                      ""};
      },
      options);
}

void one_more(const KernelCall&, OracleOutput& oracle, CallOutcome&) {
  for (double& o : oracle.o) o += 1;
}

TEST(Vote, SuspectsASabotagedOracle) {
  const RunResult result = run_two(sabotaged, "two/right");
  ASSERT_TRUE(result.suspicion);
  EXPECT_GT(result.suspicions, 0);
  EXPECT_EQ(result.suspicion->kernels,
            (std::vector<std::string>{"one/right", "two/right"}));
  EXPECT_EQ(result.suspicion->where.substr(0, 2), "o[");
  // Heads are only mixed up where there are groups of them.
  EXPECT_GT(result.suspicion->value.shape.Hkv, 1);
  EXPECT_LT(result.suspicion->value.shape.Hkv, result.suspicion->value.shape.H);
}

TEST(Vote, SuspectsNothingWhereTheOracleIsRight) {
  const RunResult result = run_two(plain_forward, "two/right");
  EXPECT_FALSE(result.suspicion);
  EXPECT_EQ(result.kernels[0].cells[0].verdict, Verdict::kPassed);
}

TEST(Vote, OneFamilyIsNoMajority) {
  EXPECT_FALSE(run_two(sabotaged, "one/other").suspicion);
}

TEST(Vote, OneKernelThatAgreesWithTheOracleClearsIt) {
  EXPECT_FALSE(run_two(plain_forward, "two/wrong", one_more).suspicion);
}

TEST(Vote, KernelsThatDifferAmongThemselvesAreNoWitnesses) {
  EXPECT_FALSE(run_two(sabotaged, "two/wrong", one_more).suspicion);
}

TEST(Vote, NotANumberIsNoAnswer) {
  Case value;
  const Ballot ballots[] = {{"a/x", false, {1.0}, {0.1}, "o"},
                            {"b/x", false, {std::nan("")}, {0.1}, "o"},
                            {"c/x", false, {1.15}, {0.1}, "o"},
                            {"d/x", false, {1.25}, {0.1}, "o"}};
  EXPECT_FALSE(count_votes(value, 1, {ballots[0], ballots[1]}));
  EXPECT_TRUE(count_votes(value, 1, {ballots[0], ballots[2]}));
  EXPECT_FALSE(count_votes(value, 1, {ballots[0], ballots[3]}));
}

}  // namespace
}  // namespace qkvet::properties::vote_test
