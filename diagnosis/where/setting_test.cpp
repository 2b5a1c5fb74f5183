// SPDX-License-Identifier: Apache-2.0
// The cases in which a failure is searched: what a setting fixes in a case, the
// cases it allows, and the parts that are varied. Each test has a similar case
// for which the opposite holds.
#include "diagnosis/where/setting.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/case/case.h"
#include "properties/testing/fake_executor.h"

namespace qkvet::diagnosis::setting_test {
namespace {

using Data = Setting::Data;

Case case_of(const std::string& text) {
  const auto parsed = parse_case("f32," + text);
  EXPECT_TRUE(parsed.value) << text << ": " << parsed.error;
  return parsed.value.value_or(Case{});
}

const Law& agreement() { return *find_law("agrees_with_oracle"); }

Setting setting_of(Data data, const std::string& like,
                   const Law& law = agreement()) {
  static const KernelUnderTest kernel = FakeExecutor::under_test();
  return {law, data, case_of(like), kernel};
}

TermValues::value_type value_in(const Setting& setting, const char* term,
                                const Case& value) {
  const TermValues values = setting.values(value);
  for (size_t n = 0; n < vocabulary().size(); ++n)
    if (vocabulary()[n].name == term) return values[n];
  ADD_FAILURE() << "no such word: " << term;
  return -1;
}

TEST(Setting, DataAreNormalOrThoseOfTheCaseOrOfThePlan) {
  const std::string like = "B1,H1,Tq2,Tk3,d2,q=large,v=one";
  const Case other = case_of("B1,H1,Tq2,Tk4,d2,q=zero,k=lattice,bias=zero");
  const Setting normal = setting_of(Data::kNormal, like);
  const Case drawn = normal.dressed(other);
  for (const Recipe* one : {&drawn.q, &drawn.k, &drawn.v, &*drawn.score_bias})
    EXPECT_EQ(*one, make_recipe(RecipeKind::kNormal));
  EXPECT_EQ(normal.data_text(), "normal data");

  const Setting own = setting_of(Data::kOfCase, like);
  const Case taken = own.dressed(other);
  EXPECT_EQ(taken.q, case_of(like).q);
  EXPECT_EQ(taken.v, make_recipe(RecipeKind::kOne));
  // A bias that the failing case does not have stays as it is.
  EXPECT_EQ(taken.score_bias, other.score_bias);
  EXPECT_EQ(own.data_text(), "q=large, v=one");

  const Setting plan = setting_of(Data::kOfPlan, like);
  EXPECT_EQ(to_string(plan.dressed(other)), to_string(other));
  EXPECT_EQ(plan.data_text(), "");
}

// Elements set by hand are no data for other cases.
TEST(Setting, WhatIsDressedHasNoElementSetByHandAndStaysSo) {
  const Case value = case_of("B1,H1,Tq2,Tk3,d2,set=q.0.0.0.0:0x1p+0");
  ASSERT_FALSE(value.set.empty());
  for (const Data data : {Data::kNormal, Data::kOfCase, Data::kOfPlan}) {
    const Setting setting = setting_of(data, "B1,H1,Tq2,Tk3,d2");
    const Case once = setting.dressed(value);
    EXPECT_TRUE(once.set.empty());
    EXPECT_EQ(to_string(setting.dressed(once)), to_string(once));
  }
}

// A law that needs its own data keeps them in any setting.
TEST(Setting, WhatALawNeedsGoesFirst) {
  const Case value = case_of("B1,H1,Tq2,Tk3,d2");
  const auto v_under = [&](const char* law) {
    return setting_of(Data::kNormal, "B1,H1,Tq2,Tk3,d2", *find_law(law))
        .dressed(value)
        .v;
  };
  EXPECT_EQ(v_under("weights_sum_to_one"), make_recipe(RecipeKind::kOne));
  EXPECT_EQ(v_under("agrees_with_oracle"), make_recipe(RecipeKind::kNormal));
}

TEST(Setting, AllowsWhatIsDeclaredAndCheap) {
  const Setting setting = setting_of(Data::kNormal, "B1,H1,Tq2,Tk3,d2");
  EXPECT_TRUE(setting.allows(case_of("B1,H1,Tq2,Tk3,d2,mask=random0")));
  EXPECT_TRUE(setting.allows(case_of("B1,H1,Tq64,Tk64,d32")));
  EXPECT_FALSE(setting.allows(case_of("B1,H1,Tq640,Tk64,d32"))) << "dear";
  EXPECT_TRUE(setting.allows(case_of("B1,H1,Tq2,Tk0,d2")));

  KernelUnderTest narrow = FakeExecutor::under_test();
  qkvet_capabilities& can = narrow.judged.info.capabilities;
  can.options &= ~uint64_t{QKVET_OPTION_EMPTY_EXTENTS};
  can.d.multiple = 4;
  const Setting of_four(agreement(), Data::kNormal, case_of("B1,H1,Tq2,Tk3,d4"),
                        narrow);
  EXPECT_TRUE(of_four.allows(case_of("B1,H1,Tq2,Tk3,d8")));
  EXPECT_FALSE(of_four.allows(case_of("B1,H1,Tq2,Tk3,d6")));
  EXPECT_FALSE(of_four.allows(case_of("B1,H1,Tq2,Tk0,d4")));
}

int64_t longest_planned(const Setting& setting) {
  int64_t longest = 0;
  for (int n = 1; n <= 200; ++n)
    longest = std::max(longest, setting.planned(5, n).shape.Tk);
  return longest;
}

TEST(Setting, RoomGrowsAndNeverShrinks) {
  Setting setting = setting_of(Data::kNormal, "B1,H1,Tq2,Tk3,d2");
  EXPECT_LE(longest_planned(setting), 24);
  setting.make_room_for(65);
  const int64_t grown = longest_planned(setting);
  EXPECT_GT(grown, 24);
  setting.make_room_for(3);
  EXPECT_EQ(longest_planned(setting), grown);
  EXPECT_GT(longest_planned(setting_of(Data::kNormal, "B1,H1,Tq2,Tk65,d2")), 24)
      << "the failing case wants room, too";
}

TEST(Setting, PlannedCasesAreDressedAndThoseOfTheirSeed) {
  const Setting setting = setting_of(Data::kNormal, "B1,H1,Tq2,Tk3,d2");
  std::set<std::string> first, second;
  for (int n = 1; n <= 20; ++n) {
    const Case planned = setting.planned(5, n);
    EXPECT_EQ(planned.q, make_recipe(RecipeKind::kNormal));
    EXPECT_EQ(to_string(planned), to_string(setting.planned(5, n)));
    first.insert(to_string(planned));
    second.insert(to_string(setting.planned(6, n)));
  }
  EXPECT_NE(first, second);
}

// A flag is also true if it is set in a call that the law makes for the case.
TEST(Setting, ValuesAreThoseOfTheCallsOfALawAsWell) {
  const std::string text = "B1,H1,Tq2,Tk3,d2,causal=br";
  const Law& masks = *find_law("causal_equals_mask");
  const Case value = case_of(text);
  EXPECT_EQ(value_in(setting_of(Data::kNormal, text, masks), "mask", value), 1);
  EXPECT_EQ(value_in(setting_of(Data::kNormal, text), "mask", value), 0);
  EXPECT_EQ(value_in(setting_of(Data::kNormal, text), "Tk", value), 3);
}

TEST(WorkOf, GrowsWithTheExtentsAndTheCommands) {
  const auto work = [](const char* text) { return work_of(case_of(text)); };
  // (1 + 1 + 1) pairs and rows of 2 + 2 channels.
  EXPECT_EQ(work("B1,H1,Tq1,Tk1,d2"), 12);
  EXPECT_EQ(work("B2,H3,Tq1,Tk1,d2"), 6 * 12);
  EXPECT_GT(work("B1,H1,Tq1,Tk2,d2"), 12);
  const int64_t one = work("B1,H1,d1,cap12,story=append.a.2");
  EXPECT_GT(work("B1,H1,d1,cap12,story=append.a.2+attend.a.1"), one);
}

bool has(const std::vector<Case>& cases, const std::string& text) {
  const std::string wanted = to_string(case_of(text));
  return std::any_of(cases.begin(), cases.end(),
                     [&](const Case& one) { return to_string(one) == wanted; });
}

TEST(Variations, DifferInOneThing) {
  const std::string text = "B1,H1,Tq2,Tk3,d2,mask=random0,sink=one";
  const Setting setting = setting_of(Data::kNormal, text);
  const std::vector<Case> all = variations(case_of(text), setting);
  EXPECT_TRUE(has(all, "B1,H1,Tq2,Tk257,d2,mask=random0,sink=one"));
  EXPECT_TRUE(has(all, "B1,H1,Tq2,Tk3,d2,sink=one"));
  EXPECT_TRUE(has(all, "B1,H1,Tq2,Tk3,d2,mask=random0"));
  EXPECT_TRUE(has(all, "B1,H1,Tq2,Tk3,d2,causal=br,mask=random0,sink=one"));
  // Two things at once.
  EXPECT_FALSE(has(all, "B1,H1,Tq2,Tk3,d2"));
  EXPECT_FALSE(has(all, "B1,H1,Tq2,Tk257,d2,sink=one"));
  // Heads and members are counted only as far as they differ.
  for (const Case& one : all) EXPECT_LE(std::max(one.shape.B, one.shape.H), 17);
}

// Cases that distinguish the number of members from that of members times
// heads.
TEST(Variations, ArrangeManyMembersAndHeadsAnew) {
  const auto halved = [](const char* text) {
    const std::vector<Case> all =
        variations(case_of(text), setting_of(Data::kNormal, text));
    return std::count_if(all.begin(), all.end(), [](const Case& one) {
      return one.shape.B == 1639 && one.shape.H == 2 && one.shape.Hkv == 2;
    });
  };
  EXPECT_EQ(halved("B3277,H1,Tq1,Tk1,d1"), 1);
  EXPECT_EQ(halved("B17,H1,Tq1,Tk1,d1"), 0);
}

TEST(Variations, OfAStoryLackACommand) {
  const std::string text =
      "B2,H1,d1,cap12,story=append.a.2+append.b.1+attend.a.1";
  const Setting setting =
      setting_of(Data::kNormal, text, *find_law("cache_agrees_with_oracle"));
  const std::vector<Case> all = variations(case_of(text), setting);
  EXPECT_TRUE(has(all, "B2,H1,d1,cap12,story=append.a.2+attend.a.1"));
  EXPECT_TRUE(has(all, "B2,H1,d1,cap12,story=append.a.2+append.b.1"));
  EXPECT_FALSE(has(all, "B2,H1,d1,cap12,story=append.a.2"));
}

TEST(WithExtentsOf, TakesThoseOfAnotherCaseOfItsKind) {
  const Case other = case_of("B3,H4,Hkv2,Tq5,Tk6,d7");
  const Case taken =
      with_extents_of(case_of("B1,H1,Tq2,Tk3,d2,sink=one"), other);
  EXPECT_EQ(to_string(taken),
            to_string(case_of("B3,H4,Hkv2,Tq5,Tk6,d7,sink=one")));
  // Members of a story are its sequences.
  const Case story = with_extents_of(
      case_of("B2,H1,d1,cap12,story=append.a.2+attend.a.1"), other);
  EXPECT_EQ(story.shape.B, 2);
  EXPECT_EQ(story.shape.H, 4);
}

// For a failure of agreement, no other law is tried.
TEST(Setting, ThePlainestIsTriedFirst) {
  const KernelUnderTest kernel = FakeExecutor::under_test();
  Failure failure;
  failure.smallest = case_of("B1,H1,Tq2,Tk3,d2,q=large,causal=tl");
  failure.found = case_of("B1,H1,Tq5,Tk6,d2,q=large,causal=tl");
  for (const bool is_own : {true, false}) {
    failure.law = is_own ? find_law("causal_equals_mask") : &agreement();
    const std::vector<FailingSetting> all = settings_of(failure, kernel);
    EXPECT_EQ(&all.front().setting.law(), &agreement());
    EXPECT_EQ(all.front().setting.data(), Data::kNormal);
    EXPECT_EQ(all.front().like, failure.smallest);
    EXPECT_EQ(&all.back().setting.law(), failure.law);
    EXPECT_EQ(all.back().setting.data(), Data::kOfPlan);
    // The calls of the law have masks, which the case has not.
    EXPECT_EQ(std::any_of(all.begin(), all.end(),
                          [](const FailingSetting& one) {
                            return one.like.mask.kind != MaskKind::kNone;
                          }),
              is_own);
  }
}

}  // namespace
}  // namespace qkvet::diagnosis::setting_test
