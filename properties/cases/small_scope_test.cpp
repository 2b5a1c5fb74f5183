// SPDX-License-Identifier: Apache-2.0
#include "properties/cases/small_scope.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "properties/cases/drawn_options.h"
#include "properties/conventions/domain.h"
#include "properties/testing/fake_executor.h"

namespace qkvet::properties::small_scope_test {
namespace {

Scope without_options() {
  Scope scope;
  scope.options = QKVET_OPTION_CAUSAL_TOP_LEFT |
                  QKVET_OPTION_CAUSAL_BOTTOM_RIGHT |
                  QKVET_OPTION_DEFAULT_SCALE | QKVET_OPTION_GROUPED_HEADS |
                  QKVET_OPTION_VALUE_WIDTH | QKVET_OPTION_CROSS_LENGTHS;
  scope.layouts = QKVET_LAYOUT_BHTD;
  return scope;
}

TEST(SmallScope, WithoutOptionsItHoldsEveryShapeRuleAndRecipe) {
  const SmallScope scope(without_options());
  // 3 B, 14 pairs of heads, 3 each of Tq, Tk, d, dv, causal and data.
  EXPECT_EQ(scope.size(), 3 * 14 * 81 * 3 * 3);
  std::set<std::string> seen;
  for (int64_t n = 1; n <= scope.size(); ++n) {
    const Case value = scope.at(n);
    ASSERT_EQ(invalid_reason(value), "");
    ASSERT_EQ(options_of(value), 0u);
    seen.insert(to_string(value));
  }
  EXPECT_EQ(static_cast<int64_t>(seen.size()), scope.size());
}

// Packed members have lengths of their own, and their keys are either in pages
// or not; shared tensors are never appended to.
bool exclude_each_other(uint64_t pair) {
  for (const uint64_t other :
       {QKVET_OPTION_LENGTHS, QKVET_OPTION_PAGED, QKVET_OPTION_PAGED_CSR,
        QKVET_OPTION_PAGED_CHANNEL_GROUPS, QKVET_OPTION_APPEND,
        QKVET_OPTION_PACKED_PAGES})
    if (pair == (QKVET_OPTION_PACKED | other)) return true;
  if (pair == (QKVET_OPTION_PACKED_PAGES | QKVET_OPTION_LENGTHS)) return true;
  for (const uint64_t other :
       {kOptionShare, QKVET_OPTION_APPEND, QKVET_OPTION_PAGED_CHANNEL_GROUPS})
    if (pair == (QKVET_OPTION_VALUES_IN_KEYS | other)) return true;
  for (const uint64_t other : {QKVET_OPTION_PACKED, QKVET_OPTION_PACKED_PAGES})
    for (const uint64_t field :
         {QKVET_OPTION_SEGMENTS, QKVET_OPTION_FULL_RANGES,
          QKVET_OPTION_TREE_MASK})
      if (pair == (field | other)) return true;
  for (const uint64_t other : {QKVET_OPTION_PAGED, QKVET_OPTION_PAGED_CSR,
                               QKVET_OPTION_PAGED_CHANNEL_GROUPS})
    if (pair == (QKVET_OPTION_SEGMENTS | other)) return true;
  if (pair == (QKVET_OPTION_FULL_RANGES | QKVET_OPTION_CHUNK)) return true;
  return pair == (kOptionShare | QKVET_OPTION_APPEND) ||
         pair == (QKVET_OPTION_PAGED | QKVET_OPTION_PAGED_CSR);
}

// Stories have the first; random effects are counted, which takes many calls.
bool is_elsewhere(uint64_t option) {
  return option == kOptionStored || option == QKVET_OPTION_DROPOUT ||
         option == kOptionCalls;
}

TEST(SmallScope, EveryOptionHasOneRow) {
  for (const uint64_t option : kCaseOptions) {
    const auto rows =
        std::ranges::count(drawn_options(), option, &DrawnOption::option);
    EXPECT_EQ(rows, option != kOptionStored) << option_names(option);
  }
  for (const DrawnOption& row : drawn_options()) {
    const bool settings = *row.settings != '\0' || row.more_settings != nullptr;
    EXPECT_EQ(settings, !is_elsewhere(row.option)) << option_names(row.option);
    EXPECT_EQ(row.chance > 0, row.fits != nullptr);
    EXPECT_TRUE(row.by_itself || row.chance > 0);
  }
}

// Completes options by those that they depend on: a packed batch over pages and
// groups of channels have pages, int32 has lengths, and slopes of each member
// are slopes.
uint64_t with_pages_of(uint64_t options) {
  constexpr uint64_t kLists = QKVET_OPTION_LENGTHS | QKVET_OPTION_PACKED |
                              QKVET_OPTION_PAGED | QKVET_OPTION_PACKED_PAGES |
                              QKVET_OPTION_APPEND;
  if ((options &
       (QKVET_OPTION_PACKED_PAGES | QKVET_OPTION_PAGED_CHANNEL_GROUPS)) != 0 &&
      (options & QKVET_OPTION_PAGED_CSR) == 0)
    options |= QKVET_OPTION_PAGED;
  if ((options & QKVET_OPTION_INT32_LENGTHS) != 0 && (options & kLists) == 0)
    options |= QKVET_OPTION_LENGTHS;
  if ((options & QKVET_OPTION_ALIBI_PER_MEMBER) != 0)
    options |= QKVET_OPTION_ALIBI;
  if ((options & QKVET_OPTION_ROPE_PART) != 0) options |= QKVET_OPTION_ROPE;
  if ((options &
       (QKVET_OPTION_KEY_LIST_LENGTHS | QKVET_OPTION_KEY_LIST_BLOCKS)) != 0)
    options |= QKVET_OPTION_KEY_LISTS;
  return options;
}

TEST(SmallScope, EveryPairOfOptionsIsThere) {
  const SmallScope scope{Scope{}};
  EXPECT_GT(scope.size(), 2000000);
  std::set<uint64_t> pairs;
  for (int64_t n = 1; n <= scope.size(); n += 23)
    pairs.insert(options_of(scope.at(n)));
  for (size_t i = 0; i < kCaseOptions.size(); ++i) {
    const uint64_t a = kCaseOptions[i];
    if (is_elsewhere(a)) continue;
    EXPECT_TRUE(pairs.contains(with_pages_of(a))) << option_names(a);
    for (const uint64_t b : std::span(kCaseOptions).subspan(i + 1)) {
      if (is_elsewhere(b) || exclude_each_other(a | b)) continue;
      EXPECT_TRUE(pairs.contains(with_pages_of(a | b))) << option_names(a | b);
    }
  }
}

RunResult run_fake(FakeExecutor::Question question) {
  RunOptions options;
  options.laws = {find_law("agrees_with_oracle")};
  options.exhaustive = true;
  KernelUnderTest kernel = FakeExecutor::under_test();
  kernel.judged.info.capabilities.options = without_options().options;
  kernel.judged.info.capabilities.layouts = 0;
  return run_plan(
      {kernel},
      [&](size_t) {
        return Opened{std::make_unique<FakeExecutor>(question), ""};
      },
      options);
}

TEST(SmallScope, AGoodKernelPassesAllOfItAndOneWrongIndexDoesNot) {
  const RunResult good = run_fake({});
  EXPECT_EQ(good.kernels[0].cells[0].verdict, Verdict::kPassed);
  EXPECT_EQ(good.planned_cases, SmallScope(without_options()).size());
  // Wrong only for six heads over two, two queries and three keys.
  const RunResult bad = run_fake([](KernelCall& call, Problem& problem) {
    if (call.shape.H == 6 && call.shape.Hkv == 2 && call.shape.Tq == 2 &&
        call.shape.Tk == 3 && call.causal == Causal::kBottomRight)
      problem.causal = Causal::kTopLeft;
  });
  EXPECT_EQ(bad.kernels[0].cells[0].verdict, Verdict::kFailed);
}

}  // namespace
}  // namespace qkvet::properties::small_scope_test
