// SPDX-License-Identifier: Apache-2.0
// What laws about two calls share: who is picked, and how the two are planned
// and compared.
#include "properties/call_pairs.h"

#include <gtest/gtest.h>

#include "properties/admit.h"
#include "properties/fake_executor.h"
#include "properties/fit.h"
#include "properties/generate.h"
#include "properties/shrink.h"

namespace qkvet {
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

}  // namespace
}  // namespace qkvet
