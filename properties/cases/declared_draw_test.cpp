// SPDX-License-Identifier: Apache-2.0
// Declared items get cases, and several causes of one law's failures are
// distinguished.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "core/capability/paths.h"
#include "properties/cases/generate.h"
#include "properties/run/runner.h"
#include "properties/testing/fake_executor.h"

namespace qkvet::properties::declared_draw_test {
namespace {

void wrong_scale(KernelCall& call, Problem& problem) {
  if (!call.scale) problem.scale = 1;
}

// ---- Declared items are drawn ----------------------------------------------

bool holds(const std::vector<std::string>& lines, const std::string& part) {
  return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
    return line.find(part) != std::string::npos;
  });
}

RunResult run_as_declared(const KernelUnderTest& kernel, RunOptions options,
                          const FakeExecutor::Question& question = {},
                          const FakeExecutor::Answer& answer = {}) {
  options.scope.dtypes = declared_dtypes({kernel});
  return run_fake(options, question, answer, kernel);
}

KernelUnderTest stored_as(std::initializer_list<StorageTypes> rules) {
  KernelUnderTest kernel = FakeExecutor::under_test();
  qkvet_capabilities& can = kernel.judged.info.capabilities;
  for (const StorageTypes& types : rules)
    can.dtypes[can.dtype_count++] = {
        dtype_to_abi(types.q), dtype_to_abi(types.kv), dtype_to_abi(types.o)};
  return kernel;
}

constexpr StorageTypes kHalfCache = {Dtype::kF32, Dtype::kF16, Dtype::kF32};

// A tenth of the sum over f16 keys is lost; with f32 everywhere nothing is.
void loses_half_values(const KernelCall& call, OracleOutput& oracle,
                       CallOutcome&) {
  if (call.kv_dtype == Dtype::kF16)
    for (double& o : oracle.o) o *= 0.9;
}

TEST(Declared, MixedStorageIsDrawnBesideOneType) {
  const KernelUnderTest kernel = stored_as({Dtype::kF32, kHalfCache});
  const RunOptions options = options_for({"agrees_with_oracle"}, 64);
  const RunResult right = run_as_declared(kernel, options);
  EXPECT_EQ(right.kernels[0].cells[0].verdict, Verdict::kPassed);
  EXPECT_TRUE(holds(right.kernels[0].drawn, "storage f32 "));
  EXPECT_TRUE(holds(right.kernels[0].drawn, "storage q=f32,kv=f16,o=f32 "));
  const RunResult wrong =
      run_as_declared(kernel, options, {}, loses_half_values);
  ASSERT_TRUE(wrong.kernels[0].cells[0].failure);
  EXPECT_EQ(storage_of(wrong.kernels[0].cells[0].failure->smallest),
            kHalfCache);
}

TEST(Declared, AKernelOfMixedStorageAloneIsJudged) {
  const KernelUnderTest kernel = stored_as({kHalfCache});
  const RunOptions options =
      options_for({"agrees_with_oracle", "weights_sum_to_one"}, 64);
  const RunResult right = run_as_declared(kernel, options);
  for (const Cell& cell : right.kernels[0].cells) {
    EXPECT_EQ(cell.verdict, Verdict::kPassed) << cell.reason;
    EXPECT_EQ(cell.unsupported, 0);
    EXPECT_GT(cell.checked, 20);
  }
  EXPECT_TRUE(run_as_declared(kernel, options, {}, loses_half_values)
                  .kernels[0]
                  .cells[1]
                  .failure);
}

TEST(Declared, WhatIsDeclaredAndNeverDrawnIsSaid) {
  KernelUnderTest kernel = stored_as({Dtype::kF32, Dtype::kFp8e4m3});
  kernel.judged.info.capabilities.options |= QKVET_OPTION_QUANT_SCALES;
  const RunResult result =
      run_as_declared(kernel, options_for({"agrees_with_oracle"}, 200));
  const std::vector<std::string>& never = result.kernels[0].never_drawn;
  EXPECT_TRUE(holds(never, "storage fp8e4m3"));
  EXPECT_TRUE(holds(never, "scales of quantised storage"));
  EXPECT_FALSE(holds(never, "windows"));
  EXPECT_TRUE(holds(result.kernels[0].drawn, "windows "));
}

// A run of small cases has no case around 128 keys, so none is missing.
TEST(Declared, APathBeyondTheSizesIsNotMissed) {
  KernelUnderTest kernel = stored_as({Dtype::kF32});
  qkvet_capabilities& can = kernel.judged.info.capabilities;
  ASSERT_EQ(read_paths("Tk=24 Tk=128", can), "");
  RunOptions options = options_for({"agrees_with_oracle"}, 1);
  for (const auto& [largest, is_missed] : {std::pair{SizeClass::kSmall, false},
                                           {SizeClass::kMedium, false},
                                           {SizeClass::kLarge, true},
                                           {SizeClass::kLong, true}}) {
    options.scope.largest = largest;
    const RunResult result = run_as_declared(kernel, options);
    const std::vector<std::string>& never = result.kernels[0].never_drawn;
    EXPECT_TRUE(holds(never, "around Tk=24")) << size_class_name(largest);
    EXPECT_EQ(holds(never, "around Tk=128"), is_missed)
        << size_class_name(largest);
  }
}

// A kernel with one pointer for q, k and v, or with rows of tokens alone.
TEST(Declared, CasesLieAsIsDeclared) {
  for (const auto& [layouts, layout] :
       {std::pair{QKVET_LAYOUT_PACKED_QKV, Layout::kPacked},
        std::pair{QKVET_LAYOUT_BTHD, Layout::kBthd}}) {
    KernelUnderTest kernel = FakeExecutor::under_test();
    qkvet_capabilities& can = kernel.judged.info.capabilities;
    can.layouts = layouts;
    can.options &= ~(QKVET_OPTION_CROSS_LENGTHS | QKVET_OPTION_VALUE_WIDTH |
                     QKVET_OPTION_PAGED | QKVET_OPTION_PAGED_CSR |
                     QKVET_OPTION_APPEND | QKVET_OPTION_EMPTY_EXTENTS);
    int64_t calls = 0, others = 0;
    const auto note = [&, wanted = layout](KernelCall& call, Problem&) {
      ++calls;
      others += call.layout != wanted || call.share != 0;
    };
    const RunResult result = run_as_declared(
        kernel, options_for({"agrees_with_oracle", "rows_stay_in_hull"}, 64),
        note);
    EXPECT_FALSE(some_failed(result));
    EXPECT_GT(calls, 60);
    EXPECT_EQ(others, 0);
  }
}

// A fault that is only there is found, and the report lists that it was
// searched for.
TEST(Declared, StridesReachAsFarAs32BitsDoNot) {
  const RunOptions options =
      options_for({"layout_changes_nothing", "agrees_with_oracle"}, 400);
  const RunResult right = run_as_declared(FakeExecutor::under_test(), options);
  EXPECT_FALSE(some_failed(right));
  EXPECT_TRUE(holds(right.kernels[0].drawn, "offsets to 2^32 elements "));
  for (const Layout wrong : {Layout::kFar, Layout::kGaps}) {
    const auto answer = [wrong](const KernelCall& call, OracleOutput& oracle,
                                CallOutcome&) {
      if (call.layout == wrong)
        for (double& o : oracle.o) o += 1;
    };
    const RunResult result =
        run_as_declared(FakeExecutor::under_test(), options, {}, answer);
    const Cell& cell = result.kernels[0].cells[0];
    ASSERT_EQ(cell.verdict, Verdict::kFailed);
    EXPECT_EQ(cell.failure->smallest.layout, wrong);
  }
}

TEST(Declared, CasesFitDeclaredExtents) {
  KernelUnderTest kernel = FakeExecutor::under_test();
  qkvet_capabilities& can = kernel.judged.info.capabilities;
  can.tq = can.tk = {0, 0, 32};
  can.group = {2, 0, 2};
  can.d = {16, 64, 16};
  std::vector<int64_t> seen;
  const auto note = [&seen](KernelCall& call, Problem&) {
    seen.push_back(call.shape.Tk);
  };
  const RunResult result = run_as_declared(
      kernel, options_for({"agrees_with_oracle", "rows_stay_in_hull"}, 64),
      note);
  for (const Cell& cell : result.kernels[0].cells) {
    EXPECT_EQ(cell.verdict, Verdict::kPassed) << cell.reason;
    EXPECT_GT(cell.checked, 24) << cell.law->id << ": " << cell.reason;
  }
  // One tile, and several.
  for (const int64_t tiles : {1, 2, 3})
    EXPECT_NE(std::count(seen.begin(), seen.end(), 32 * tiles), 0) << tiles;
}

// Laws that can keep to them get their full number of cases, and none is
// refused.
TEST(Declared, CasesFitDeclaredWidthsHeadsAndMembers) {
  const struct {
    const char* widths;
    qkvet_extent_rule b, h, group;
  } rows[] = {
      {"64 128 24", {}, {}, {}},
      {"48/32", {}, {}, {}},
      {"8 16 16/8", {2, 4, 2}, {}, {}},
      {"", {1, 1, 0}, {8, 8, 0}, {}},
      {"", {3, 0, 3}, {0, 12, 4}, {2, 4, 2}},
  };
  for (const auto& row : rows) {
    KernelUnderTest kernel = FakeExecutor::under_test();
    qkvet_capabilities& can = kernel.judged.info.capabilities;
    ASSERT_EQ(read_widths(row.widths, can), "");
    can.b = row.b;
    can.h = row.h;
    can.group = row.group;
    ASSERT_EQ(bad_extents(can), "");
    const DeclaredExtents extents = extents_of(can);
    std::set<std::pair<int64_t, int64_t>> widths;
    bool packs = false, has_lengths = false;
    const auto note = [&](KernelCall& call, Problem&) {
      Shape s = call.shape;
      if (call.members > 0) s.B = call.members;
      EXPECT_EQ(broken_extent(extents, s, kOfAttention), "");
      widths.insert({s.d, s.dv});
      packs |= call.members > 0;
      has_lengths |= call.members == 0 && call.kv_len != nullptr;
    };
    const RunResult result = run_as_declared(
        kernel, options_for({"agrees_with_oracle", "rows_stay_in_hull"}, 96),
        note);
    for (const Cell& cell : result.kernels[0].cells) {
      EXPECT_EQ(cell.verdict, Verdict::kPassed) << cell.reason;
      EXPECT_EQ(cell.unsupported, 0) << row.widths << cell.reason;
      EXPECT_GT(cell.checked, 32) << cell.law->id << ": " << cell.reason;
    }
    if (!extents.widths.empty()) {
      EXPECT_EQ(widths.size(), extents.widths.size());
    }
    EXPECT_TRUE(packs && has_lengths) << row.widths;
  }
}

TEST(Declared, OneQueryAloneIsJudgedByWhatItCanBeAsked) {
  KernelUnderTest kernel = FakeExecutor::under_test();
  kernel.judged.info.capabilities.tq = {1, 1, 0};
  const RunResult result = run_as_declared(
      kernel, options_for({"agrees_with_oracle", "weights_sum_to_one"}, 64));
  for (const Cell& cell : result.kernels[0].cells)
    EXPECT_GT(cell.checked, 24) << cell.law->id << ": " << cell.reason;
}

TEST(Declared, CausalOnlyIsCausal) {
  KernelUnderTest kernel = FakeExecutor::under_test();
  kernel.judged.info.capabilities.flags |= QKVET_FLAG_CAUSAL_ONLY;
  const RunResult result = run_as_declared(
      kernel,
      options_for({"agrees_with_oracle", "permuted_keys_change_nothing"}, 64),
      [](KernelCall& call, Problem&) {
        EXPECT_NE(call.causal, Causal::kNone);
      });
  EXPECT_EQ(result.kernels[0].cells[0].verdict, Verdict::kPassed);
  EXPECT_GE(result.kernels[0].cells[0].checked, 32);
  // A law about calls without it cannot be asked, and its share goes to the
  // other.
  EXPECT_EQ(result.kernels[0].cells[1].verdict, Verdict::kUnsupported);
  EXPECT_GT(result.kernels[0].cells[0].checked, 48);
}

TEST(Declared, RefusedCasesAreReplaced) {
  const auto refuse_odd = [](const KernelCall& call, OracleOutput&,
                             CallOutcome& outcome) {
    if (call.shape.d % 2 == 0) return;
    outcome.status = CallStatus::kUnsupported;
    outcome.asked_kernel = true;
    outcome.text = "d is odd";
  };
  const RunResult result =
      run_as_declared(FakeExecutor::under_test(),
                      options_for({"agrees_with_oracle"}, 128), {}, refuse_odd);
  const Cell& cell = result.kernels[0].cells[0];
  EXPECT_EQ(cell.verdict, Verdict::kPassed);
  EXPECT_GT(cell.unsupported, 20);
  EXPECT_GT(result.replaced_cases, 0);
  EXPECT_EQ(result.planned_cases, 128);
  // Without the others it would be about half of them.
  EXPECT_GT(cell.checked, 100);
}

// Kernels that compile for each shape get few shapes, with as many kinds of
// data.
TEST(Declared, WhoCompilesPerShapeGetsFewShapes) {
  const auto shapes_of = [](const KernelUnderTest& kernel) {
    std::set<std::array<int64_t, 7>> shapes;
    const auto note = [&shapes](KernelCall& call, Problem&) {
      const Shape& s = call.shape;
      shapes.insert({s.B, s.H, s.Hkv, s.Tq, s.Tk, s.d, s.dv});
    };
    const RunResult result =
        run_as_declared(kernel, options_for({"agrees_with_oracle"}, 256), note);
    EXPECT_EQ(result.kernels[0].cells[0].verdict, Verdict::kPassed);
    EXPECT_GT(result.kernels[0].cells[0].checked, 200);
    return shapes.size();
  };
  KernelUnderTest kernel = FakeExecutor::under_test();
  EXPECT_GT(shapes_of(kernel), 100u);
  kernel.judged.info.capabilities.flags |= QKVET_FLAG_COMPILES_PER_SHAPE;
  const size_t few = shapes_of(kernel);
  EXPECT_LE(few, 48u);  // twelve, and those that options change
  EXPECT_GE(few, 8u);
}

// ---- Several causes of one law ---------------------------------------------

TEST(Declared, TwoCausesOfOneLawAreTwoFailures) {
  const auto wrong = [](const KernelCall& call, OracleOutput& oracle,
                        CallOutcome&) {
    for (double& o : oracle.o) {
      if (call.window) o = std::nan("");
      if (call.softcap > 0) o += 1;
    }
  };
  const RunResult result =
      run_fake(options_for({"agrees_with_oracle"}, 64), {}, wrong);
  const Cell& cell = result.kernels[0].cells[0];
  ASSERT_TRUE(cell.failure);
  ASSERT_EQ(cell.others.size(), 1u);
  const Failure& other = cell.others[0];
  EXPECT_NE(cell.failure->smallest.window.has_value(),
            other.smallest.window.has_value());
  EXPECT_NE(cell.failure->smallest.softcap > 0, other.smallest.softcap > 0);
  EXPECT_GT(cell.failure->alike, 0);
  EXPECT_GT(other.alike, 0);
}

TEST(Declared, OneCauseIsOneFailure) {
  const RunResult result =
      run_fake(options_for({"agrees_with_oracle"}, 64), wrong_scale, {});
  ASSERT_TRUE(result.kernels[0].cells[0].failure);
  EXPECT_EQ(result.kernels[0].cells[0].others.size(), 0u);
  EXPECT_GT(result.kernels[0].cells[0].failure->alike, 10);
}

}  // namespace
}  // namespace qkvet::properties::declared_draw_test
