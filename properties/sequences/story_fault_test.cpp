// SPDX-License-Identifier: Apache-2.0
// The tokens that reach an answer, and the source of the mistake: caches that
// are wrong in a known way, each with its own report, and right ones, without a
// report.
#include "properties/sequences/story_fault.h"

#include <gtest/gtest.h>

#include <memory>

#include "properties/cases/generate.h"
#include "properties/conventions/domain.h"
#include "properties/run/fault_of.h"
#include "properties/run/shrink.h"
#include "properties/testing/fake_tables.h"

namespace qkvet::properties::story_fault_test {
namespace {

// The report on a cache that fails, one string for each line.
std::vector<std::string> lines_of(const std::string& law,
                                  const std::string& text, Executor& executor,
                                  bool reads_back = true) {
  KernelUnderTest kernel = FakeTables::under_test();
  kernel.judged.info.has_read_back = reads_back;
  const ParsedCase parsed = parse_case(text);
  EXPECT_TRUE(parsed.value) << parsed.error;
  const Law& failed = *find_law(law);
  TimeUse time;
  const Judgement judgement = check_case(failed, *parsed.value, kernel.judged,
                                         0, executor, false, time);
  EXPECT_EQ(judgement.verdict, Verdict::kFailed) << law << judgement.reason;
  const StoryFault fault = fault_of(failed, *parsed.value, judgement,
                                    kernel.judged, 0, executor, time);
  std::vector<std::string> lines;
  for (const Reach& reach : fault.reaches) lines.push_back(reach_text(reach));
  lines.push_back(fault.whose);
  return lines;
}
std::vector<std::string> lines_of(const std::string& law,
                                  const std::string& text, Spoil spoil,
                                  bool reads_back = true) {
  FakeTables executor(std::move(spoil));
  return lines_of(law, text, executor, reads_back);
}
using Lines = std::vector<std::string>;

const char* const kHistory = "cache_agrees_with_history";
const char* const kAttention =
    "The storage is right: sequence a holds its history. The attention over it "
    "is wrong.";
const char* const kStorage =
    "The attention is right: over what the cache holds its output is within "
    "the bound. The storage is wrong: ";

TEST(StoryFault, ATokenOfAnotherSequenceIsALeak) {
  Spoil spoil;
  spoil.reorders_in_place = true;
  // b finds its own token, which is a's by now.
  EXPECT_EQ(
      lines_of(kHistory,
               "f32,B2,H1,d2,cap4,story=step.a.1+step.b.1+reorder.ba+step.b.1",
               spoil),
      (Lines{"LEAK: a token of sequence a reaches sequence b: b0, which a "
             "holds now",
             std::string(kStorage) +
                 "token 0 of sequence b holds b0's key and value."}));
  spoil = {};
  spoil.sequence = [](int64_t) { return 0; };
  EXPECT_EQ(
      lines_of(kHistory, "f32,B2,H1,d2,cap4,story=step.a.2+step.b.1", spoil),
      (Lines{"LEAK: a token of sequence a reaches sequence b: a0, a1",
             "The storage is wrong: sequence b holds 0 tokens and should "
             "hold 1."}));
}

// A token that the law appends has no letter and number of its own: the picture
// of the story shows which call brings it.
TEST(StoryFault, ATokenThatTheLawPutInIsNamedByItsCall) {
  Spoil spoil;
  spoil.reorders_in_place = true;
  EXPECT_EQ(lines_of("cache_reorder_moves_histories",
                     "f32,B2,H1,d1,cap4,story=step.a.1+step.a.1", spoil),
            (Lines{"LEAK: a token of sequence b reaches sequence a: the NaN of "
                   "call 4",
                   "The storage is wrong: sequence a holds 2 tokens and should "
                   "hold 1."}));
}

TEST(StoryFault, ManyTokensAreNamedInPart) {
  Spoil spoil;
  spoil.sequence = [](int64_t) { return 0; };
  EXPECT_EQ(lines_of(kHistory, "f32,B2,H1,d2,cap16,story=step.a.9+step.b.1",
                     spoil)[0],
            "LEAK: a token of sequence a reaches sequence b: a0, a1, a2, a3 "
            "and others");
}

TEST(StoryFault, ATokenThatTheSequenceHasLostIsStale) {
  Spoil spoil;
  spoil.truncate = [](FakeTokens& tokens, int64_t count) {
    tokens.erase(tokens.begin(), tokens.end() - count);
  };
  EXPECT_EQ(
      lines_of(
          kHistory,
          "f32,B2,H1,d1,cap4,story=step.b.1+step.a.2+truncate.a.1+step.a.1",
          spoil),
      (Lines{"STALE: token a1, which was taken back, reaches sequence a",
             std::string(kStorage) +
                 "token 0 of sequence a holds a1's key and value."}));
  spoil = {};
  spoil.evict = [](FakeTokens& tokens, int64_t, int64_t count) {
    tokens.resize(tokens.size() - static_cast<size_t>(count));
  };
  EXPECT_EQ(
      lines_of(kHistory,
               "f32,B1,H1,d1,cap4,story=append.a.2+evict.a.0.1+attend.a.1",
               spoil),
      (Lines{"STALE: token a0, which was evicted, reaches sequence a",
             std::string(kStorage) +
                 "token 0 of sequence a holds a0's key and value."}));
  spoil = {};
  spoil.fork = [](const FakeTokens& from, FakeTokens& to) {
    const FakeTokens before = to;
    to = from;
    if (!to.empty() && !before.empty()) to.back().v = before.back().v;
  };
  EXPECT_EQ(
      lines_of(kHistory,
               "f32,B2,H1,d1,cap4,story=step.a.1+step.b.1+fork.a.b+attend.b.1",
               spoil),
      (Lines{
          "STALE: token b0, which was dropped by a fork, reaches sequence b",
          std::string(kStorage) + "token 0 of sequence b holds b0's value."}));
  spoil = {};
  spoil.reset = [](FakeTokens& tokens) { tokens.resize(1); };
  EXPECT_EQ(
      lines_of(kHistory, "f32,B1,H1,d1,cap4,story=step.a.2+reset.a+step.a.1",
               spoil),
      (Lines{"STALE: token a0, which was reset, reaches sequence a",
             "The storage is wrong: sequence a holds 2 tokens and should "
             "hold 1."}));
}

// Adds the tokens that it has refused to its answers.
class KeepsWhatItRefuses : public FakeTables {
 public:
  std::vector<CallOutcome> run(int kernel,
                               std::span<const KernelCall> calls) override {
    auto outcomes = FakeTables::run(kernel, calls);
    double kept = 0;
    for (size_t i = 0; i < calls.size(); ++i) {
      if (calls[i].operation == Operation::kCacheCreate) kept = 0;
      if (outcomes[i].status == CallStatus::kRefused && calls[i].v != nullptr)
        kept += floats_as_doubles(calls[i].v, 1)[0];
      if (outcomes[i].o.empty()) continue;
      const double first = floats_as_doubles(outcomes[i].o.data(), 1)[0];
      const auto sum = doubles_as_floats({first + kept});
      std::copy(sum.begin(), sum.end(), outcomes[i].o.begin());
    }
    return outcomes;
  }
};

TEST(StoryFault, ATokenThatWasRefusedIsStale) {
  KeepsWhatItRefuses executor;
  EXPECT_EQ(lines_of("cache_refuses_illegal_calls",
                     "f32,B1,H1,d1,cap2,story=step.a.1", executor),
            (Lines{"STALE: the NaN of call 5, which was refused, reaches "
                   "sequence a",
                   kAttention}));
}

// The own history may be read wrongly in every way: no other token reaches it.
TEST(StoryFault, WhatStaysInItsHistoryIsNoLeak) {
  Spoil spoil;
  spoil.question = [](Problem& problem) { problem.causal = Causal::kNone; };
  EXPECT_EQ(
      lines_of(kHistory, "f32,B2,H1,d1,cap4,story=append.b.2+step.a.3", spoil),
      Lines{kAttention});
  spoil = {};
  spoil.sees = [](const CacheForm& form, int64_t i, int64_t j) {
    return j <= i && j >= i - form.window;
  };
  EXPECT_EQ(lines_of(kHistory,
                     "f32,B2,H1,d1,cap4,win1,story=append.b.2+append.a.1+"
                     "step.a.2",
                     spoil),
            Lines{kAttention});
}

// Zeros, other numbers, and the head that they are in.
TEST(StoryFault, WhatIsNoTokenIsSaidToBeNone) {
  const char* const text =
      "f32,B1,H4,Hkv2,d2,cap4,stored=int8token,story=step.a.2";
  const char* const law = "cache_stores_what_it_is_given";
  Spoil spoil;
  spoil.store = [](double* row, int64_t width) {
    for (int64_t c = 0; c < width; ++c) row[c] = std::nearbyint(row[c] + 0.5);
  };
  EXPECT_EQ(lines_of(law, text, spoil),
            Lines{"The storage is wrong: token 0 of sequence a holds no token "
                  "of this story, and 1 token more is wrong."});
  spoil.store = [](double* row, int64_t width) {
    std::fill(row, row + width, 0.0);
  };
  EXPECT_EQ(lines_of(law, text, spoil),
            Lines{"The storage is wrong: token 0 of sequence a holds zeros, "
                  "and 1 token more is wrong."});
  spoil = {};
  spoil.append = [](FakeTokens& tokens, FakeTokens more) {
    for (FakeToken& token : more) {
      token.k[0] = token.k[1] = token.k[2];  // of the first head
      tokens.push_back(token);
    }
  };
  EXPECT_EQ(lines_of(law, "f32,B1,H2,d2,cap4,story=step.a.1", spoil),
            Lines{"The storage is wrong: token 0 of sequence a holds the key "
                  "of no token of this story in kv head 0."});
}

TEST(StoryFault, BothMayBeWrong) {
  Spoil spoil;
  spoil.reorders_in_place = true;
  spoil.question = [](Problem& problem) { problem.scale = 2; };
  EXPECT_EQ(
      lines_of(kHistory,
               "f32,B2,H1,d2,cap4,story=append.a.1+append.b.1+reorder.ba+"
               "step.b.1",
               spoil)
          .back(),
      "Both are wrong. The storage: token 0 of sequence b holds b0's key and "
      "value. The attention: its output is not that over what the cache "
      "holds.");
}

// Two ways are compared, and the other one is wrong.
TEST(StoryFault, TheAnswerThatIsWrongIsNamed) {
  Spoil spoil;
  spoil.question = [](Problem& problem) {
    if (problem.shape.Tq > 1) problem.causal = Causal::kNone;
  };
  EXPECT_EQ(lines_of("cache_decode_equals_prefill",
                     "f32,B1,H1,d1,cap4,story=step.a.2", spoil),
            Lines{"In call 1, step.a.2: " + std::string(kAttention)});
}

// A chunk that overwrites a token which its first query still sees. After the
// chunk the cache no longer has to hold that token.
TEST(StoryFault, WhatMayBeGoneIsNotJudged) {
  Spoil spoil;
  spoil.sees = [](const CacheForm& form, int64_t i, int64_t j) {
    return i == 1 ? j == 1 : form.sees(i, j);
  };
  EXPECT_EQ(lines_of(kHistory,
                     "f32,B1,H1,d1,cap4,win2,story=append.a.1+step.a.2", spoil),
            Lines{"Not known: what the first queries of a step saw may be "
                  "gone behind it."});
  // If one more token can be taken back, all of it must still be there.
  EXPECT_EQ(lines_of(kHistory,
                     "f32,B1,H1,d1,cap4,win2,rollback1,"
                     "story=append.a.1+step.a.2",
                     spoil),
            Lines{kAttention});
}

TEST(StoryFault, WithoutReadBackItIsNotKnownWhose) {
  Spoil spoil;
  spoil.reorders_in_place = true;
  EXPECT_EQ(
      lines_of(kHistory,
               "f32,B2,H1,d2,cap4,story=step.a.1+step.b.1+reorder.ba+step.b.1",
               spoil, /*reads_back=*/false),
      (Lines{"LEAK: a token of sequence a reaches sequence b: b0, which a "
             "holds now",
             "Not known: the cache has no read_back."}));
}

// With finite numbers, weight 0 hides a token that NaN shows.
TEST(StoryFault, ATokenWithWeightZeroReachesWhenItIsNan) {
  const auto seen = std::make_shared<bool>(false);
  Spoil spoil;
  spoil.append = [seen](FakeTokens& tokens, FakeTokens more) {
    for (const FakeToken& token : more) *seen |= std::isnan(token.v[0]);
    tokens.insert(tokens.end(), more.begin(), more.end());
  };
  spoil.question = [seen](Problem& problem) {
    if (*seen) problem.scale = std::numeric_limits<double>::quiet_NaN();
    *seen = false;
  };
  EXPECT_EQ(
      lines_of("cache_truncate_forgets", "f32,B1,H1,d1,cap4,story=step.a.1",
               spoil),
      (Lines{"STALE: the NaN of call 3, which was taken back, reaches sequence "
             "a, if it is NaN",
             kAttention}));
}

// There is no report on a kernel that gives other bits every time, whatever it
// reads.
TEST(StoryFault, AnUnsteadyKernelIsLeftAlone) {
  Spoil spoil;
  const auto calls = std::make_shared<int>(0);
  spoil.reorders_in_place = true;
  spoil.question = [calls](Problem& problem) {
    problem.scale *= 1 + 0.001 * ++*calls;
  };
  EXPECT_EQ(
      lines_of(kHistory,
               "f32,B2,H1,d2,cap4,story=step.a.1+step.b.1+reorder.ba+step.b.1",
               spoil),
      Lines{""});
}

// Adds the inputs of the previous cache to its answers, like memory that is
// freed, reused and not written.
class ReadsEarlierCaches : public FakeTables {
 public:
  std::vector<CallOutcome> run(int kernel,
                               std::span<const KernelCall> calls) override {
    auto outcomes = FakeTables::run(kernel, calls);
    for (size_t i = 0; i < calls.size(); ++i) {
      if (calls[i].operation == Operation::kCacheCreate)
        before_ = std::exchange(now_, 0);
      if (calls[i].v != nullptr) now_ += floats_as_doubles(calls[i].v, 1)[0];
      if (outcomes[i].o.empty()) continue;
      const auto o = floats_as_doubles(outcomes[i].o.data(), 1);
      outcomes[i].o = doubles_as_floats({o[0] + before_});
    }
    return outcomes;
  }

 private:
  double before_ = 0, now_ = 0;
};

TEST(StoryFault, WhatAnEarlierCacheLeftIsNoTokenOfThisStory) {
  ReadsEarlierCaches executor;
  const KernelUnderTest kernel = FakeTables::under_test();
  const Case value =
      *parse_case("f32,B3,H1,d1,cap4,story=append.b.1+append.c.1+step.a.1")
           .value;
  const auto plan = find_law(kHistory)->plan(value, kernel.judged.info).calls;
  TimeUse time;
  const StoryFault fault =
      fault_at(value, plan, plan.size() - 1, kernel.judged, 0, executor, time);
  EXPECT_TRUE(fault.reaches.empty()) << reach_text(fault.reaches[0]);
  EXPECT_EQ(fault.whose, kAttention);
}

TEST(StoryFault, OtherFailuresHaveNone) {
  Spoil spoil;
  spoil.refuses = false;
  EXPECT_EQ(lines_of("cache_refuses_illegal_calls",
                     "f32,B1,H1,d1,cap4,story=step.a.1", spoil),
            Lines{""});
}

TEST(StoryFault, NothingIsSaidOfWhatIsRight) {
  const KernelUnderTest kernel = FakeTables::under_test();
  FakeTables right;
  Scope scope;
  scope.largest = SizeClass::kSmall;
  keep_scope_to({kernel}, scope);
#ifdef QKVET_SANITIZED
  constexpr int64_t kPerLaw = 2;
#else
  constexpr int64_t kPerLaw = 6;
#endif
  TimeUse time;
  int answers = 0;
  for (const Law* law : all_laws())
    for (int64_t n = 1; law->domain.subject == Subject::kCache && n <= kPerLaw;
         ++n) {
      const Case value = planned_case(*law, 91, n, scope);
      const auto plan = law->plan(value, kernel.judged.info).calls;
      for (size_t i = 0; i < plan.size(); ++i) {
        const StoryFault fault =
            fault_at(value, plan, i, kernel.judged, 0, right, time);
        ASSERT_TRUE(fault.reaches.empty())
            << law->id << " " << to_string(value) << " "
            << reach_text(fault.reaches[0]);
        ASSERT_EQ(fault.whose, "") << law->id << " " << to_string(value);
        answers += plan[i].snapshot && plan[i].snapshot->queries > 0;
      }
    }
  EXPECT_GT(answers, kPerLaw * 200 / 6);
}

}  // namespace
}  // namespace qkvet::properties::story_fault_test
