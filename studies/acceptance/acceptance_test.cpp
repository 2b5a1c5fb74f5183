// SPDX-License-Identifier: Apache-2.0
// The assumptions of the comparison with others' acceptance rules, and controls
// that fail if they are not true.
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/half.h"
#include "studies/acceptance/page.h"
#include "studies/acceptance/study.h"

namespace qkvet::studies::acceptance_test {
namespace {

const Comparison& row(const std::vector<Comparison>& all, const char* rule,
                      const char* defect) {
  for (const Comparison& c : all)
    if (c.rule == &rule_named(rule) && c.defect == &defect_named(defect))
      return c;
  ADD_FAILURE() << rule << ", " << defect << ": no such row";
  return all.front();
}

TEST(Acceptance, QuickRunSaysWhatThePageSays) {
  const std::vector<Comparison> all =
      compare_rules(quick_effort(), rules(), declared_model);
  ASSERT_EQ(all.size(), rules().size() * defects().size());
  EXPECT_EQ(exit_code(all), 0);
  for (const Comparison& c : all) {
    SCOPED_TRACE(std::string(c.rule->name) + ", " + c.defect->name);
    EXPECT_EQ(c.ours_targeted.noticed, c.ours_targeted.tried);
    EXPECT_GE(noticed_octaves(c.ours_with_lse, c.defect->measure),
              noticed_octaves(c.ours, c.defect->measure));
    if (c.defect->measure != Measure::kAmount) continue;
    ASSERT_TRUE(c.ours_targeted.amount.has_value());
    EXPECT_LE(*c.ours_targeted.amount, 1e-4);
  }

  const Comparison& cudnn = row(all, "cudnn-frontend, bf16", "scale off");
  EXPECT_GE(cudnn.theirs.amount.value_or(kLargestAmount), 0.05);
  EXPECT_LE(row(all, "FlashInfer 1e-3, f16", "scale off")
                .theirs.amount.value_or(kLargestAmount),
            0.01);
  const Cell& mean = row(all, "KernelBench, f16", "mean of V").theirs;
  EXPECT_FALSE(std::binary_search(mean.noticed.begin(), mean.noticed.end(),
                                  int64_t{512}));
  EXPECT_TRUE(
      row(all, "ggml, f16", "one wrong sign").theirs_targeted.noticed.empty());
  EXPECT_TRUE(
      row(all, "benchdnn --sdpa, bf16", "all zero").theirs.noticed.empty());
  EXPECT_TRUE(
      row(all, "FA3 and FA4, bf16", "no maximum").theirs.noticed.empty());
}

// One rule of one's own, at one length.
std::vector<Comparison> compare_one(bool (*accepts)(const Evidence&,
                                                    const std::vector<double>&),
                                    Models models) {
  static Rule rule;
  rule = rule_named("FA2 kvcache, bf16");
  rule.accepts = accepts;
  return compare_rules({{128}, 1}, std::span(&rule, 1), models);
}

bool accept_all(const Evidence&, const std::vector<double>&) { return true; }

TEST(Acceptance, ARuleThatAcceptsEverythingNoticesNothing) {
  for (const Comparison& c : compare_one(accept_all, declared_model)) {
    EXPECT_TRUE(c.theirs.noticed.empty()) << c.defect->name;
    EXPECT_TRUE(c.theirs_targeted.noticed.empty()) << c.defect->name;
    EXPECT_TRUE(c.theirs.alarms.empty());
  }
}

// The correct kernel rounds on its way, so requiring equality refuses it.
TEST(Acceptance, ARuleThatRefusesTheCorrectKernelRaisesAnAlarm) {
  const std::vector<Comparison> all = compare_one(
      [](const Evidence& evidence, const std::vector<double>& o) {
        return o == evidence.expected;
      },
      declared_model);
  EXPECT_EQ(alarms_of_ours(all), 0);
  EXPECT_EQ(alarms_of_theirs(all), static_cast<int64_t>(all.size()));
  EXPECT_EQ(exit_code(all), 1);
  for (const Comparison& c : all) {
    EXPECT_TRUE(c.theirs.noticed.empty()) << c.defect->name;
    EXPECT_EQ(cell_text(c.theirs, c.defect->measure), "alarm");
  }
}

// A declaration without the rounding of P is untrue for this kernel.
TEST(Acceptance, AnUntrueDeclarationIsAnAlarmOfTheBound) {
  const auto untrue = [](Dtype) { return declared_model(Dtype::kF32); };
  const std::vector<Comparison> all = compare_one(accept_all, untrue);
  EXPECT_GT(alarms_of_ours(all), 0);
  EXPECT_EQ(alarms_of_theirs(all), 0);
  EXPECT_EQ(exit_code(all), 1);
}

TEST(Acceptance, TheKernelIsAttentionAndEveryDefectIsOne) {
  const Setting setting = {Dtype::kF32, 16, 4, InputLaw::kNormal};
  for (const Defect& defect : defects()) {
    const Causal causal =
        defect.measure == Measure::kSquare ? Causal::kTopLeft : Causal::kNone;
    const CallData call(setting, square_extents(2, 24, causal));
    const Kernel kernel(call);
    const Truth truth(call, declared_model(Dtype::kF32));
    EXPECT_TRUE(truth.accepts(kernel.run({}), /*with_lse=*/true));
    // Scores of this size need no maximum, so the output is right.
    if (!defect.hooks.subtracts_max) continue;
    EXPECT_FALSE(truth.accepts(defective_output(kernel, defect, 0.01),
                               /*with_lse=*/false))
        << defect.name;
  }
}

TEST(Acceptance, TheFrameworkRoundsMoreThanTheKernel) {
  const Setting setting = {Dtype::kBf16, 64, 16, InputLaw::kNormal};
  const CallData call(setting, decode_extents(setting.rows, 256));
  const std::vector<double> o = Kernel(call).run({}).o;
  const std::vector<double> framework = framework_run(call);
  const Truth truth(call, declared_model(Dtype::kBf16));
  double kernel_error = 0, framework_error = 0;
  for (size_t n = 0; n < o.size(); ++n) {
    const double exact = truth.oracle().o[n];
    kernel_error += std::fabs(o[n] - exact);
    framework_error += std::fabs(framework[n] - exact);
  }
  EXPECT_GT(framework_error, 1.2 * kernel_error);
  EXPECT_LT(framework_error, 20 * kernel_error);
}

// The first and second moment of each law; a constant would pass none.
TEST(Acceptance, DataFollowsItsLaw) {
  struct Expected {
    InputLaw law;
    double mean, square;
  };
  for (const auto& [law, mean, square] :
       {Expected{InputLaw::kNormal, 0, 1},
        Expected{InputLaw::kUniform, 0, 1.0 / 3},
        Expected{InputLaw::kPositive, 0.5, 1.0 / 3},
        Expected{InputLaw::kIntegers, 0, 2},
        Expected{InputLaw::kSparseIntegers, 0, 0.4}}) {
    const CallData call({Dtype::kF32, 64, 8, law}, decode_extents(8, 4096));
    double sum = 0, squares = 0;
    for (const float x : call.v()) {
      sum += static_cast<double>(x);
      squares += static_cast<double>(x) * static_cast<double>(x);
    }
    const auto count = static_cast<double>(call.v().size());
    EXPECT_NEAR(sum / count, mean, 0.01) << law_text(law);
    EXPECT_NEAR(squares / count, square, 0.02) << law_text(law);
  }
}

TEST(Acceptance, CellsSayWhatWasNoticed) {
  const Cell some = {{32, 64, 128, 1024}, {32, 128}, {}, {}};
  EXPECT_EQ(cell_text(some, Measure::kLengths), "up to 128, not at 64");
  const Cell few = {{32, 64, 128, 1024}, {1024}, {}, {}};
  EXPECT_EQ(cell_text(few, Measure::kLengths), "only at 1,024");
  const Cell all = {{32, 1024}, {32, 1024}, {}, {}};
  EXPECT_EQ(cell_text(all, Measure::kLengths), "always");
  const Cell alarmed = {{32, 1024}, {1024}, {32}, {}};
  EXPECT_EQ(cell_text(alarmed, Measure::kLengths), "up to 1,024; alarm at 32");
  EXPECT_EQ(cell_text({{256}, {}, {}, {}}, Measure::kAmount), "never");
  EXPECT_EQ(cell_text({{256}, {256}, {}, 0.0123}, Measure::kAmount), "1.2 %");
  EXPECT_EQ(cell_text({{256}, {256}, {}, 1.5}, Measure::kAmount), "150 %");
  EXPECT_EQ(cell_text({{256}, {256}, {}, 0.0000123}, Measure::kAmount),
            "0.0012 %");
  EXPECT_EQ(cell_text({{256}, {}, {}, {}}, Measure::kSquare), "no");
}

}  // namespace
}  // namespace qkvet::studies::acceptance_test
