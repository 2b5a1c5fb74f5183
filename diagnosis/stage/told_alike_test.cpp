// SPDX-License-Identifier: Apache-2.0
// Which failures are merged into one report, which of them leads it, and the
// cause that a description alone implies.
#include <gtest/gtest.h>

#include "diagnosis/diagnose.h"
#include "diagnosis/stage/described_cause.h"
#include "diagnosis/test_faults.h"
#include "properties/testing/fake_executor.h"

namespace qkvet::diagnosis::told_alike_test {
namespace {

KernelUnderTest with_options(uint64_t options) {
  KernelUnderTest kernel = FakeExecutor::under_test();
  kernel.judged.info.capabilities.options &=
      options | QKVET_OPTION_DEFAULT_SCALE | QKVET_OPTION_CROSS_LENGTHS |
      QKVET_OPTION_CAUSAL_TOP_LEFT | QKVET_OPTION_CAUSAL_BOTTOM_RIGHT;
  return kernel;
}

// The first failure has no known cause and the second has one; the two reports
// have the same text.
TEST(ToldAlike, IsOneReportUnderTheSurerCause) {
  const FakeExecutor::Question scaled = [](KernelCall&, Problem& problem) {
    problem.scale *= 1.01;
  };
  const Reported told =
      report_on(with_options(0), opening<FakeExecutor>(scaled),
                {"scale_is_one_over_sqrt_d", "agrees_with_oracle"},
                /*cases=*/600, Catalogue());
  ASSERT_EQ(told.failures.size(), 2u);
  ASSERT_EQ(told.causes.size(), 1u);
  EXPECT_EQ(told.causes[0].diagnosis.name(), "other_scale");
  EXPECT_EQ(told.causes[0].others.size(), 1u);
  // Nor is it a convention.
  for (const Failure& failure : told.failures) EXPECT_EQ(failure.dialect, "");
}

// A number slightly outside its bound, and a row without a key, are less
// informative than another failure of the same cause.
TEST(ToldAlike, TheLawThatShowsMostLeads) {
  const KernelUnderTest kernel = with_options(0);
  const FakeExecutor::Answer spoil = [](const KernelCall& call,
                                        OracleOutput& out, CallOutcome&) {
    for (double& o : out.o) o = call.shape.Tk > 2 ? 2 * o + 1 : o;
  };
  const ExecutorFactory open = opening<FakeExecutor>(nullptr, spoil);
  std::vector<Failure> failures = failures_for_test(
      kernel, open,
      {find_law("agrees_with_oracle"), find_law("rows_stay_in_hull")}, 200);
  ASSERT_EQ(failures.size(), 2u);
  const auto leads = [&] {
    TimeUse time;
    const Opened executor = open(0);
    const auto causes = diagnose_all(pointers_to(failures), kernel,
                                     *executor.executor, Catalogue(), time);
    EXPECT_EQ(causes.size(), 1u);
    return causes[0].best - failures.data();
  };
  EXPECT_EQ(leads(), 0);
  Finding& first = *failures[0].judgement.finding;
  first.expected = "0 (declared for a row that sees no key)";
  EXPECT_EQ(leads(), 1);
  first.expected = "1";
  first.ratio = 1.2;
  EXPECT_EQ(leads(), 1);
}

OutputInstead output_of(const std::string& text) {
  OutputInstead out;
  out.text = text;
  out.elements = 96;
  out.cases = 8;
  return out;
}

TEST(DescribedCause, IsWhatExplainsAllWrongNumbers) {
  Instead instead;
  instead.outputs = {
      output_of("the result of the keys that the row should not see, alone")};
  const auto described = described_cause(instead);
  ASSERT_TRUE(described);
  EXPECT_EQ(described->cause,
            "o is the result of the keys that the row should not see, alone");
  EXPECT_EQ(described->evidence,
            "so are all of 96 wrong elements in 8 failing cases");
  EXPECT_NE(described->fix.find("the other way round"), std::string::npos);
}

TEST(DescribedCause, OfLessNothingIsSaid) {
  Instead instead;
  EXPECT_FALSE(described_cause(instead));
  instead.outputs = {output_of("")};
  EXPECT_FALSE(described_cause(instead));
  instead.outputs = {output_of("right values of other elements")};
  EXPECT_FALSE(described_cause(instead));
  instead.outputs = {output_of("the result without the mask")};
  EXPECT_TRUE(described_cause(instead));
  instead.outputs[0].of_most = true;
  EXPECT_FALSE(described_cause(instead));
  instead.outputs[0].of_most = false;
  instead.outputs[0].cases = 2;
  EXPECT_FALSE(described_cause(instead));
  instead.outputs[0].cases = 8;
  instead.outputs.push_back(output_of(""));
  EXPECT_FALSE(described_cause(instead));
}

TEST(DescribedCause, AWrittenInputIsOne) {
  Instead instead;
  instead.end.say({"q, which is an input, is written to"});
  instead.end.cases = instead.end.of = 88;
  const auto described = described_cause(instead);
  ASSERT_TRUE(described);
  EXPECT_EQ(described->cause, "q, which is an input, is written to");
  EXPECT_NE(described->fix, "");
  instead.end.of = 89;
  EXPECT_FALSE(described_cause(instead));
}

}  // namespace
}  // namespace qkvet::diagnosis::told_alike_test
