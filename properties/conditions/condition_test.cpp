// SPDX-License-Identifier: Apache-2.0
// The language of conditions: its values, the calls that it covers, and its
// errors.
#include "properties/conditions/condition.h"

#include <gtest/gtest.h>

#include "core/case/option_fields.h"
#include "properties/testing/fake_executor.h"

namespace qkvet::properties::condition_test {
namespace {

// f32 unless the text has a type.
Case case_of(const std::string& text) {
  const ParsedCase parsed =
      parse_case(text.starts_with("B") ? "f32," + text : text);
  EXPECT_TRUE(parsed.value) << parsed.error;
  return parsed.value.value_or(Case{});
}

Condition condition(const std::string& text) {
  ParsedCondition parsed = parse_condition(text);
  EXPECT_TRUE(parsed.value) << parsed.error;
  return parsed.value ? std::move(*parsed.value) : Condition();
}

bool holds(const std::string& text, const std::string& value) {
  return condition(text).holds(Situation(case_of(value)));
}

TEST(Condition, CountsAndCompares) {
  const char* const value = "f32,B2,H6,Hkv3,Tq4,Tk9,d5,dv2";
  for (const char* const text : {"",
                                 "1",
                                 "B == 2",
                                 "H / Hkv == 2",
                                 "Tk % Tq == 1",
                                 "Tk - Tq * 2 == 1",
                                 "-Tq < 0",
                                 "- (Tq) + 4 == 0",
                                 "!(Tq > 4)",
                                 "!top_left",
                                 "B > 1 && H > 1",
                                 "B == 7 || H == 6",
                                 "0 || 1 && 1",
                                 "Tq <= 4 && Tq >= 4",
                                 "d != dv",
                                 "Tq-1==3",
                                 "1 - 1 - 1 == -1",
                                 "2 + 3 * 4 == 14",
                                 "Tk / 0 == 0",
                                 "Tk % 0 == 0",
                                 "-7 / 2 == -3",
                                 "D == 0"})
    EXPECT_TRUE(holds(text, value)) << text;
  for (const char* const text :
       {"0", "B == 1", "B < 2", "!B", "Tq > 4", "B > 1 && Tq > 4",
        "1 && (0 || 0)", "causal", "window", "mask", "rope", "D"})
    EXPECT_FALSE(holds(text, value)) << text;
  EXPECT_TRUE(condition("").is_always());
  EXPECT_FALSE(condition("1").is_always());
}

// Every row: a condition, a case in which it holds, and one in which not.
constexpr struct {
  const char *text, *yes, *no;
} kPairs[] = {
    {"causal", "B1,H1,Tq2,Tk2,d1,causal=tl", "B1,H1,Tq2,Tk2,d1"},
    {"top_left", "B1,H1,Tq2,Tk2,d1,causal=tl", "B1,H1,Tq2,Tk2,d1,causal=br"},
    {"bottom_right", "B1,H1,Tq2,Tk2,d1,causal=br",
     "B1,H1,Tq2,Tk2,d1,causal=tl"},
    {"dtype == bf16", "bf16,B1,H1,Tq2,Tk2,d1", "f16,B1,H1,Tq2,Tk2,d1"},
    {"dtype != f32", "f16,B1,H1,Tq2,Tk2,d1", "f32,B1,H1,Tq2,Tk2,d1"},
    {"layout == apart", "B1,H1,Tq2,Tk2,d1,layout=apart",
     "B1,H1,Tq2,Tk2,d1,layout=gaps"},
    {"layout == far", "B2,H1,Tq2,Tk2,d1,layout=far",
     "B2,H1,Tq2,Tk2,d1,layout=gaps"},
    {"layout == gaps", "B1,H1,Tq2,Tk2,d1,layout=gaps", "B1,H1,Tq2,Tk2,d1"},
    {"window.left >= 0", "B1,H1,Tq2,Tk2,d1,window=0.-1",
     "B1,H1,Tq2,Tk2,d1,window=-1.0"},
    {"window.right == 0", "B1,H1,Tq2,Tk2,d1,window=-1.0", "B1,H1,Tq2,Tk2,d1"},
    {"scale.is_one", "B1,H1,Tq2,Tk2,d1", "B1,H1,Tq2,Tk2,d2"},
    {"scale.bits > 8", "B1,H1,Tq2,Tk2,d3", "B1,H1,Tq2,Tk2,d4"},
    {"scale.negative", "B1,H1,Tq2,Tk2,d1,scale=-1", "B1,H1,Tq2,Tk2,d1,scale=1"},
    {"scale.given", "B1,H1,Tq2,Tk2,d1,scale=1", "B1,H1,Tq2,Tk2,d1"},
    {"members(keys < Tk)", "B2,H1,Tq2,Tk3,d1,kvlen=3.2",
     "B2,H1,Tq2,Tk3,d1,kvlen=3.3"},
    {"members(queries < Tq) > 1", "B2,H1,Tq2,Tk3,d1,qlen=1.0",
     "B2,H1,Tq2,Tk3,d1,qlen=1.2"},
    {"packed && members(keys == 2)", "B1,H1,Tq3,Tk5,d1,cuq=0.1.3,cuk=0.2.5",
     "B1,H1,Tq3,Tk5,d1,cuq=0.1.3,cuk=0.1.5"},
    {"rows(hidden > 0)", "B1,H1,Tq2,Tk2,d1,causal=tl",
     "B1,H1,Tq1,Tk2,d1,causal=br"},
    {"rows(gaps == 1) == 2", "B1,H1,Tq2,Tk3,d1,mask=but1",
     "B1,H1,Tq2,Tk3,d1,mask=but2"},
    {"softcap.over_one", "B1,H1,Tq2,Tk2,d1,softcap=1.5",
     "B1,H1,Tq2,Tk2,d1,softcap=1"},
    {"rows(seen == 0) == 1", "B1,H1,Tq3,Tk2,d1,causal=br",
     "B1,H1,Tq2,Tk2,d1,causal=br"},
    {"rows(diagonal == 2)", "B1,H1,Tq1,Tk3,d1", "B1,H1,Tq1,Tk2,d1"},
    {"rows(diagonal == 2 && keys == 3)", "B1,H1,Tq3,Tk5,d1,cuq=0.1.3,cuk=0.2.5",
     "B1,H1,Tq3,Tk5,d1"},
    {"rows(row == 1 && queries == 2)", "B1,H1,Tq2,Tk3,d1", "B1,H1,Tq3,Tk3,d1"},
    // One channel of 1 and keys of 1 or 0: the score is the scale, or 0.
    {"rows(score == 90)", "B1,H1,Tq1,Tk1,d1,scale=90.5,q=one,k=one",
     "B1,H1,Tq1,Tk1,d1,scale=91.5,q=one,k=one"},
    {"rows(score < -3) == 2", "B1,H1,Tq2,Tk1,d1,scale=-3.5,q=one,k=one",
     "B1,H1,Tq2,Tk1,d1,causal=br,scale=-3.5,q=one,k=one"},
    {"rows(score < 3)", "B1,H1,Tq1,Tk1,d1,scale=90.5,softcap=2,q=one,k=one",
     "B1,H1,Tq1,Tk1,d1,scale=90.5,softcap=20,q=one,k=one"},
    {"mask && rows(seen == 0)", "B1,H1,Tq2,Tk2,d1,mask=emptyrow0",
     "B1,H1,Tq2,Tk2,d1,mask=but0"},
    {"commands(verb == reset && before == 2)",
     "B1,H1,d1,cap4,story=step.a.2+reset.a",
     "B1,H1,d1,cap4,story=step.a.2+truncate.a.1"},
    {"commands(queries > 1 && held > queries)",
     "B1,H1,d1,cap4,story=step.a.2+step.a.2",
     "B1,H1,d1,cap4,story=step.a.2+step.a.1"},
    {"commands(new > 0 && sequence == 1)",
     "B2,H1,d1,cap4,story=step.a.2+append.b.1",
     "B2,H1,d1,cap4,story=step.a.2+append.a.1"},
    {"commands(verb == evict && first < held)",
     "B1,H1,d1,cap4,story=step.a.3+evict.a.0.1",
     "B1,H1,d1,cap4,story=step.a.3+evict.a.2.1"},
    {"commands(new > 0 && shared == 2)",
     "B2,H1,d1,cap4,story=step.a.2+fork.a.b+append.a.1",
     "B2,H1,d1,cap4,story=step.a.2+step.b.2+append.a.1"},
    {"commands(verb == truncate && shared > 0)",
     "B2,H1,d1,cap4,story=step.a.2+fork.a.b+truncate.b.1",
     "B2,H1,d1,cap4,story=step.a.2+fork.a.b+reset.a+truncate.b.1"},
    // A reordering also changes the other sequences, by dropping their tokens;
    // an emptied sequence has nothing left that could change.
    {"commands(queries > 0 && disturbed == 1)",
     "B3,H1,d1,cap4,story=step.a.2+fork.a.b+reorder.aaa+attend.a.1",
     "B3,H1,d1,cap4,story=step.a.2+fork.a.b+reorder.aba+attend.a.1"},
    {"commands(new > 0 && disturbed > 0)",
     "B2,H1,d1,cap4,story=step.a.2+fork.a.b+append.b.1+append.a.1",
     "B2,H1,d1,cap4,story=step.a.2+fork.a.b+append.b.1+reset.a+append.a.1"},
    // With pages of 4: how many a command takes, and which tokens a window
    // still meets in a page that another sequence wrote to.
    {"commands(pages.taken == 2 && pages.made == 1)",
     "B1,H1,d1,cap8,story=append.a.1+reset.a+append.a.5",
     "B1,H1,d1,cap8,story=append.a.5"},
    {"commands(pages.copied_for_appended)",
     "B2,H1,d1,cap8,story=append.a.3+fork.a.b+append.a.1+append.b.1+append.a.2"
     "+attend.a.1",
     "B2,H1,d1,cap8,win2,story=append.a.3+fork.a.b+append.a.1+append.b.1+"
     "append.a.2+attend.a.1"},
    {"commands(pages.kept_until_last)",
     "B3,H1,d1,cap4,story=append.a.3+fork.a.b+reset.a+append.c.1+attend.b.1",
     "B3,H1,d1,cap4,story=append.a.3+fork.a.b+append.c.1+attend.b.1"},
    {"commands(illegal)", "B1,H1,d1,cap2,story=step.a.2+step.a.1",
     "B1,H1,d1,cap3,story=step.a.2+step.a.1"},
    {"b_v", "B1,H1,T2,d1,D1,biases=v", "B1,H1,T2,d1,D1,biases=k"},
};

TEST(Condition, ReadsTheCase) {
  for (const auto& [text, yes, no] : kPairs) {
    EXPECT_TRUE(holds(text, yes)) << text << " in " << yes;
    EXPECT_FALSE(holds(text, no)) << text << " in " << no;
  }
}

// The calls that a law makes of a case count as well: with another case, on
// other threads, with a mask that it wrote itself, or from another story.
TEST(Condition, LooksAtTheCallsOfTheLaw) {
  const Case plain = case_of("B1,H1,Tq2,Tk3,d1");
  Plan plan;
  plan.calls.emplace_back();
  EXPECT_FALSE(condition("causal || threads > 1 || lse || rows(seen == 0)")
                   .holds_in_any(situations_of(plain, plan)));
  plan.calls[0].variant = case_of("B1,H1,Tq2,Tk3,d1,causal=br");
  plan.calls.emplace_back();
  plan.calls[1].threads = 3;
  plan.calls[1].want_lse = true;
  const std::vector<Situation> all = situations_of(plain, plan);
  EXPECT_TRUE(condition("causal").holds_in_any(all));
  EXPECT_TRUE(condition("!causal").holds_in_any(all));
  EXPECT_TRUE(condition("threads > 2 && lse").holds_in_any(all));
  // In one situation, not in two of them together.
  EXPECT_FALSE(condition("causal && threads > 1").holds_in_any(all));

  Plan masked;
  masked.calls.emplace_back();
  masked.calls[0].variant = case_of("B1,H1,Tq2,Tk3,d1,mask=but0");
  masked.calls[0].edit = [](const Case&, int64_t, Inputs& inputs) {
    inputs.mask.assign(6, 0);
  };
  EXPECT_TRUE(condition("rows(seen == 0) == 2")
                  .holds_in_any(situations_of(plain, masked)));
}

// A row that is not there would be edited beyond the tensors of the case.
TEST(Condition, LooksAtNoCallThatALawDoesNotMake) {
  const Case value = case_of("B1,H1,Tq1,Tk2,d1,kvlen=0");
  const Law& law = *find_law("masked_nonfinite_is_ignored");
  const Plan plan = law.plan(value, KernelInfo{});
  ASSERT_FALSE(plan.not_applicable.empty());
  ASSERT_FALSE(plan.calls.empty());
  EXPECT_EQ(situations_of(value, plan).size(), 1u);
  EXPECT_FALSE(
      condition("rows(seen > 0)").holds_in_any(situations_of(value, plan)));
}

TEST(Condition, LooksAtTheStoriesOfTheLaw) {
  const Case value = case_of("B1,H1,d1,cap4,story=step.a.2");
  const Law& law = *find_law("cache_decode_equals_prefill");
  const Plan plan = law.plan(value, KernelInfo{});
  const Condition decode = condition("commands(new == 1 && before == 1)");
  EXPECT_FALSE(decode.holds(Situation(value)));
  EXPECT_TRUE(decode.holds_in_any(situations_of(value, plan)));
}

TEST(Condition, RefusesWithAPlaceAndWhatIsAllowed) {
  const struct {
    const char *text, *error;
  } rows[] = {
      {"causal && Tqq < Tk", "character 11: unknown name Tqq; allowed: B, H"},
      {"seen > 1", "character 1: unknown name seen; allowed: B"},
      {"rows(sean > 1)", "character 6: unknown name sean; allowed: row, seen"},
      {"commands(verb == jump)", "character 18: unknown verb; allowed: append"},
      {"dtype > f16", "character 7: expected == or != after dtype"},
      {"dtype == gaps", "character 10: unknown dtype; allowed: f64"},
      {"Tq <", "character 5: expected a name, a number"},
      {"Tq = Tk", "character 4: expected an operator or the end"},
      {"(Tq > 1", "character 8: expected )"},
      {"1 < Hkv < H", "character 9: expected one comparison"},
      {"rows(members(keys))", "character 6: expected no rows()"},
      {"rows", "character 5: expected ("},
      {"Tq\n> 1", "character 3: expected an operator"},
      {"99999999999999999999", "character 1: expected a name, a number"},
  };
  for (const auto& [text, error] : rows) {
    const ParsedCondition parsed = parse_condition(text);
    EXPECT_FALSE(parsed.value) << text;
    EXPECT_NE(parsed.error.find(error), std::string::npos)
        << text << ": " << parsed.error;
    EXPECT_EQ(parsed.error.find('\n'), std::string::npos) << text;
  }
  const std::string deep(1000, '(');
  EXPECT_NE(parse_condition(deep + "1").error.find("fewer parentheses"),
            std::string::npos);
}

TEST(Condition, FieldsOfOptionsAreWords) {
  const std::string value = "B2,H2,Tq4,Tk5,d2,window=3.0,chunk=7,tree=2";
  const Case with = case_of(value);
  for (const OptionField& field : option_fields()) {
    const std::string word(field.word.empty() ? "1" : field.word);
    const int64_t number = field.word.empty() ? 1 : field.get(with);
    EXPECT_TRUE(holds(word + " == " + std::to_string(number), value)) << word;
  }
  EXPECT_TRUE(holds("chunk == 7 && tree.children == 2", value));
}

}  // namespace
}  // namespace qkvet::properties::condition_test
