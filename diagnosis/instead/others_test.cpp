// SPDX-License-Identifier: Apache-2.0
// Stages of caches, layers and merges, and descriptions of caches and merges:
// known faults with the stage and description that follow from their mechanism,
// each with another fault as its control; some without any description; and
// state left by earlier calls.
#include <gtest/gtest.h>

#include "diagnosis/test_faults.h"
#include "properties/testing/fake_executor.h"

namespace qkvet::diagnosis::others_test {
namespace {

struct Known {
  const char* fault;
  const char* law;
  Stage stage;
  const char* instead = "";  // the report begins so; "": none
};
void PrintTo(const Known& row, std::ostream* out) { *out << row.fault; }

class OtherSubjects : public testing::TestWithParam<Known> {};

TEST_P(OtherSubjects, HaveTheStageOfTheirMechanism) {
  const Known& known = GetParam();
  const Opened opened = open_for_test(QKVET_FAULTY);
  ASSERT_NE(opened.executor, nullptr) << opened.error;
  const Law* law = find_law(known.law);
  ASSERT_NE(law, nullptr);
  const KernelUnderTest kernel = fault_for_test(*opened.executor, known.fault);
  const std::vector<Failure> failures =
      failures_for_test(kernel, open_faults, {law}, 2000);
  ASSERT_FALSE(failures.empty());
  TimeUse time;
  const Instead instead = look_what_it_is_instead(
      failures[0], {}, {kernel, *opened.executor, time});
  EXPECT_STREQ(stage_name(instead.stage), stage_name(known.stage))
      << to_string(failures[0].smallest);
  const std::string said = instead.text();
  EXPECT_TRUE(said.starts_with(known.instead)) << said;
  EXPECT_EQ(said.empty(), std::string(known.instead).empty()) << said;
}

INSTANTIATE_TEST_SUITE_P(
    Instead, OtherSubjects,
    testing::Values(
        Known{"cache_append_wrong_axis", "cache_agrees_with_history",
              Stage::kWritten, "no single description fits o and lse: "},
        Known{
            "cache_reorder_keys_only", "cache_agrees_with_history",
            Stage::kMoved,
            "o is the last key's weight times its value, all others missing: "},
        Known{"cache_truncate_keeps_values", "cache_agrees_with_history",
              Stage::kMoved, "no single description fits o: "},
        Known{"cache_chunk_length_too_long", "cache_agrees_with_history",
              Stage::kAttended,
              "o is a sum of values of its key/value head, of hidden keys as "
              "well, with wrong weights: "},
        Known{"cache_window_one_too_wide", "cache_agrees_with_history",
              Stage::kAttended,
              "o and lse are the result without the window: "},
        Known{"cache_length_from_full_draft", "cache_agrees_with_history",
              Stage::kRead, "no single description fits o and lse: "},
        Known{"output_projection_omitted", "layer_agrees_with_oracle",
              Stage::kProjectOut,
              "y is the merged heads, with b_o and without w_o: "},
        Known{"value_bias_ignored", "layer_agrees_with_oracle",
              Stage::kProjectV, "v is the result without b_v: "},
        Known{"merge_lse_of_the_mean", "merge_agrees_with_oracle", Stage::kLse,
              "lse is the right value minus ln(number of states): "},
        Known{"merge_weights_of_the_other", "merge_agrees_with_oracle",
              Stage::kMergeWeights,
              "o is the result of lse in the reverse order of states: "},
        Known{"merge_wrong_base", "merge_agrees_with_oracle", Stage::kUnknown,
              "o is the result of the lse of the states times 0.69315: "},
        Known{"merge_ragged_leaves_last", "merge_agrees_with_oracle",
              Stage::kUnknown, "no single description fits o and lse: "},
        // The first failing case has scores of -100. Their exponentials keep a
        // few bits, so that o is no NaN there.
        Known{"merge_no_maximum", "merge_agrees_with_oracle",
              Stage::kMergeMaximum, "no single description fits o: "}));

// A kernel that keeps its softcap for calls without one: the case alone is
// right. A kernel that is wrong without earlier calls must not be reported so.
TEST(EarlierCalls, ThatMatterAreSaidToMatter) {
  const auto stays = [kept = std::make_shared<double>(0)](KernelCall& call,
                                                          Problem& p) {
    if (call.new_process) *kept = 0;
    if (p.softcap > 0) *kept = p.softcap;
    p.softcap = *kept;
  };
  const auto is_wrong = [](KernelCall&, Problem& p) { p.scale *= 2; };
  for (const bool is_state : {true, false}) {
    const FakeExecutor::Question question =
        is_state ? FakeExecutor::Question(stays)
                 : FakeExecutor::Question(is_wrong);
    const KernelUnderTest kernel = FakeExecutor::under_test();
    const std::vector<Failure> failures =
        failures_for_test(kernel, opening<FakeExecutor>(question),
                          {find_law("agrees_with_oracle")}, 3000);
    ASSERT_FALSE(failures.empty());
    FakeExecutor executor(question);
    TimeUse time;
    const Diagnosis diagnosis =
        diagnose(failures[0], kernel, executor, known_faults_for_test(), time);
    EXPECT_EQ(diagnosis.earlier.decide(), is_state);
    EXPECT_EQ(diagnosis.name() == "earlier_call", is_state);
  }
}

}  // namespace
}  // namespace qkvet::diagnosis::others_test
