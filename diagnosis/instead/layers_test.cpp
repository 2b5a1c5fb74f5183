// SPDX-License-Identifier: Apache-2.0
// Descriptions of layers: known faults with expected texts that hold for fresh
// answers and not for another fault; and some without any description, for
// which nothing may be reported.
#include <gtest/gtest.h>

#include "diagnosis/test_faults.h"

namespace qkvet::diagnosis::layers_test {
namespace {

struct Known {
  const char* fault;
  const char* instead;  // how the text begins
  Stage stage;
};
void PrintTo(const Known& row, std::ostream* out) { *out << row.fault; }

struct LookedLayer {
  std::optional<Failure> failure;
  KernelUnderTest kernel;
  Instead instead;
};

LookedLayer look_at_layer(const std::string& fault, Executor& executor,
                          bool returns_stages = true) {
  LookedLayer out;
  out.kernel = fault_for_test(executor, fault);
  if (!returns_stages)
    out.kernel.judged.info.layer_options &= ~uint64_t{QKVET_LAYER_STAGES};
  std::vector<Failure> failures = failures_for_test(
      out.kernel, open_faults, {find_law("layer_agrees_with_oracle")}, 2000);
  if (failures.empty()) return out;
  TimeUse time;
  out.failure = std::move(failures[0]);
  out.instead =
      look_what_it_is_instead(*out.failure, {}, {out.kernel, executor, time});
  return out;
}

InsteadScore score_of(const LookedLayer& said, const LookedLayer& of,
                      Executor& executor) {
  TimeUse time;
  return score_instead(said.instead, *of.failure, {},
                       {of.kernel, executor, time}, /*seed=*/77, /*count=*/60);
}

class Layers : public testing::TestWithParam<Known> {};

TEST_P(Layers, SayWhatComesInstead) {
  const Known& known = GetParam();
  const Opened opened = open_for_test(QKVET_FAULTY);
  ASSERT_NE(opened.executor, nullptr) << opened.error;
  const LookedLayer looked = look_at_layer(known.fault, *opened.executor);
  ASSERT_TRUE(looked.failure);
  EXPECT_TRUE(looked.instead.text().starts_with(known.instead))
      << looked.instead.text();
  EXPECT_STREQ(stage_name(looked.instead.stage), stage_name(known.stage));
  const InsteadScore own = score_of(looked, looked, *opened.executor);
  EXPECT_EQ(own.right, own.all);
  if (!looked.instead.is_description()) return;
  EXPECT_GT(own.all, 3);
  // It does not hold for another fault of the same stage.
  const char* other = known.stage == Stage::kProjectOut
                          ? "output_projection_omitted"
                          : "fused_heads_interleaved";
  if (std::string(known.fault) == other) other = "heads_not_merged";
  const LookedLayer beside = look_at_layer(other, *opened.executor);
  ASSERT_TRUE(beside.failure);
  const InsteadScore wrong = score_of(looked, beside, *opened.executor);
  EXPECT_EQ(wrong.right, 0) << "of " << wrong.all;
}

INSTANTIATE_TEST_SUITE_P(
    Instead, Layers,
    testing::Values(
        Known{"value_bias_ignored",
              "v is the result without b_v: ", Stage::kProjectV},
        Known{"output_projection_omitted",
              "y is the merged heads, with b_o and without w_o: ",
              Stage::kProjectOut},
        Known{"output_projection_transposed",
              "y is the result of w_o read as its transpose: ",
              Stage::kProjectOut},
        Known{"heads_not_merged",
              "y is the result of heads as they lie, [H,T,dv] taken for [T,H "
              "dv]: ",
              Stage::kProjectOut},
        Known{"split_without_transpose",
              "q, k and v are right, but cut into heads as it lies, [T,heads "
              "width] taken for [heads,T,width]: ",
              Stage::kProjectQ},
        Known{"shared_projection",
              "k is the result of w_q instead of w_k: ", Stage::kUnknown},
        Known{
            "reshape_before_projection",
            "q is the result of each head's own slice of x and block of w_q: ",
            Stage::kProjectQ},
        Known{"rope_on_query_alone",
              "k is the result without its rotation: ", Stage::kProjectK},
        Known{"fused_heads_interleaved", "no single description fits ",
              Stage::kUnknown}));

// If only y is returned, its description has the stage.
TEST(Instead, ALayerWithoutStagesIsReadFromEndToEnd) {
  const Opened opened = open_for_test(QKVET_FAULTY);
  ASSERT_NE(opened.executor, nullptr) << opened.error;
  const Known faults[] = {
      {"value_bias_ignored", "y is the result without b_v: ", Stage::kProjectV},
      {"output_projection_transposed",
       "y is the result of w_o read as its transpose: ", Stage::kProjectOut},
      {"heads_not_merged", "no single description fits y: ", Stage::kUnknown}};
  for (const Known& known : faults) {
    const LookedLayer looked =
        look_at_layer(known.fault, *opened.executor, /*returns_stages=*/false);
    ASSERT_TRUE(looked.failure) << known.fault;
    EXPECT_TRUE(looked.instead.text().starts_with(known.instead))
        << looked.instead.text();
    EXPECT_STREQ(stage_name(looked.instead.stage), stage_name(known.stage));
  }
}

}  // namespace
}  // namespace qkvet::diagnosis::layers_test
