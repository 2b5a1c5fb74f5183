// SPDX-License-Identifier: Apache-2.0
// Compares the list of parts that exclude each other with how cases, repairs
// and calls treat them: all pairs of parts, including those in no row.
#include "core/case/exclusions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/capability/capability.h"
#include "core/case/case_options.h"
#include "core/testing/case_calls.h"

namespace qkvet::exclusions_test {
namespace {

void give(CallPart part, Case& c) {
  switch (part) {
    case CallPart::kPackedBatch:
      c.cu_q = c.cu_k = {0, 2, 4};
      return;
    case CallPart::kLengths:
      c.kv_len = {3};
      return;
    case CallPart::kPages:
      c.paging.size = 2;
      return;
    case CallPart::kChannelGroups:
      c.paging.size = 2;
      c.paging.pool = PageForm::kGroups;
      return;
    case CallPart::kNewTokens:
      c.append = 1;
      return;
    case CallPart::kShared:
      c.share |= kShareB;
      return;
    case CallPart::kSharedHeads:
      c.share |= kShareH;
      return;
    case CallPart::kOneBlock:
      c.layout = Layout::kPacked;
      return;
    case CallPart::kFar:
      c.layout = Layout::kFar;
      return;
    case CallPart::kValuesInKeys:
      c.values_in_keys = true;
      return;
    case CallPart::kOwnValues:
      c.v = make_recipe(RecipeKind::kOne);
      return;
    case CallPart::kSegments:
      c.fields.segments = true;
      return;
    case CallPart::kRanges:
      c.fields.ranges = 1;
      return;
    case CallPart::kChunk:
      c.chunk = 2;
      return;
    case CallPart::kTree:
      c.fields.tree = true;
      return;
    case CallPart::kNone:
      return;
  }
}

// nullopt if one replaces the other: a case has one layout.
std::optional<Case> with(const CallPartRow& one, const CallPartRow& other) {
  Case c = parsed("f32,B1,H2,Tq4,Tk4,d4");  // all parts fit
  give(one.part, c);
  give(other.part, c);
  // Packed members have new tokens only in pages.
  if (!c.cu_q.empty() && c.append > 0 && c.paging.size == 0) c.paging.size = 2;
  return one.in_case(c) && other.in_case(c) ? std::optional(c) : std::nullopt;
}

const Exclusion* row_that_refuses(const Case& c) {
  const auto has = [&c](CallPart part) {
    return call_parts()[static_cast<size_t>(part) - 1].in_case(c);
  };
  for (const Exclusion& row : exclusions())
    if (has(row.one) && has(row.other)) return &row;
  return nullptr;
}

// Declares all that there is, for as many types of storage as a case here has.
KernelInfo kernel_of_everything() {
  KernelInfo kernel;
  kernel.has_forward = true;
  kernel.capabilities.struct_size = sizeof kernel.capabilities;
  kernel.capabilities.options = ~uint64_t{0};
  kernel.capabilities.layouts = QKVET_LAYOUT_ANY_STRIDES;
  return kernel;
}

// The reason for the call of the case, whether or not the case is valid.
std::string call_reason(const Case& c) {
  const Inputs inputs = make_inputs(c);
  std::string why;
  capability_allows(kernel_of_everything(),
                    call_of(c, inputs, Operation::kForward), &why);
  return why;
}

TEST(Exclusions, EveryPairOfPartsIsRefusedOrPasses) {
  int refused = 0, passed = 0;
  for (const CallPartRow& one : call_parts())
    for (const CallPartRow& other : call_parts()) {
      if (one.part >= other.part) continue;
      const std::optional<Case> c = with(one, other);
      if (!c) continue;
      const std::string what =
          std::string(one.name) + " beside " + std::string(other.name);
      const Exclusion* row = row_that_refuses(*c);
      const std::string why = invalid_reason(*c);
      Case repaired = *c;
      repair_exclusions(repaired);
      if (row == nullptr) {
        EXPECT_EQ(why, "") << what;
        EXPECT_EQ(repaired, *c) << what;
        EXPECT_EQ(call_reason(*c), "") << what;
        ++passed;
        continue;
      }
      EXPECT_NE(why.find(row->because), why.npos) << what << ": " << why;
      // Without a repair the pair is still there.
      const bool all_go = row->goes != CallPart::kNone;
      EXPECT_EQ(row_that_refuses(repaired) == nullptr, all_go) << what;
      EXPECT_EQ(invalid_reason(repaired).empty(), all_go) << what;
      ++refused;
    }
  EXPECT_GE(refused, static_cast<int>(exclusions().size()));
  EXPECT_GE(passed, 20);
}

// Pairs of parts that a call can contain by mistake.
TEST(Exclusions, CallsAreHeldAgainstThemToo) {
  int held = 0;
  for (const Exclusion& row : exclusions()) {
    const CallPartRow& one = call_parts()[static_cast<size_t>(row.one) - 1];
    const CallPartRow& other = call_parts()[static_cast<size_t>(row.other) - 1];
    if (one.in_call == nullptr || other.in_call == nullptr) continue;
    const std::optional<Case> c = with(one, other);
    ASSERT_TRUE(c) << row.because;
    const std::string why = call_reason(*c);
    EXPECT_EQ(why, std::string(one.name) + " and " + std::string(other.name) +
                       " exclude each other");
    ++held;
  }
  // A call does not show data of v alone; it shows each other part.
  const auto shown = [](const Exclusion& row) {
    return row.one != CallPart::kOwnValues && row.other != CallPart::kOwnValues;
  };
  EXPECT_EQ(held,
            std::count_if(exclusions().begin(), exclusions().end(), shown));
}

// The part that stays is unchanged, and the other one is removed completely.
TEST(Exclusions, ARepairTakesOneOfTheTwo) {
  for (const Exclusion& row : exclusions()) {
    if (row.goes == CallPart::kNone) continue;
    const CallPart stays = row.goes == row.one ? row.other : row.one;
    const auto part = [](CallPart which) -> const CallPartRow& {
      return call_parts()[static_cast<size_t>(which) - 1];
    };
    std::optional<Case> c = with(part(row.one), part(row.other));
    ASSERT_TRUE(c) << row.because;
    repair_exclusions(*c);
    EXPECT_TRUE(part(stays).in_case(*c)) << row.because;
    EXPECT_FALSE(part(row.goes).in_case(*c)) << row.because;
  }
}

TEST(Exclusions, NoPairIsThereTwice) {
  std::set<std::pair<CallPart, CallPart>> seen;
  for (const Exclusion& row : exclusions())
    EXPECT_TRUE(seen.insert(std::minmax(row.one, row.other)).second)
        << row.because;
}

TEST(Exclusions, OptionsThatCannotStandBesideAPart) {
  EXPECT_EQ(
      options_beside_no(CallPart::kValuesInKeys),
      QKVET_OPTION_APPEND | QKVET_OPTION_PAGED_CHANNEL_GROUPS | kOptionShare);
  EXPECT_EQ(options_beside_no(CallPart::kLengths), QKVET_OPTION_PACKED);
}

}  // namespace
}  // namespace qkvet::exclusions_test
