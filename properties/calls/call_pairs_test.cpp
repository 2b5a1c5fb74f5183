// SPDX-License-Identifier: Apache-2.0
// Helpers of laws about two calls: picking rows, planning the two calls and
// comparing them.
#include "properties/calls/call_pairs.h"

#include <gtest/gtest.h>

#include <cmath>

#include "properties/calls/option_forms.h"
#include "properties/cases/generate.h"
#include "properties/conventions/constrain.h"
#include "properties/conventions/domain.h"
#include "properties/run/shrink.h"
#include "properties/testing/fake_executor.h"
#include "properties/testing/fake_gradients.h"

namespace qkvet::properties::call_pairs_test {
namespace {

Judgement check(const Law& law, const Case& value, FakeExecutor& executor) {
  TimeUse time;
  return check_case(law, value, FakeExecutor::under_test().judged, 0, executor,
                    /*with_twin=*/false, time);
}

TEST(PickBySeed, IsOneOfTheChoicesForEverySeed) {
  for (const uint64_t seed : {uint64_t{0}, uint64_t{5}, ~uint64_t{0},
                              uint64_t{1} << 63, (uint64_t{1} << 63) + 1})
    for (int64_t n = 1; n <= 7; ++n) {
      EXPECT_GE(pick_by_seed(seed, n), 0) << seed;
      EXPECT_LT(pick_by_seed(seed, n), n) << seed;
    }
  EXPECT_EQ(pick_by_seed(~uint64_t{0}, 10), 5);  // 18446744073709551615
}

// How many of the law's planned cases compare anything, with these bits of the
// seed set.
int cases_compared(const Law& law, uint64_t bits) {
  FakeExecutor oracle;
  int compared = 0;
  for (int64_t n = 1; n <= 40; ++n) {
    Case value = planned_case(law, 77, n);
    value.seed |= bits;
    value = constrained(law, value);
    const Judgement judgement = check(law, value, oracle);
    // Some preconditions depend on the drawn data.
    EXPECT_TRUE(judgement.verdict == Verdict::kPassed ||
                judgement.verdict == Verdict::kGaveUp)
        << law.id << " " << to_string(value) << " " << judgement.reason;
    compared += judgement.compared > 0;
  }
  return compared;
}

// A pick out of range compares nothing, and passes.
TEST(PickBySeed, LeavesNoLawIdleAtLargeSeeds) {
  for (const Law* law : all_laws()) {
    if (law->domain.subject != Subject::kAttention) continue;
    const int usual = cases_compared(*law, 0);
    EXPECT_GT(usual, 20) << law->id;
    EXPECT_GE(cases_compared(*law, uint64_t{1} << 63), 9 * usual / 10)
        << law->id;
  }
}

// A kernel that is off by one bit in its second call, in o or in lse.
FakeExecutor drifting(bool in_lse) {
  return FakeExecutor(
      {}, [in_lse, calls = 0](const KernelCall&, OracleOutput& oracle,
                              CallOutcome&) mutable {
        double& x = in_lse ? oracle.lse[0] : oracle.o[0];
        if (calls++ == 1) x = std::nextafter(static_cast<float>(x), 9.0f);
      });
}

Judgement check_drift(uint64_t flags, bool in_lse) {
  JudgedKernel kernel = FakeExecutor::under_test().judged;
  kernel.info.capabilities.flags = flags;
  FakeExecutor executor = drifting(in_lse);
  TimeUse time;
  return check_case(*find_law("permuted_heads_permute_output"),
                    *parse_case("f32,B1,H2,Tq2,Tk3,d2").value, kernel, 0,
                    executor, /*with_twin=*/false, time);
}

TEST(CallPairs, AreAskedBitForBitWhereThatIsClaimed) {
  constexpr uint64_t kClaim = QKVET_FLAG_HEAD_ORDER_INVARIANT;
  for (const bool in_lse : {false, true}) {
    EXPECT_EQ(check_drift(0, in_lse).verdict, Verdict::kPassed);
    EXPECT_EQ(check_drift(kClaim | QKVET_FLAG_NONDETERMINISTIC, in_lse).verdict,
              Verdict::kPassed);
    const Judgement judgement = check_drift(kClaim, in_lse);
    ASSERT_EQ(judgement.verdict, Verdict::kFailed);
    EXPECT_EQ(judgement.finding->allowed, "the same bits");
    EXPECT_EQ(judgement.finding->looks,
              "where a head stands decides what it computes");
  }
}

// Two answers. One of them, by default the second, is `by` times the right one
// at one element of o.
Judgement check_moved(const char* law, const char* text, uint64_t flags,
                      double by, int moved = 1) {
  JudgedKernel kernel = FakeExecutor::under_test().judged;
  kernel.info.capabilities.flags = flags;
  FakeExecutor executor(
      {}, [by, moved, calls = 0](const KernelCall&, OracleOutput& oracle,
                                 CallOutcome&) mutable {
        if (calls++ == moved) oracle.o[0] *= by;
      });
  TimeUse time;
  return check_case(*find_law(law), *parse_case(text).value, kernel, 0,
                    executor, /*with_twin=*/false, time);
}

struct Moved {
  const char* law;
  const char* text;
};
constexpr double kAnUlp = 1 + 0x1p-22, kAThousandth = 1.001;

// Laws about data that a row does not see. Other bits are a fault only if the
// kernel claims that its path depends on no other data.
constexpr Moved kSameRows[] = {
    {"future_changes_nothing", "f32,B1,H1,Tq2,Tk2,d1,causal,seed=2"},
    {"other_heads_change_nothing", "f32,B1,H2,Tq2,Tk3,d2,seed=2"},
    {"other_members_change_nothing", "f32,B2,H1,Tq2,Tk3,d2,seed=2"},
    {"nan_stays_in_its_head", "f32,B1,H2,Tq2,Tk3,d2,seed=2"},
    {"poison_beyond_lengths_changes_nothing", "f32,B1,H1,Tq2,Tk4,d2,kvlen=3"},
    {"masked_keys_change_nothing", "f32,B1,H1,Tq1,Tk3,d2,mask=but1"},
    {"masked_nonfinite_is_ignored", "f32,B1,H1,Tq1,Tk3,d2,mask=but1"},
    {"unowned_pages_change_nothing", "f32,B1,H1,Tq1,Tk3,d2,kvlen=3,page=2"}};

// Powers of two that move, and signs.
constexpr Moved kPowersOfTwo[] = {
    {"scaled_values_scale_output", "f32,B1,H1,Tq1,Tk3,d2,v=lattice,seed=3"},
    {"scale_moves_to_queries", "f32,B1,H1,Tq1,Tk3,d2,scale=0.5,seed=3"}};

void expect_bits_where_claimed(const Moved& moved, uint64_t claim) {
  const auto verdict = [&](uint64_t flags, double by) {
    const Judgement judgement = check_moved(moved.law, moved.text, flags, by);
    EXPECT_GT(judgement.compared, 0) << moved.law << " " << judgement.reason;
    return judgement.verdict;
  };
  EXPECT_EQ(verdict(0, 1), Verdict::kPassed) << moved.law;
  EXPECT_EQ(verdict(0, kAnUlp), Verdict::kPassed) << moved.law;
  EXPECT_EQ(verdict(QKVET_FLAG_NONDETERMINISTIC | claim, kAnUlp),
            Verdict::kPassed)
      << moved.law;
  EXPECT_EQ(verdict(claim, kAnUlp), Verdict::kFailed) << moved.law;
  EXPECT_EQ(verdict(0, kAThousandth), Verdict::kFailed) << moved.law;
  EXPECT_EQ(verdict(0, std::nan("")), Verdict::kFailed) << moved.law;
}

TEST(CallPairs, RowsThatSeeTheSameAreTheSameWithinTheBound) {
  for (const Moved& moved : kSameRows)
    expect_bits_where_claimed(moved, QKVET_FLAG_OTHER_DATA_INVARIANT);
}

// Data beyond the lengths is NaN in the first call, and so are the outputs that
// it corrupts. The second call alone would look right.
TEST(CallPairs, TheFirstAnswerMayBeTheSpoiltOne) {
  for (const Moved& moved : kSameRows)
    for (const double by : {std::nan(""), kAThousandth}) {
      const Judgement judgement =
          check_moved(moved.law, moved.text, 0, by, /*moved=*/0);
      ASSERT_EQ(judgement.verdict, Verdict::kFailed) << moved.law;
      if (!std::isnan(by)) continue;
      EXPECT_EQ(judgement.finding->actual.rfind("nan (", 0), 0u)
          << judgement.finding->actual;
    }
}

TEST(CallPairs, PowersOfTwoMoveWithinTheBounds) {
  for (const Moved& moved : kPowersOfTwo)
    expect_bits_where_claimed(moved, QKVET_FLAG_POWER_OF_TWO_INVARIANT);
}

// An error that is the same in both calls fails another law.
TEST(CallPairs, WhatIsWrongAlikeIsNoLeak) {
  for (const Moved& moved : kSameRows) {
    JudgedKernel kernel = FakeExecutor::under_test().judged;
    kernel.info.capabilities.flags = 0;
    FakeExecutor wrong({}, [](const KernelCall&, OracleOutput& oracle,
                              CallOutcome&) { oracle.o[0] = 99; });
    TimeUse time;
    EXPECT_EQ(check_case(*find_law(moved.law), *parse_case(moved.text).value,
                         kernel, 0, wrong, /*with_twin=*/false, time)
                  .verdict,
              Verdict::kPassed)
        << moved.law;
  }
}

// A claim about layouts does not cover where a tensor begins.
TEST(CallPairs, LayoutsAreComparedAlignedAlike) {
  const Case value = *parse_case("f32,B1,H2,Tq2,Tk3,d3,layout=bthd").value;
  KernelInfo kernel = FakeExecutor::info();
  const auto placement = [&](uint64_t flags) {
    kernel.capabilities.flags = flags;
    return find_law("layout_changes_nothing")
        ->plan(value, kernel)
        .calls[1]
        .placement;
  };
  constexpr uint64_t kClaim = QKVET_FLAG_LAYOUT_INVARIANT;
  EXPECT_EQ(placement(0), Placement::kEnd);
  EXPECT_EQ(placement(kClaim), Placement::kEndAligned);
  EXPECT_EQ(placement(kClaim | QKVET_FLAG_ALIGNMENT_INVARIANT),
            Placement::kEnd);
}

// If the members are in another order, they are in other pages.
TEST(CallPairs, MembersInPagesAreAlsoPlaces) {
  const char* const law = "permuted_members_permute_output";
  const char* const pages = "f32,B2,H1,Tq1,Tk3,d2,page=2";
  constexpr uint64_t kClaim = QKVET_FLAG_BATCH_INVARIANT;
  EXPECT_EQ(check_moved(law, "f32,B2,H1,Tq1,Tk3,d2", kClaim, kAnUlp).verdict,
            Verdict::kFailed);
  EXPECT_EQ(check_moved(law, pages, kClaim, kAnUlp).verdict, Verdict::kPassed);
  EXPECT_EQ(check_moved(law, pages,
                        kClaim | QKVET_FLAG_PAGE_PLACEMENT_INVARIANT, kAnUlp)
                .verdict,
            Verdict::kFailed);
}

// Data of other heads may choose a path, and no number.
TEST(CallPairs, OtherHeadsOfAGradientMayRoundOtherwiseWhereNothingIsClaimed) {
  const char* const law = "backward_heads_are_separate";
  const std::string text = "f32,B1,H2,Tq2,Tk3,d2,backward,seed=2";
  const auto verdict = [&](uint64_t flags, double by) {
    JudgedKernel judged = FakeGradients::under_test().judged;
    judged.info.capabilities.flags = flags;
    FakeGradients kernel(
        {}, [by, calls = 0](const KernelCall&, GradientOutput& gradient,
                            CallOutcome&) mutable {
          if (calls++ != 1) return;
          for (double& x : gradient.v) x *= by;
        });
    TimeUse time;
    return check_case(*find_law(law), *parse_case(text).value, judged, 0,
                      kernel, /*with_twin=*/false, time)
        .verdict;
  };
  EXPECT_EQ(verdict(0, 1 + 0x1p-22), Verdict::kPassed);
  EXPECT_EQ(verdict(QKVET_FLAG_OTHER_DATA_INVARIANT, 1 + 0x1p-22),
            Verdict::kFailed);
  EXPECT_EQ(verdict(0, 1.001), Verdict::kFailed);
}

TEST(CallPairs, BitwiseOnesAreNotAskedOfTheNondeterministic) {
  KernelInfo kernel = FakeExecutor::info();
  const auto unsupported = [&](const char* law) {
    return find_law(law)
        ->plan(*parse_case("f32,B1,H1,Tq2,Tk2,d2").value, kernel)
        .unsupported;
  };
  EXPECT_EQ(unsupported("same_call_same_bits"), "");
  kernel.capabilities.flags = QKVET_FLAG_NONDETERMINISTIC;
  EXPECT_NE(unsupported("same_call_same_bits"), "");
  EXPECT_EQ(unsupported("other_rows_change_nothing"), "");
}

// The row is found by counting keys, and its hidden keys pair by pair.
TEST(CallPairs, HiddenKeysAreThoseOfARowThatSeesAnother) {
  const Law& law = *find_law("masked_keys_change_nothing");
  for (int64_t n = 1; n <= 300; ++n) {
    const Case value = planned_case(law, 3, n);
    const Plan plan = law.plan(value, FakeExecutor::info());
    const Inputs inputs = make_inputs(value);
    const Visibility visibility(value, inputs);
    const auto hidden = [&](int64_t row) {
      int64_t count = 0;
      for_each_hidden_key(value, inputs, row, [&](int64_t) { ++count; });
      return count;
    };
    const Shape& s = value.shape;
    const auto seen = [&](int64_t row) {
      return visibility.keys(row / s.Tq / s.H, row / s.Tq % s.H, row % s.Tq);
    };
    const int64_t row = plan.calls[1].argument;
    EXPECT_EQ(row < 0, !plan.not_applicable.empty()) << to_string(value);
    for (int64_t r = 0; row < 0 && r < s.B * s.H * s.Tq; ++r)
      EXPECT_TRUE(seen(r) == 0 || hidden(r) == 0) << to_string(value);
    if (row < 0) continue;
    EXPECT_GT(seen(row), 0) << to_string(value);
    EXPECT_GT(hidden(row), 0) << to_string(value);
  }
}

}  // namespace
}  // namespace qkvet::properties::call_pairs_test
