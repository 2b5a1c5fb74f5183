// SPDX-License-Identifier: Apache-2.0
// What laws about two calls share: who is picked, and how the two are planned
// and compared.
#include "properties/call_pairs.h"

#include <gtest/gtest.h>

#include <cmath>

#include "properties/admit.h"
#include "properties/fake_executor.h"
#include "properties/fit.h"
#include "properties/generate.h"
#include "properties/option_forms.h"
#include "properties/shrink.h"

namespace qkvet::call_pairs_test {
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
    value = fitted(law, value);
    const Judgement judgement = check(law, value, oracle);
    // Some preconditions hang on the drawn data.
    EXPECT_TRUE(judgement.verdict == Verdict::kPassed ||
                judgement.verdict == Verdict::kGaveUp)
        << law.id << " " << to_string(value) << " " << judgement.reason;
    compared += judgement.compared > 0;
  }
  return compared;
}

// A pick outside of what there is compares nothing, and passes.
TEST(PickBySeed, LeavesNoLawIdleAtLargeSeeds) {
  for (const Law* law : all_laws()) {
    if (law->aim.subject != Subject::kAttention) continue;
    const int usual = cases_compared(*law, 0);
    EXPECT_GT(usual, 20) << law->id;
    EXPECT_GE(cases_compared(*law, uint64_t{1} << 63), 9 * usual / 10)
        << law->id;
  }
}

// A kernel whose second call is off by one bit, in o or in lse.
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

TEST(CallPairs, BitwiseOnesAreNotAskedOfTheNondeterministic) {
  KernelInfo kernel = FakeExecutor::info();
  EXPECT_EQ(plan_bitwise_pair(kernel, nullptr).unsupported, "");
  kernel.capabilities.flags = QKVET_FLAG_NONDETERMINISTIC;
  EXPECT_NE(plan_bitwise_pair(kernel, nullptr).unsupported, "");
  EXPECT_EQ(plan_pair(kernel, nullptr).unsupported, "");
}

// The row is found by counting keys, and what it does not see pair by pair.
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
}  // namespace qkvet::call_pairs_test
